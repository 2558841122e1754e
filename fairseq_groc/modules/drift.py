"""Rows that move together: kept ones follow those that are computed anew.

F: rows; C: columns; k: coordinates of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

RANK = 32  # of the movement
SAMPLE = 2_048  # rows that the principal directions are found from
RIDGE = 10.0  # observations of no movement that a fit begins with


class DriftingRows:
    """A matrix Z (F, C) of which some rows are renewed at a time; the others move as these did.

    Z = K + Q M: Q (F, k) are the rows' coordinates when all were known, a one and their leading principal components, M (k, C)
    is the movement since, fitted to the renewed rows by ridge regression. K never changes but for renewed rows, so a
    movement of all rows costs nothing that grows with F times C.

    Args:
        rows: Z, (F, C), taken over
        random: for the directions' first guess
    """

    def __init__(self, rows: Tensor, random: torch.Generator):
        self.rows = rows  # K
        self.coordinates = _coordinates(rows, random)  # Q, float32 or wider
        self.movement = self.coordinates.new_zeros(self.coordinates.size(1), rows.size(1))  # M

    def renew(self, which: Tensor, now: Tensor) -> None:
        """Say what some rows are now, (n, C); the others follow."""
        q = self.coordinates[which]
        now = now.to(q.dtype)
        gram = q.t() @ q
        # Q^T (Z_now - Z) without Z: sums over the renewed rows are all that the fit needs
        moved = q.t() @ (now - self.rows[which]) - gram @ self.movement
        self.movement += torch.linalg.solve(gram + RIDGE * torch.eye(len(gram), dtype=q.dtype, device=q.device), moved)
        self.rows[which] = torch.addmm(now, q, self.movement, alpha=-1).to(self.rows.dtype)

    def times(self, weight: Tensor) -> Tensor:
        """Return Z W^T, (F, d), for W (d, C)."""
        product = (self.rows @ weight.to(self.rows.dtype).t()).to(self.movement.dtype)
        return product.addmm_(self.coordinates, self.movement @ weight.to(self.movement.dtype).t()).to(weight.dtype)

    def times_transposed(self, grad: Tensor) -> Tensor:
        """Return G^T Z, (d, C), for G (F, d)."""
        product = (grad.to(self.rows.dtype).t() @ self.rows).to(self.movement.dtype)
        return product.addmm_(grad.to(self.movement.dtype).t() @ self.coordinates, self.movement).to(grad.dtype)


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
