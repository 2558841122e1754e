"""Corrections: what words that training has read add to what they are composed of.

V: words; w: width of a correction; d: embedding size.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.embeddings.rows import WordRows

logger = logging.getLogger(__name__)
RARE = 10  # occurrences in the training text


class Corrections(nn.Module):
    """R_x, added to composed embeddings, and R^b_x, added to the predicted bias; both begin at 0.

    E_in = C + m M R and E_out = head(C) + m M R, as Jozefowicz et al. (2016, section 3.2) correct a CNN softmax; C is composed.
    A word that training has not read keeps 0: it is exactly what it is composed of. In training m_x is 0 with a chance for the
    whole word, one draw a step, so that what is composed learns to stand alone. The chance is q for words of at most ``RARE``
    occurrences, and less for others by as much as they are more frequent: so each goes without at as many occurrences, new words
    are like rare ones, and the predictions of frequent ones, that all others depend on, are hardly disturbed.

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
        self._occurrences, self._least = torch.zeros(0, dtype=torch.long), 1  # of words in the text that is trained on
        self._have: Tensor | None = None  # in training: mask (V) of those that have one or get one
        self._chance = torch.zeros(0)  # in training: of each word to go without in a step, (V)
        self._kept: Tensor | None = None  # m, (V, 1)
        self.register_load_state_dict_post_hook(Corrections.look_again)

    def begin(self, occurrences: Tensor, least: int = 1) -> int:
        """Let words of a training text get a correction, those that it has often enough; return how many.

        Args:
            occurrences: how often the text has each word, (V)
            least: how often is often enough, 1 or more
        """
        self._occurrences, self._least, self._have = occurrences, least, None
        return int((occurrences >= least).sum())

    def present(self) -> Tensor:
        """Return the mask (V) of words that have a correction."""
        return self.rows.weight.detach().any(1) | self.bias.weight.detach().any(1)

    def look_again(self, _: Any = None) -> None:
        """Find out which words have a correction, after they were loaded."""
        self._have = None
        logger.info(f"corrections: {int(self.present().sum()):,} of {len(self.rows.weight):,} words of the dictionary have one")

    @torch.no_grad()
    def begin_step(self, random: torch.Generator) -> None:
        """Draw m for a training step."""
        size = len(self.rows.weight)
        if self._have is None or len(self._have) != size:
            occurrences = F.pad(self._occurrences, (0, size - len(self._occurrences)))  # the text lacks words that were added
            self._have = self.present() | (occurrences >= self._least).to(self.rows.weight.device)
            self._chance = self.dropout * (RARE / occurrences.clamp(min=1)).clamp(max=1)
        kept = torch.rand(size, generator=random) >= self._chance
        self._kept = (self._have & kept.to(self._have.device)).unsqueeze(1).to(self.rows.weight.dtype)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return M R (V, d) and R^b (V), of some words alone where tables are told so (``growth.rows_of``)."""
        rows, bias = self.rows(), self.bias()
        return rows if self.map is None else self.map(rows), bias

    def correct(self, inputs: Tensor, outputs: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return E_in (V, d), E_out (V, d) and the bias (V), corrected.

        Args:
            inputs: composed embeddings, (V, d)
            outputs: what the head makes of them, (V, d)
            bias: predicted, (V)
        """
        rows, more = self()
        m = self._kept[self.rows.part] if self.training and self._kept is not None else rows.new_ones(1, 1)
        if self.where == "input":  # workers expect a gradient of every parameter
            return torch.addcmul(inputs, rows, m), outputs, bias + more.squeeze(1) * 0
        bias, corrected = bias + (more * m).squeeze(1), torch.addcmul(outputs, rows, m)
        if self.where == "output":
            return inputs, corrected, bias
        return corrected if outputs is inputs else torch.addcmul(inputs, rows, m), corrected, bias
