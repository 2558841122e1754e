"""Variational dropout: one mask for many positions (Gal and Ghahramani 2016)."""

from torch import Tensor, nn


class VariationalDropout(nn.Module):
    """Drop whole features: one mask shared along the given dimensions.

    Args:
        p: probability of dropping
        shared: dimensions along which the mask is the same, e.g. (0,) for all words of a (V, d) matrix
    """

    def __init__(self, p: float, shared):
        super().__init__()
        self.p = p
        self.shared = tuple(shared)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        shape = [1 if i in self.shared else n for i, n in enumerate(x.shape)]
        keep = 1 - self.p
        return x * x.new_empty(shape).bernoulli_(keep).div_(keep)

    def extra_repr(self) -> str:
        return f"p={self.p}, shared={self.shared}"
