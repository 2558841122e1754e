"""Corrections: what a word that training has read adds to what it is composed of.

V: words; w: width of a correction; d: embedding size.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from fairseq_groc.modules.rows import WordRows


class Corrections(nn.Module):
    """R_x, added to composed embeddings, and R^b_x, added to the predicted bias; both begin at 0.

    e_x = compose(x) + m_x M R_x, as Jozefowicz et al. (2016, section 3.2) correct their CNN softmax. A word that training has not
    read keeps 0: it is exactly what it is composed of. In training m_x is 0 with a chance of ``dropout`` for the whole word, one
    draw a step, so that compose(x) learns to stand alone.

    Parameters: V (w + 1), and w d for M where w is not d.

    Args:
        words: of the vocabulary
        dim: d
        width: w
        dropout: q
        where: ``input``, ``output`` or ``both``: which embeddings are corrected
    """

    def __init__(self, words: Sequence[str], dim: int, width: int, dropout: float, where: str = "both"):
        super().__init__()
        self.rows, self.bias = WordRows(words, width), WordRows(words, 1)
        self.map = nn.Linear(width, dim, bias=False) if width != dim else None
        self.dropout, self.where = dropout, where
        self.trained: Optional[Tensor] = None  # mask (V) of the words that training gives one
        self._absent: Optional[Tensor] = None  # mask (V) of those that go without in this step

    def begin_step(self, random: torch.Generator) -> None:
        """Draw m for a training step."""
        trained = torch.ones(len(self.rows.words), dtype=torch.bool) if self.trained is None else self.trained
        self._absent = ~trained | (torch.rand(len(trained), generator=random) < self.dropout)

    def forward(self) -> Tuple[Tensor, Tensor]:
        """Return M R (V, d) and R^b (V)."""
        rows, bias = self.rows(), self.bias()
        if self.training and self._absent is not None:
            absent = self._absent.to(rows.device).unsqueeze(1)
            rows, bias = rows.masked_fill(absent, 0), bias.masked_fill(absent, 0)
        return rows if self.map is None else self.map(rows), bias.squeeze(1)

    def count(self) -> int:
        """Return how many words have a correction."""
        return int(self.rows.weight.detach().any(1).sum())
