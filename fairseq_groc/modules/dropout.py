"""Dropout of weights, of words, and with one mask for many positions (Gal and Ghahramani 2016)."""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.errors import OptionError


def mask_like(x: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Return a mask that drops with a chance of *p*: 0, else 1 / (1 - p); of x's type and device.

    It is drawn by ``rand``, in float32: ``bernoulli_``, and so ``F.dropout``, takes longer on CPUs.
    """
    return (torch.rand(*shape, device=x.device) >= p).to(x.dtype).div_(1 - p)


class VariationalDropout(nn.Module):
    """Drop whole features: one mask shared along the given dimensions.

    Args:
        p: probability of dropping
        shared: dimensions along which the mask is the same, e.g. (0,) for all words of a (V, d) matrix

    Raises:
        OptionError: p is none, or leaves nothing.
    """

    def __init__(self, p: float, shared: Iterable[int]):
        super().__init__()
        if not 0 <= p < 1:
            raise OptionError(f"dropout {p}: expected a number from 0 to below 1")
        self.p = p
        self.shared = tuple(shared)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        shape = [1 if i in self.shared else n for i, n in enumerate(x.shape)]
        return x * mask_like(x, shape, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, shared={self.shared}"


def drop_words(rows: Tensor, numbers: Tensor, count: int, p: float) -> Tensor:
    """Return rows (..., d), zero for words that are drawn with a chance of *p*, wherever they are; others are divided by 1 - p.

    One draw a word (Merity et al. 2018, section 4.3): whoever else has the word's embedding has it whole.

    Args:
        rows: embeddings, (..., d)
        numbers: of the words whose they are, (...), below *count*
        count: V
        p: 0 to below 1
    """
    return rows * F.embedding(numbers, mask_like(rows, (count, 1), p))
