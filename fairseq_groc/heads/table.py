"""Heads that are tables: a bias a word, and perhaps a row of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.heads.base import OutputHead, register_head
from fairseq_groc.registry import Option


class BiasedOutput(OutputHead):
    """A head with a bias for each word that training had, and with E_out = E_in. Parameters: V, and the subclass's own."""

    def __init__(self, words: Sequence[str]):
        super().__init__()
        self.bias = WordRows(words, 1)

    def biases(self) -> Tensor:
        """Return b, (V)."""
        return self.bias().squeeze(1)

    def unknown(self) -> Tensor | None:
        return self.bias.unknown()

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        return embeddings, self.biases()


@register_head("tied")
class TiedOutput(BiasedOutput):
    """E_out = E_in with a bias a word (Press and Wolf 2017). Parameters: V."""

    computes = False

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> TiedOutput:
        return cls(words)


@register_head(
    "lookup",
    lookup_width=Option(
        "embeddings", "rows of lookup are as long as embeddings, to which h is mapped, or as h itself", ("embeddings", "encoder")
    ),
)
class LookupOutput(BiasedOutput):
    """An output row and a bias a word, of their own (GroC, section 4.1). Parameters: V (dim + 1).

    Args:
        words: of the vocabulary
        dim: of a row
    """

    computes = False

    def __init__(self, words: Sequence[str], dim: int):
        super().__init__(words)
        self.rows = WordRows(words, dim)

    @staticmethod
    def takes_any_width(settings: dict[str, Any]) -> bool:
        return settings["lookup_width"] == "encoder"

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        return self.rows(), self.biases()
