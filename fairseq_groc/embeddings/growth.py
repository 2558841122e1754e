"""Vocabularies that grow while a model runs: rows that are appended at the cost of the new ones alone.

V: words; n: words that are added.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

SPARE = 8  # a full buffer gets room for an eighth more: a row is copied at most about 8 times, however rows come


class GrowingRows:
    """A matrix to which rows are appended: they are written into spare room, and all are copied only when that is full."""

    def __init__(self) -> None:
        self._buffer: Tensor | None = None
        self._used = 0

    def append(self, rows: Tensor, new: Tensor) -> Tensor:
        """Return the rows (V + n, ...) of both.

        Args:
            rows: what the last call returned, or anything else (V, ...), which is copied then
            new: (n, ...)
        """
        size = len(rows) + len(new)
        if not self._continues(rows) or self._buffer is None or size > len(self._buffer):
            self._buffer = rows.new_empty(size + size // SPARE, *rows.shape[1:])
            self._buffer[: len(rows)] = rows
        self._buffer[len(rows) : size] = new
        self._used = size
        return self._buffer[:size]

    def _continues(self, rows: Tensor) -> bool:
        own = self._buffer
        if own is None or (own.is_inference() and not torch.is_inference_mode_enabled()):  # it cannot be written to
            return False
        return own.data_ptr() == rows.data_ptr() and self._used == len(rows) and own.device == rows.device


class PerWord:
    """A module with something for each word of a dictionary: it is told of new words, and reads what some words have alone.

    What is below it is its own affair.
    """

    part = slice(None)  # which words are read

    def add_words(self, words: Sequence[str]) -> None:
        """Make room for words that come behind all others."""
        raise NotImplementedError


def add_words(module: nn.Module, words: Sequence[str]) -> None:
    """Let all below a module that has something for each word know new words."""
    if isinstance(module, PerWord):
        module.add_words(words)
        return
    for child in module.children():
        add_words(child, words)


@contextmanager
def rows_of(module: nn.Module, part: slice) -> Iterator[None]:
    """Let all below a module read what some words have alone: so a head computes these words."""
    holders = [one for one in module.modules() if isinstance(one, PerWord)]
    for one in holders:
        one.part = part
    try:
        yield
    finally:
        for one in holders:
            one.part = slice(None)
