"""Parameters with a row a word, which move by word from one dictionary to another."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_groc.dictionary import is_predictable, spelling
from fairseq_groc.embeddings.base import WordEmbedding, register_embedding
from fairseq_groc.embeddings.growth import GrowingRows, PerWord
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.modules.packed_state import pack, unpack


class NewRows(NamedTuple):
    """How rows of words that a checkpoint lacks begin.

    Args:
        drawn: from the normal distribution that has the mean and covariance of the others; then they count as known (Hewitt 2021)
        limit: otherwise uniformly from minus to plus this (GroC, section 5.1, before finetuning); 0: they are 0
    """

    drawn: bool = False
    limit: float = 0.0


ZEROS = NewRows()


@register_embedding("rows")
class WordRows(PerWord, WordEmbedding):
    """A (V, width) parameter whose checkpoint carries the words, so that rows find their place in any dictionary.

    Words without a row in the checkpoint are ``unknown`` until the rows are trained, unless they are drawn like the others.

    Args:
        words: V
        width: of a row
        new: how rows of words begin that a checkpoint lacks; ``attach_head`` says it, too
    """

    is_table, computes = True, False
    _missing: Tensor

    def __init__(self, words: Sequence[str], width: int, new: NewRows = ZEROS):
        super().__init__()
        self.new = new
        self.words = list(words)
        self.weight = nn.Parameter(torch.zeros(len(self.words), width))
        self.register_buffer("_missing", torch.zeros(len(self.words), dtype=torch.bool), persistent=False)
        self._any_missing = self.moved = False  # moved: from the places that they have in the checkpoint
        self._growing = GrowingRows()
        self._trained: Sequence[int] = range(len(self.words))  # rows that had been trained when they came here
        self._examples: list[int] | None = None

    def forward(self, vocabulary: Vocabulary | None = None) -> Tensor:
        """Return the rows, (V, width), or those of ``part``."""
        return self.weight if self.part == slice(None) else self.weight[self.part]

    def add_words(self, words: Sequence[str]) -> None:
        """Append rows for words that never had one, as loading gives them.

        The parameter is a new one then: an optimizer that was made before keeps the old one.
        """
        missing = self._missing if self._any_missing else torch.zeros_like(self._missing)
        old, drawn = self.weight.detach(), self.new.drawn and bool(self._example_rows())
        new = draw_like(old[self._example_rows()], words) if drawn else old.new_zeros(len(words), old.size(1))
        self.weight = nn.Parameter(self._growing.append(old, new), requires_grad=self.weight.requires_grad)
        self._missing = torch.cat([missing, missing.new_full((len(words),), not drawn)])
        self._any_missing = bool(self._missing.any())
        self.words.extend(words)

    def unknown(self) -> Tensor | None:
        """Return the mask (V) of words that never had a row, or None if all had."""
        return self._missing if self._any_missing else None

    def train(self, mode: bool = True) -> WordRows:
        if mode:
            self._any_missing = False  # from here on every row is trained
            self._trained, self._examples = range(len(self.words)), None
        return super().train(mode)

    def _example_rows(self) -> list[int]:
        """Return which rows new ones are drawn like: those of words that were trained, not of entries that no text has."""
        if self._examples is None:
            self._examples = [i for i in self._trained if is_predictable(self.words[i])]
        return self._examples

    def get_extra_state(self) -> Tensor:
        missing = self._missing if self._any_missing else torch.zeros_like(self._missing)
        return torch.cat([pack(self.words), missing.float().cpu()])

    def set_extra_state(self, state: Any) -> None:
        """The words were used in ``upgrade_state_dict_named``, before the shapes were compared."""

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Rearrange the rows of *state_dict* for this module's words (called by fairseq before strict loading)."""
        prefix = name + "." if name else ""
        rows = state_dict.get(prefix + "weight")
        if rows is None:
            state_dict.setdefault(prefix + "_extra_state", self.get_extra_state())
            return
        words, untrained = saved_words(state_dict, prefix) or (self.words, torch.zeros(len(self.words), dtype=torch.bool))
        self.moved = words != self.words
        index = {word: i for i, (word, never) in enumerate(zip(words, untrained.tolist(), strict=True)) if not never}
        source = torch.tensor([index.get(word, -1) for word in self.words], dtype=torch.long)
        missing = source < 0
        moved = rows.new_zeros(len(self.words), rows.size(1))
        moved[(~missing).to(rows.device)] = rows[source[~missing].to(rows.device)]
        new = [word for word, never in zip(self.words, missing.tolist(), strict=True) if never]
        # in the checkpoint's order: so a word's row is the same whatever dictionary the others come in
        self._trained, self._examples = source.argsort()[len(new) :].tolist(), None
        if self.new.drawn and new and self._example_rows():
            moved[missing] = draw_like(moved[self._example_rows()], new)
            missing = torch.zeros_like(missing)
        elif self.new.limit > 0:
            moved[missing] = uniform_rows(len(new), moved.size(1), self.new.limit, name).to(moved)
        state_dict[prefix + "weight"] = moved
        self._missing.copy_(missing)
        self._any_missing = bool(missing.any())
        state_dict[prefix + "_extra_state"] = self.get_extra_state()


def rows_below(module: nn.Module) -> dict[str, WordRows]:
    """Return the rows of words below a module, by the names of the modules that have them."""
    return {name: one for name, one in module.named_modules() if isinstance(one, WordRows)}


def saved_words(state_dict: dict[str, Any], prefix: str) -> tuple[list[str], Tensor] | None:
    """Return the words (V) of the rows below a prefix and the mask (V) of those that were never trained; None without words.

    A mean of checkpoints says of a word how many of them had never trained it: in all of them, then it is unknown.
    """
    saved = state_dict.get(prefix + "_extra_state")
    if saved is None:
        return None
    if isinstance(saved, dict):  # as older checkpoints have it
        unknown = set(saved.get("unknown", []))
        return saved["words"], torch.tensor([word in unknown for word in saved["words"]], dtype=torch.bool)
    end = len(saved) - len(state_dict[prefix + "weight"])
    return unpack(saved[:end]), saved[end:] == 1


def uniform_rows(count: int, width: int, limit: float, name: str) -> Tensor:
    """Return rows of numbers from -*limit* to *limit* for the table of a name, (count, width)."""
    random = torch.Generator().manual_seed(zlib.crc32(name.encode()))  # the same on every worker, others for every table
    return torch.rand(count, width, generator=random) * 2 * limit - limit


def draw_like(rows: Tensor, words: Sequence[str]) -> Tensor:
    """Return a row for each word from the normal distribution with the mean and covariance of *rows*, (len(words), width).

    A word's row depends on the word and on *rows* alone. Each mixes all of *rows*, so that a word's rows in several tables and
    its bias are drawn together.
    """
    wide = rows.double()
    centred = wide - wide.mean(0)
    # whole numbers, of 20 bits and of 8 before and after the point: their products' sums are exact up to 4 million rows, so no
    # order of adding them makes a difference
    unit = centred.abs().max().clamp(min=1e-300) / 2**20
    whole, drawn = (centred / unit).round(), []
    for begin in range(0, len(words), 256):
        piece = [np.random.default_rng(int.from_bytes(spelling(word), "big")) for word in words[begin : begin + 256]]
        weights = torch.from_numpy(np.stack([random.standard_normal(len(rows)) for random in piece]) * 256).round()
        drawn.append((wide.mean(0) + weights.to(rows.device) @ whole * (unit / 256 / len(rows) ** 0.5)).to(rows.dtype))
    return torch.cat(drawn)
