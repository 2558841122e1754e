"""Word embeddings in frequency bins: wide rows for frequent words, narrow ones for rare words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.embeddings.base import WordEmbedding, register_embedding
from fairseq_groc.embeddings.growth import PerWord
from fairseq_groc.embeddings.rows import WordRows, saved_words
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import Option


@register_embedding(
    "adaptive",
    output_cutoffs=Option([2000, 7000], "where the frequency bins of adaptive end", "counts"),
    output_factor=Option(4, "by how much each bin of adaptive is narrower than the one before", "count"),
)
class AdaptiveRows(PerWord, WordEmbedding):
    """Rows of d / factor^i numbers for the words of bin i, projected to d (Baevski and Auli 2019, section 3).

    Parameters: sum over bins of (n_i + d) d_i, with n_i words and d_i = d / factor^i. A word stays in the bin that it had in
    training, whatever dictionary the model meets; words that came later are in the last.

    Args:
        words: of the vocabulary, the most frequent first
        dim: d
        cutoffs: where each bin but the last ends
        factor: by how much each bin is narrower than the one before

    Raises:
        OptionError: cut-offs that are not increasing numbers; in loading, other bins than the checkpoint's on several workers.
    """

    is_table = True
    _place: Tensor  # (V): of each word's row when the bins follow each other

    def __init__(self, words: Sequence[str], dim: int, cutoffs: Sequence[int], factor: int):
        super().__init__()
        if not cutoffs or list(cutoffs) != sorted(set(cutoffs)) or cutoffs[0] < 1 or factor < 1:
            raise OptionError(f"--output-cutoffs {list(cutoffs)} --output-factor {factor}: expected increasing numbers of words")
        self.words = list(words)
        widths = [max(1, dim // factor**i) for i in range(len(cutoffs) + 1)]
        bounds = itertools.pairwise([0, *cutoffs, max(len(words), cutoffs[-1])])
        bins = zip(bounds, widths, strict=True)
        self.bins = nn.ModuleList(WordRows(self.words[a:b], width) for (a, b), width in bins)
        self.projections = nn.ModuleList(nn.Linear(width, dim, bias=False) for width in widths)
        self.register_buffer("_place", self._places(), persistent=False)

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> AdaptiveRows:
        return cls(words, dim, settings["output_cutoffs"], settings["output_factor"])

    def begin(self, vocabulary: Vocabulary | None, limit: float) -> None:
        for table in self._tables():
            table.begin(None, limit)

    def _places(self) -> Tensor:
        """Return where each word's row is when the bins follow each other, (V)."""
        number = {word: i for i, word in enumerate(word for rows in self._tables() for word in rows.words)}
        return torch.tensor([number[word] for word in self.words])

    def _tables(self) -> list[WordRows]:
        return [rows for rows in self.bins if isinstance(rows, WordRows)]

    def forward(self, vocabulary: Vocabulary | None = None) -> Tensor:
        """Return the embeddings of all words, (V, d), or those of ``part``."""
        if self.part != slice(None):
            return self._some(self._place[self.part])
        rows = torch.cat([project(table.weight) for table, project in zip(self._tables(), self.projections, strict=True)])
        return rows[self._place]

    def _some(self, place: Tensor) -> Tensor:
        """Return the embeddings of some words, (n, d), by their places: no other row is projected."""
        begin, some = 0, []
        for table, project in zip(self._tables(), self.projections, strict=True):
            inside = (place >= begin) & (place < begin + len(table.words))
            some.append((inside.nonzero().squeeze(1), project(table.weight[place[inside] - begin])))
            begin += len(table.words)
        order = torch.cat([numbers for numbers, _ in some]).argsort()
        return torch.cat([rows for _, rows in some])[order]

    def add_words(self, words: Sequence[str]) -> None:
        """Append rows to the last bin, where words that came after training are."""
        first = len(self._place)  # the last bin's rows are the last ones
        self._tables()[-1].add_words(words)
        self.words.extend(words)
        new = torch.arange(first, first + len(words), device=self._place.device)
        self._place = torch.cat([self._place, new])

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Put every word into the bin that it has in *state_dict* (fairseq calls it before loading)."""
        prefix = f"{name}.bins." if name else "bins."
        saved = [saved_words(state_dict, f"{prefix}{i}.") for i in range(len(self.bins))]
        bin_of = {word: i for i, found in enumerate(saved) if found for word in found[0]}
        if not bin_of:
            return  # a state without words is this dictionary's
        members: list[list[str]] = [[] for _ in self.bins]
        for word in self.words:
            members[bin_of.get(word, len(members) - 1)].append(word)
        same = all(table.words == words for table, words in zip(self._tables(), members, strict=True))
        if not same and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            # the workers' wrapper has taken up the parameters that would be replaced
            raise OptionError("an adaptive model meets another dictionary on several workers: finetune it on one")
        for i, (table, words) in enumerate(zip(self._tables(), members, strict=True)):
            if table.words != words:
                self.bins[i] = WordRows(words, table.weight.size(1), table.new).to(table.weight)
        self._place = self._places().to(self._place.device)
