"""An n-gram beside the model: what it says is mixed into the model's distribution over the words that both know.

B: streams; T: positions of a block; V: vocabulary of the model; n: the order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.adapters.arpa import open_arpa
from fairseq_groc.adapters.base import AdapterSettings, Cache, register_cache
from fairseq_groc.adapters.mass import Distribution
from fairseq_groc.adapters.ngram_file import MAKE, WordNGrams, open_ngrams
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import Option


class OpenedNGrams:
    """An n-gram over a model's dictionary, which may grow: words go by their spelling.

    Args:
        made: the n-gram and its words
        dictionary: of the model
        folder: where the n-gram is, for reports
    """

    def __init__(self, made: WordNGrams, dictionary: Any, folder: str = ""):
        self.ngrams, self.about = made.ngrams, {"path": folder, **made.about}
        self._dictionary, self._index = dictionary, {word: number for number, word in enumerate(made.words)}
        self._numbers = np.zeros(0, dtype=np.int64)

    def numbers(self, size: int) -> NDArray[np.int64]:
        """Return the n-gram's number of each of the dictionary's first entries, -1 for what it does not know, (size)."""
        known = self._numbers  # threads may ask at the same time
        if size > len(known):
            more = [self._index.get(word, -1) for word in self._dictionary.symbols[len(known) : size]]
            self._numbers = known = np.concatenate([known, np.array(more, dtype=np.int64)])
        return known[:size]

    def known(self, real: Tensor) -> Tensor:
        """Return the mask of entries that it knows and that may be predicted, (V), or (T, V)."""
        known = torch.from_numpy(self.numbers(real.size(-1)) >= 0).to(real.device)
        special = torch.arange(real.size(-1), device=real.device) < self._dictionary.nspecial  # which no limit takes away
        return known & (real | special)


class Said(Distribution):
    """What an n-gram says at the positions of a block.

    Args:
        opened: the n-gram
        histories: of each position, (n - 1, T)
        known: see ``Distribution``; None: ``within`` says it
    """

    def __init__(self, opened: OpenedNGrams, histories: NDArray[np.int64], known: Tensor | None = None):
        self._opened, self._histories = opened, histories
        if known is not None:
            self.known = known
            self._all = known.dim() == 1 and int(known.sum()) == opened.ngrams.size

    def within(self, real: Tensor) -> Said:
        return Said(self._opened, self._histories, self._opened.known(real))

    def mass_at(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        device, numbers = targets.device, self._opened.numbers(self.known.size(-1))[targets.cpu().numpy()]
        p = torch.from_numpy(self._opened.ngrams.probabilities(self._histories, numbers))
        if not self._all:
            p = p / self._shares(slice(None)).sum(1)
        known, targets = self.known.cpu(), targets.cpu()
        there = known[targets] if known.dim() == 1 else known.gather(1, targets.unsqueeze(1)).squeeze(1)
        return p.masked_fill(~there, 0).log().to(device), there.to(device)

    def whole(self, positions: slice) -> Tensor:
        shares = self._shares(positions)
        return (shares if self._all else shares / shares.sum(1, keepdim=True)).log()

    def _shares(self, positions: slice) -> Tensor:
        """Return p of the words that are known, 0 for all others, (n, V); without some of the n-gram's words it sums to less."""
        numbers = self._opened.numbers(self.known.size(-1))
        found = self._opened.ngrams.distributions(self._histories[:, positions])
        shares = torch.from_numpy(np.where(numbers >= 0, found[:, np.maximum(numbers, 0)], 0))
        return shares * (self.known if self.known.dim() == 1 else self.known[positions]).cpu()


@register_cache("ngram", ngram_path=Option(None, "folder from python -m fairseq_groc ngram, or an ARPA file", "folder"))
class NGramBeside(Cache):
    """p(x) = (1 - weight) p_model(x) + weight p_model(known) q(x | history) for words that the n-gram q knows.

    New words have what the model gives them. Words of the n-gram that may not be predicted, as the vocabulary is limited or lacks
    them, are left out of q, and the others are divided by the rest.

    Args:
        opened: the n-gram
    """

    called, reads_all = "model", True

    def __init__(self, opened: OpenedNGrams):
        self._opened = opened
        self._histories: list[NDArray[np.int64]] = []  # of each stream, what its next token comes after

    @classmethod
    def from_settings(cls, settings: AdapterSettings, opened: OpenedNGrams | None = None) -> NGramBeside:
        if opened is None:
            raise OptionError(f"--ngram-weight needs an n-gram: give its folder, --ngram-path FOLDER. Make one: {MAKE}")
        return cls(opened)

    @classmethod
    def open(cls, settings: AdapterSettings, model: Any, data: Path) -> OpenedNGrams | None:
        path = settings.ngram_path
        if not path:
            return None
        made = WordNGrams(*open_arpa(Path(path))) if Path(path).is_file() else open_ngrams(Path(path))
        return OpenedNGrams(made, model.dictionary, path)

    @classmethod
    def about(cls, opened: OpenedNGrams) -> dict[str, Any]:
        return opened.about

    @classmethod
    def known(cls, opened: OpenedNGrams, real: Tensor) -> Tensor:
        return opened.known(real)

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        ngrams, said = self._opened.ngrams, tokens.cpu().numpy()
        numbers = np.where(said >= 0, self._opened.numbers(max(int(said.max()), 0) + 1)[np.maximum(said, 0)], -1)
        if not self._histories:
            self._histories = [np.full(ngrams.order - 1, -1)] * len(tokens)
        views = [ngrams.histories(row, before) for row, before in zip(numbers, self._histories, strict=True)]
        self._histories = [view[:, -1] for view in views]
        return views

    def row(self, view: Any) -> Said:
        return Said(self._opened, view)

    def reorder(self, order: Tensor) -> None:
        if self._histories:
            self._histories = [self._histories[i] for i in order.tolist()]
