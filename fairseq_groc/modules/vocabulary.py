"""A vocabulary as tensors: spellings as distinct character n-grams, relations and definitions as bags of forms.

V: words; F: forms (the V words first); W: n-gram widths; G_w: distinct n-grams of width w.
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn

# Symbols of a spelling: 256 bytes, then these.
BEGIN, END, FILL, FIRST_SPECIAL = 256, 257, 258, 259
NUM_SYMBOLS = FIRST_SPECIAL + 4  # <s>, <pad>, </s>, <unk> have a symbol each: they are no spellings
Bag = Tuple[Tensor, Tensor]  # (items of all bags, where each bag begins and the last ends)


def spell(forms: Sequence[bytes], num_special: int = 4) -> Tuple[np.ndarray, np.ndarray]:
    """Return the symbols of all forms, one after the other, and where each form begins (F + 1 offsets).

    A form is BEGIN, its bytes, END, whole however long it is, so two different words never share a spelling.
    The first *num_special* forms are the dictionary's special entries: one symbol of their own.
    """
    pieces: List[np.ndarray] = []
    for i, form in enumerate(forms):
        body = np.array([FIRST_SPECIAL + i]) if i < num_special else np.frombuffer(form, dtype=np.uint8)
        pieces.append(np.concatenate([[BEGIN], body, [END]]))
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.int64)
    return np.concatenate(pieces).astype(np.int64), offsets


def distinct_ngrams(symbols: np.ndarray, offsets: np.ndarray, width: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct n-grams (G, width), for every window its n-gram, and where each form's windows begin.

    A form shorter than the window is filled up on the right, so every form has at least one window.
    """
    lengths = np.diff(offsets)
    counts = np.maximum(lengths - width + 1, 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    begin = np.repeat(offsets[:-1], counts) + within
    end = np.repeat(offsets[1:], counts)
    ids = np.zeros(len(begin), dtype=np.int64)
    columns = []
    for k in range(width):  # an n-gram is numbered from the number of its first n - 1 symbols and its last
        position = begin + k
        column = np.where(position < end, symbols[np.minimum(position, len(symbols) - 1)], FILL)
        columns.append(column)
        _, ids = np.unique(ids * NUM_SYMBOLS + column, return_inverse=True)
    first = np.zeros(ids.max() + 1, dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]
    return np.stack([c[first] for c in columns], axis=1), ids, starts


class Vocabulary(nn.Module):
    """The lexicon tables of one dictionary as tensors that follow the model to its device.

    All of them are non-persistent: no checkpoint holds anything of a vocabulary's size.

    Args:
        forms: F spellings in UTF-8, the V words of the dictionary first
        relations, definitions: ``(items, offsets)``; item lists of forms for each word, V + 1 offsets
        widths: n-gram widths of the encoder's filters
    """

    relations_items: Tensor
    relations_starts: Tensor
    definitions_items: Tensor
    definitions_starts: Tensor

    def __init__(self, forms: Sequence[bytes], relations, definitions, widths: Sequence[int]):
        super().__init__()
        self.num_words = len(relations[1]) - 1
        self.num_forms = len(forms)
        self.widths = list(widths)
        symbols, offsets = spell(forms)
        for width in self.widths:
            ngrams, windows, starts = distinct_ngrams(symbols, offsets, width)
            self._add(f"ngrams_{width}", ngrams)
            self._add(f"windows_{width}", windows)
            self._add(f"starts_{width}", starts)
        for name, (items, starts) in (("relations", relations), ("definitions", definitions)):
            self._add(f"{name}_items", items)
            self._add(f"{name}_starts", starts)

    def _add(self, name: str, array) -> None:
        self.register_buffer(name, torch.from_numpy(np.array(array, dtype=np.int64)), persistent=False)

    def ngrams(self, width: int) -> Tensor:
        """Return the symbols of the distinct n-grams, (G, width)."""
        return getattr(self, f"ngrams_{width}")

    def windows(self, width: int) -> Bag:
        """Return every form's bag of n-grams."""
        return getattr(self, f"windows_{width}"), getattr(self, f"starts_{width}")

    def relations(self) -> Bag:
        return self.relations_items, self.relations_starts

    def definitions(self) -> Bag:
        return self.definitions_items, self.definitions_starts
