"""Parameters with a row a word, which move by word from one dictionary to another."""

from __future__ import annotations

import zlib
from typing import Any, Optional, Sequence

import torch
from torch import Tensor, nn

from fairseq_groc.modules.growth import GrowingRows


class WordRows(nn.Module):
    """A (V, width) parameter whose checkpoint carries the words, so that rows find their place in any dictionary.

    Words without a row in the checkpoint get zeros, or where ``new_range`` is above 0 numbers drawn uniformly from so far below
    to so far above it (GroC, section 5.1, before finetuning), and are ``unknown`` until the rows are trained; or, with
    ``draw_new``, rows from the normal distribution that has the mean and covariance of the others, which count as known
    (Hewitt 2021).
    """

    _missing: Tensor

    def __init__(self, words: Sequence[str], width: int):
        super().__init__()
        self.draw_new, self.new_range = False, 0.0
        self.part = slice(None)  # which rows are read: see ``growth.rows_of``
        self.words = list(words)
        self.weight = nn.Parameter(torch.zeros(len(self.words), width))
        self.register_buffer("_missing", torch.zeros(len(self.words), dtype=torch.bool), persistent=False)
        self._any_missing = False
        self._growing = GrowingRows()
        self._loaded = len(self.words)  # words that were not added later

    def forward(self, vocabulary=None) -> Tensor:
        """Return the rows, (V, width), or those of ``part``."""
        return self.weight if self.part == slice(None) else self.weight[self.part]

    def add_words(self, words: Sequence[str]) -> None:
        """Append rows for words that never had one, as loading gives them.

        The parameter is a new one then: an optimizer that was made before keeps the old one.
        """
        missing = self._missing if self._any_missing else torch.zeros_like(self._missing)
        old, drawn = self.weight.detach(), self.draw_new and not bool(missing[: self._loaded].all())
        if drawn:  # each from the rows that were loaded, so it makes no difference which words come together
            known, first = old[: self._loaded][~missing[: self._loaded]], len(old)
            new = torch.cat([draw_like(known, 1, seed=number) for number in range(first, first + len(words))])
        else:
            new = old.new_zeros(len(words), old.size(1))
        self.weight = nn.Parameter(self._growing.append(old, new), requires_grad=self.weight.requires_grad)
        self._missing = torch.cat([missing, missing.new_full((len(words),), not drawn)])
        self._any_missing = bool(self._missing.any())
        self.words.extend(words)

    def unknown(self) -> Optional[Tensor]:
        """Return the mask (V) of words that never had a row, or None if all had."""
        return self._missing if self._any_missing else None

    def train(self, mode: bool = True):
        if mode:
            self._any_missing = False  # from here on every row is trained
        return super().train(mode)

    def get_extra_state(self) -> Any:
        unknown = [word for word, missing in zip(self.words, self._missing.tolist()) if missing] if self._any_missing else []
        return {"words": self.words, "unknown": unknown}

    def set_extra_state(self, state) -> None:
        """The words were used in ``upgrade_state_dict_named``, before the shapes were compared."""

    def upgrade_state_dict_named(self, state_dict, name: str) -> None:
        """Rearrange the rows of *state_dict* for this module's words (called by fairseq before strict loading)."""
        prefix = name + "." if name else ""
        extra = state_dict.setdefault(prefix + "_extra_state", {"words": self.words, "unknown": []})  # EMA copies drop it
        rows = state_dict.get(prefix + "weight")
        if rows is None:
            return
        index = {word: i for i, word in enumerate(extra["words"])}
        source = torch.tensor([index.get(word, -1) for word in self.words], dtype=torch.long)
        untrained = set(extra.get("unknown", []))
        missing = torch.tensor([i < 0 or w in untrained for i, w in zip(source.tolist(), self.words)], dtype=torch.bool)
        moved = rows.new_zeros(len(self.words), rows.size(1))
        moved[(source >= 0).to(rows.device)] = rows[source[source >= 0].to(rows.device)]
        if self.draw_new and bool(missing.any()) and not bool(missing.all()):
            moved[missing] = draw_like(moved[~missing], int(missing.sum()))
            missing = torch.zeros_like(missing)
        elif self.new_range > 0:
            moved[missing] = uniform_rows(int(missing.sum()), moved.size(1), self.new_range, name).to(moved)
        state_dict[prefix + "weight"] = moved
        self._missing.copy_(missing)
        self._any_missing = bool(missing.any())
        state_dict[prefix + "_extra_state"] = self.get_extra_state()


def uniform_rows(count: int, width: int, limit: float, name: str) -> Tensor:
    """Return rows of numbers from -*limit* to *limit* for the table of a name, (count, width)."""
    random = torch.Generator().manual_seed(zlib.crc32(name.encode()))  # the same on every worker, others for every table
    return torch.rand(count, width, generator=random) * 2 * limit - limit


def draw_like(rows: Tensor, count: int, seed: int = 0) -> Tensor:
    """Return *count* rows drawn from the normal distribution with the mean and covariance of *rows*, (count, width)."""
    wide = rows.double()
    centred = wide - wide.mean(0)
    random = torch.Generator().manual_seed(seed)  # the same model at every loading
    drawn = []
    for piece in torch.arange(count).split(256):  # a draw mixes all rows, so that a word's rows and bias are drawn together
        weights = torch.randn(len(piece), len(rows), generator=random, dtype=torch.float64).to(rows.device)
        drawn.append((wide.mean(0) + weights @ centred / len(rows) ** 0.5).to(rows.dtype))
    return torch.cat(drawn)
