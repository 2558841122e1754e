"""What a word embedding is, and the names that embeddings are registered by. V: words; d: embedding size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from fairseq_groc.embeddings.vocabulary import UNITS, Vocabulary
from fairseq_groc.registry import Option, Registry


class WordEmbedding(nn.Module):
    """From the words of a vocabulary to input embeddings E_in, (V, d); it knows neither encoder nor head.

    What it knows of a word is either a table's (``WordRows``, which move by word into other dictionaries and grow by
    themselves) or read from the vocabulary at every call, so that the dictionary may be any.
    """

    options: Mapping[str, Option] = {}  # those that it takes, by name
    is_table = False  # whether words have parameters of their own: a word that is new has none
    computes = True  # whether forward costs more than passing parameters on
    reads_spellings = False  # whether forward takes a vocabulary
    can_be_sampled = False  # whether a training step may compute some words alone, by the members of ``CompositionalEmbedding``

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> WordEmbedding:
        """Return an embedding of the words of a dictionary to size d by its options, by name; here cls(words, dim)."""
        return cls(words, dim)

    @staticmethod
    def lexicon_parts(settings: dict[str, Any]) -> tuple[bool, bool]:
        """Say whether it reads words' relations, and whether their definitions."""
        return False, False

    def begin(self, vocabulary: Vocabulary | None, limit: float) -> None:
        """Set the parameters that training begins with, to the size of numbers drawn uniformly from -limit to limit."""
        for parameter in self.parameters():
            parameter.data.uniform_(-limit, limit)

    def forward(self, vocabulary: Vocabulary | None = None) -> Tensor:
        """Return the embeddings of all words, (V, d).

        Args:
            vocabulary: their spellings, relations and definitions, where it reads any: the dictionary's, or new words alone
        """
        raise NotImplementedError


EMBEDDINGS: Registry[type[WordEmbedding]] = Registry("word embedding")


FILTERS = {  # of all that reads spellings
    "char_filters": Option([32, 32, 64, 128, 256, 512], "how many filters of width 1, 2, ...", "counts"),
    "spelling_units": Option("bytes", "what filters read: UTF-8's bytes, or characters with composed accents", UNITS),
}
CORRECTIONS = {  # of all embeddings that are no tables
    "corrections": Option(
        "none", "what words that training has read add to composed embeddings, and where", ("none", "input", "output", "both")
    ),
    "correction_dim": Option(128, "numbers of a word's correction: convolutional, --corrections", "count"),
    "correction_dropout": Option(0.3, "chance q to leave a word's correction out of a step", "dropout"),
}


def register_embedding(name: str, **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``WordEmbedding`` by the name that heads call for: ``register_head(..., embedding=name)``.

    Args:
        options: that it takes, besides those of the class it is made from, by the name that the command line gives them

    Raises:
        OptionError: a name that is taken.
    """

    def implied(cls: type[WordEmbedding]) -> dict[str, Option]:
        return {**(FILTERS if cls.reads_spellings else {}), **({} if cls.is_table else CORRECTIONS)}

    return EMBEDDINGS.decorator(name, options, implied)
