"""Rows that move together: kept ones follow those that are computed anew.

F: rows; C: columns; k: coordinates of a row.
"""

import torch
from torch import Tensor

RANK = 31  # of the movement; with the one, 32 columns
SAMPLE = 2_048  # rows that the principal directions are found from
RIDGE = 10.0  # observations of no movement that a fit begins with


class DriftingRows:
    """A matrix Z (F, C) of which some rows are renewed at a time; the others move as these did.

    Z = K + Q M: Q (F, k) are the rows' coordinates when all were known, a one and their leading principal components, M (k, C)
    is the movement since, fitted to the renewed rows by ridge regression. K never changes but for renewed rows, so a
    movement of all rows costs nothing that grows with F times C. K and Q are one matrix, so that Z W^T is one product.

    Args:
        rows: Z, (F, C), taken over
        random: for the directions' first guess
    """

    def __init__(self, rows: Tensor, random: torch.Generator):
        coordinates = _coordinates(rows, random)
        self.movement = coordinates.new_zeros(coordinates.size(1), rows.size(1))  # M, float32 or wider
        self._both = torch.cat([rows, coordinates.to(rows.dtype)], dim=1)
        self.rows, self.coordinates = self._both.split([rows.size(1), coordinates.size(1)], dim=1)  # K and Q: views

    def renew(self, which: Tensor, now: Tensor) -> None:
        """Say what some rows are now, (n, C); the others follow."""
        q, now = self.coordinates[which], now.to(self.rows.dtype)
        wide = q.to(self.movement.dtype)
        gram = wide.t() @ wide
        # Q^T (Z_now - Z) without Z: sums over the renewed rows are all that the fit needs
        moved = (q.t() @ (now - self.rows.index_select(0, which))).to(self.movement.dtype) - gram @ self.movement
        self.movement += torch.linalg.solve(gram + RIDGE * torch.eye(len(gram)).to(gram), moved)
        self.rows.index_copy_(0, which, torch.addmm(now, q, self.movement.to(now.dtype), alpha=-1))

    def all(self) -> Tensor:
        """Return Z, (F, C)."""
        return torch.addmm(self.rows, self.coordinates, self.movement.to(self.rows.dtype))

    def times(self, weight: Tensor) -> Tensor:
        """Return Z W^T, (F, d), for W (d, C)."""
        wide = weight.to(self.movement.dtype)
        both = torch.cat([wide, wide @ self.movement.t()], dim=1)  # (d, C + k)
        return (self._both @ both.to(self._both.dtype).t()).to(weight.dtype)

    def times_transposed(self, grad: Tensor) -> Tensor:
        """Return G^T Z, (d, C), for G (F, d)."""
        turned = grad.to(self.rows.dtype).t()
        # one product of both would be slower on CPUs: twice the time at a width that is no power of two
        rows, coordinates = ((turned @ part).to(self.movement.dtype) for part in (self.rows, self.coordinates))
        return torch.addmm(rows, coordinates, self.movement).to(grad.dtype)


def _coordinates(rows: Tensor, random: torch.Generator) -> Tensor:
    """Return a one and the principal components of every row, each with mean square 1, (F, k)."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    step = -(-len(rows) // SAMPLE)
    sample = rows[::step].to(wide)
    mean = sample.mean(0)
    sample = sample - mean
    rank = min(RANK, *sample.shape)
    directions = torch.randn(rows.size(1), rank, generator=random, dtype=torch.float64).to(sample)
    for _ in range(3):  # subspace iteration
        directions = torch.linalg.qr(sample.t() @ (sample @ directions))[0]
    components = (rows @ directions.to(rows.dtype)).to(wide) - mean @ directions
    components /= components.square().mean(0).sqrt().clamp(min=torch.finfo(wide).tiny)
    return torch.cat([components.new_ones(len(rows), 1), components], dim=1)
