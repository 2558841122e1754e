"""The CNN softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.embeddings.base import CORRECTIONS
from fairseq_groc.embeddings.compositional import SURFACE, SurfaceEncoder
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.heads.base import OutputHead, register_head


@register_head("convolutional", "rows", **SURFACE, correction_dim=CORRECTIONS["correction_dim"])
class ConvolutionalOutput(OutputHead):
    """E_out = CNN(characters) + correction M: a CNN softmax with a linear correction a word (Jozefowicz et al. 2016).

    A word without a row is predicted from its spelling alone: its correction and its bias are zero.
    Parameters: V (cor + 1) + cor d and the encoder's: with C features in all, 263 e characters, sum of w e n + n over the
    filters (width w, count n), 2 (C^2 + C) a highway layer, C d.

    Args:
        words: of the vocabulary
        surface: encoder of spellings, to size d
        dim: d
        correction: cor, numbers a word
    """

    needs_spellings = True

    def __init__(self, words: Sequence[str], surface: SurfaceEncoder, dim: int, correction: int):
        super().__init__()
        self.surface = surface
        self.correction = WordRows(words, correction)
        self.mapping = nn.Linear(correction, dim, bias=False)
        self.bias = WordRows(words, 1)

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> ConvolutionalOutput:
        return cls(words, SurfaceEncoder.from_settings(dim, settings), dim, settings["correction_dim"])

    def begin(self, limit: float) -> None:
        """Draw the others from -limit to limit; the encoder of spellings stays as it was made."""
        surface = {*self.surface.parameters()}
        for parameter in self.parameters():
            if parameter not in surface:
                parameter.data.uniform_(-limit, limit)

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        encoded = self.surface(vocabulary)[: len(embeddings)]
        return torch.add(encoded, self.mapping(self.correction())), self.bias().squeeze(1)
