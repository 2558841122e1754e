"""Vocabularies that grow while a model runs: rows that are appended at the cost of the new ones alone.

V: words; n: words that are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.embeddings.vocabulary import BYTES, Spelling, Vocabulary
from fairseq_groc.lexicon.base import Entry
from fairseq_groc.lexicon.tables import build_tables

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


class Entries:
    """A lexicon of given entries."""

    name = "given"

    def __init__(self, entries: dict[str, Entry]):
        self._entries = entries

    def fingerprint(self) -> str:
        return "given"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        return self._entries[word]


def vocabulary_of(entries: dict[str, Entry], widths: Sequence[int], spelled: Spelling = BYTES) -> Vocabulary:
    """Return words, or pieces of words, as a vocabulary of their own, without special entries.

    A word's embedding is a function of the word alone, so it is the same here as among all others.
    """
    tables = build_tables(list(entries), Entries(entries))
    relations, definitions = (tables.relations, tables.relation_offsets), (tables.definitions, tables.definition_offsets)
    return Vocabulary(tables.forms(), relations, definitions, widths, num_special=0, spelled=spelled)


def add_words(module: nn.Module, words: Sequence[str]) -> None:
    """Let every table of rows below a module know new words."""
    own = getattr(module, "add_words", None)
    if callable(own):
        own(words)
        return
    for child in module.children():
        add_words(child, words)


@contextmanager
def rows_of(module: nn.Module, part: slice) -> Iterator[None]:
    """Let all tables below a module read the rows of some words alone: so a head computes these words."""
    tables: list[Any] = [table for table in module.modules() if hasattr(table, "part")]
    for table in tables:
        table.part = part
    try:
        yield
    finally:
        for table in tables:
            table.part = slice(None)
