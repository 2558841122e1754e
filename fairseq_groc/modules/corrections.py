"""Corrections: what words that training has read add to what they are composed of.

V: words; w: width of a correction; d: embedding size.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from fairseq_groc.modules.rows import WordRows


class Corrections(nn.Module):
    """R_x, added to composed embeddings, and R^b_x, added to the predicted bias; both begin at 0.

    e_x = compose(x) + m_x M R_x, as Jozefowicz et al. (2016, section 3.2) correct a CNN softmax. A word that training has not
    read keeps 0: it is exactly what it is composed of. In training m_x is 0 with chance q for the whole word, one draw a step, so
    that compose(x) learns to stand alone.

    Parameters: V (w + 1), and w d for M where w is not d.

    Args:
        words: of the vocabulary
        dim: d
        width: w
        dropout: q
        where: ``input``, ``output`` or ``both``: which embeddings are corrected; the bias goes with the output
    """

    def __init__(self, words: Sequence[str], dim: int, width: int, dropout: float, where: str = "both"):
        super().__init__()
        self.rows, self.bias = WordRows(words, width), WordRows(words, 1)
        self.map = nn.Linear(width, dim, bias=False) if width != dim else None
        self.dropout, self.where = dropout, where
        self.may_begin: Optional[Tensor] = None  # in training: mask (V) of words that get a correction if they have none
        self._absent: Optional[Tensor] = None  # mask (V) of those that go without in this step

    def present(self) -> Tensor:
        """Return the mask (V) of words that have a correction."""
        return self.rows.weight.detach().any(1) | self.bias.weight.detach().any(1)

    @torch.no_grad()
    def begin_step(self, random: torch.Generator) -> None:
        """Draw m for a training step."""
        device = self.rows.weight.device
        have = self.present() if self.may_begin is None else self.present() | self.may_begin.to(device)
        self._absent = ~have | (torch.rand(len(have), generator=random) < self.dropout).to(device)

    def forward(self) -> Tuple[Tensor, Tensor]:
        """Return M R (V, d) and R^b (V), of some words alone where tables are told so (``growth.rows_of``)."""
        rows, bias = self.rows(), self.bias()
        if self.training and self._absent is not None:
            absent = self._absent.unsqueeze(1)
            rows, bias = rows.masked_fill(absent, 0), bias.masked_fill(absent, 0)
        return rows if self.map is None else self.map(rows), bias.squeeze(1)

    def correct(self, embeddings: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Return what is read (V, d), what the head gets (V, d), and what is added to its bias (V).

        Args:
            embeddings: composed, (V, d)
        """
        rows, bias = self()
        corrected = embeddings + rows
        read = embeddings if self.where == "output" else corrected
        # not zeros alone: workers expect a gradient of every parameter
        return (read, embeddings, bias * 0) if self.where == "input" else (read, corrected, bias)
