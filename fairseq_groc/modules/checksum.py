"""A cheap sign that numbers have changed."""

from collections.abc import Sequence

import torch
from torch import Tensor

SMALL = 65_536  # numbers that have a weight each


class Checksum:
    """Weighted sums of tensors: unlike a norm, they change when signs or places do.

    Every place has a weight of its own, in a matrix of more than ``SMALL`` numbers that of its row times that of its column, so
    that nothing as large as the matrix is read besides it; rows and columns differ, or a transposed matrix would have the
    same sum. Scoring asks for them once a batch, so that every operation counts.
    """

    def __init__(self) -> None:
        self._rows = self._columns = torch.empty(0)

    @torch.no_grad()
    def __call__(self, tensors: Sequence[Tensor]) -> list[float]:
        """Return the sum of each tensor, of any shape, in single precision."""
        if not tensors:
            return []
        device = tensors[0].device
        size = max([SMALL, *(length for tensor in tensors for length in tensor.shape)])
        if len(self._rows) < size or self._rows.device != device:
            places = torch.arange(1, size + 1, device=device, dtype=torch.float32)
            self._rows, self._columns = places.sin(), places.cos()
        with torch.autocast(device.type, enabled=False):
            return torch.stack([self._sum(tensor.detach().float()) for tensor in tensors]).tolist()

    def _sum(self, tensor: Tensor) -> Tensor:
        if tensor.numel() <= SMALL:
            return tensor.reshape(-1).dot(self._columns[: tensor.numel()])
        matrix = tensor.reshape(len(tensor), -1)
        rows, columns = matrix.shape
        return matrix.mv(self._columns[:columns]).dot(self._rows[:rows])
