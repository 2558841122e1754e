"""A vocabulary as tensors: spellings as distinct character n-grams, relations and definitions as bags of forms.

V: words; F: forms (the V words first); W: n-gram widths; G_w: distinct n-grams of width w.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairseq_groc.dictionary import SPECIAL, spelling
from fairseq_groc.errors import OptionError
from fairseq_groc.lexicon.base import Entry, NoLexicon
from fairseq_groc.lexicon.tables import LexiconTables, build_tables, tables_of_spellings
from fairseq_groc.modules.bags import Bags
from fairseq_groc.pieces import letters_of

# Symbols of a spelling: 256 bytes, then these, then with characters as units those that UTF-8 writes in two bytes.
BEGIN, END, FILL, FIRST_SPECIAL = 256, 257, 258, 259
NUM_SYMBOLS = FIRST_SPECIAL + len(SPECIAL)  # which have a symbol each: they are no spellings
_TWO_BYTES = range(0x80, 0x800)  # Latin, Greek, Cyrillic, Hebrew and Arabic letters among them
UNITS = ("bytes", "characters")


def num_symbols(units: str) -> int:
    """Return how many symbols there are."""
    return NUM_SYMBOLS + (len(_TWO_BYTES) if units == "characters" else 0)


class Spelling(NamedTuple):
    """How forms are written as symbols.

    Args:
        units: bytes; characters: composed with their accents (NFC), and those that UTF-8 writes longer than two bytes in bytes
        mark: of pieces of words, one of ``pieces.MARKS``; nothing: forms are whole words
    """

    units: str = "bytes"
    mark: str = ""

    def symbols(self, form: bytes) -> list[int]:
        """Return BEGIN, the form, END: whole however long it is, so two different words never share a spelling.

        With characters as units, two words do that are one when accents are composed. The mark is not spelled: a piece that
        begins inside a word lacks BEGIN, one after which the word goes on END.
        """
        letters, begins, ends = letters_of(form, self.mark)
        whole = self.units == "bytes" or letters.isascii()
        return [*[BEGIN] * begins, *(letters if whole else _characters(letters)), *[END] * ends]


BYTES = Spelling()


def _characters(form: bytes) -> list[int]:
    text = unicodedata.normalize("NFC", form.decode("utf-8", "surrogateescape"))
    symbols: list[int] = []
    for letter in text:
        place = ord(letter) - _TWO_BYTES.start
        symbols += [NUM_SYMBOLS + place] if 0 <= place < len(_TWO_BYTES) else spelling(letter)
    return symbols


def spell(
    forms: Sequence[bytes], num_special: int = len(SPECIAL), spelled: Spelling = BYTES
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the symbols of all forms, one after the other, and where each form begins (F + 1 offsets).

    The first *num_special* forms are the dictionary's special entries: one symbol of their own, between BEGIN and END.
    """
    pieces = [[BEGIN, FIRST_SPECIAL + i, END] if i < num_special else spelled.symbols(form) for i, form in enumerate(forms)]
    offsets = np.cumsum([0, *map(len, pieces)])
    return np.fromiter(itertools.chain.from_iterable(pieces), np.int64, offsets[-1]), offsets


def distinct_ngrams(
    symbols: NDArray[Any], offsets: NDArray[Any], most: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield for each n up to *most* the distinct n-grams (G, n), for every window its n-gram, and where forms' windows begin.

    A form shorter than the window is filled up on the right, so every form has at least one window.
    """
    lengths, number = np.diff(offsets), np.zeros(len(symbols), dtype=np.int64)  # of the n-gram that begins at each symbol
    for width in range(1, most + 1):
        counts = np.maximum(lengths - width + 1, 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        begin = np.arange(starts[-1]) + np.repeat(offsets[:-1] - starts[:-1], counts)
        end = np.repeat(offsets[1:], counts)
        # an n-gram is numbered from the number of its first n - 1 symbols and its last
        last = _symbols_at(symbols, begin + width - 1, end)
        _, first, ids = np.unique(number[begin] * num_symbols("characters") + last, return_index=True, return_inverse=True)
        number[begin] = ids
        yield _symbols_at(symbols, begin[first, None] + np.arange(width), end[first, None]), ids, starts


def _symbols_at(symbols: NDArray[Any], places: NDArray[Any], end: NDArray[Any]) -> NDArray[Any]:
    return np.where(places < end, symbols[np.minimum(places, len(symbols) - 1)], FILL)


class GivenLexicon(NoLexicon):
    """A lexicon of given entries."""

    def __init__(self, entries: Mapping[str, Entry]):
        self._entries = entries

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        return self._entries[word]


class Vocabulary(nn.Module):
    """The lexicon tables of one dictionary as tensors that follow the model to its device.

    All of them are non-persistent: no checkpoint holds anything of a vocabulary's size.

    Args:
        tables: of the dictionary
        widths: n-gram widths of the encoder's filters
        num_special: how many forms at the beginning are the dictionary's special entries
        spelled: how forms are written
    """

    def __init__(self, tables: LexiconTables, widths: Sequence[int], num_special: int = len(SPECIAL), spelled: Spelling = BYTES):
        super().__init__()
        self.num_words, self.num_forms = tables.num_words, tables.num_forms
        self.widths, self.spelled = list(widths), spelled
        symbols, offsets = spell(tables.forms(), num_special, spelled)
        for ngrams, windows, starts in distinct_ngrams(symbols, offsets, max(self.widths, default=0)):
            if (width := ngrams.shape[1]) in self.widths:
                self.register_buffer(f"ngrams_{width}", torch.from_numpy(ngrams.astype(np.int32)), persistent=False)
                self._add_bags(f"windows_{width}", Bags.from_lists(windows, starts))
        self._add_bags("relations", Bags.from_lists(tables.relations, tables.relation_offsets, self.num_forms))
        self._add_bags("definitions", Bags.from_lists(tables.definitions, tables.definition_offsets, self.num_forms))

    @classmethod
    def of_words(cls, words: Sequence[str], widths: Sequence[int], spelled: Spelling = BYTES) -> Vocabulary:
        """Build a vocabulary of words without relations and definitions."""
        return cls(tables_of_spellings(words), widths, spelled=spelled)

    def of_entries(self, entries: Mapping[str, Entry]) -> Vocabulary:
        """Return new words, or pieces of words, as a vocabulary of their own, without special entries, written as this one's.

        A word's embedding is a function of the word alone, so it is the same here as among all others.
        """
        tables = build_tables(list(entries), GivenLexicon(entries))
        return Vocabulary(tables, self.widths, 0, self.spelled).to(self.relations().items.device)

    def _add_bags(self, name: str, bags: Bags) -> None:
        self.register_buffer(f"{name}_items", bags.items, persistent=False)
        self.register_buffer(f"{name}_starts", bags.starts, persistent=False)
        if bags.holders is not None:
            self._add_bags(f"{name}_holders", bags.holders)

    def _bags(self, name: str) -> Bags:
        holders = self._bags(f"{name}_holders") if hasattr(self, f"{name}_holders_items") else None
        return Bags(getattr(self, f"{name}_items"), getattr(self, f"{name}_starts"), holders)

    def spellings(self, width: int) -> tuple[Tensor, Bags]:
        """Return the symbols of the distinct n-grams, (G, width), and every form's bag of them.

        Raises:
            OptionError: there are none of that width.
        """
        if width not in self.widths:
            raise OptionError(f"no n-grams of width {width}: --char-filters has those of {', '.join(map(str, self.widths))}")
        return getattr(self, f"ngrams_{width}"), self._bags(f"windows_{width}")

    def relations(self) -> Bags:
        """Return every word's bag of related forms."""
        return self._bags("relations")

    def definitions(self) -> Bags:
        """Return every word's bag of the forms of its gloss."""
        return self._bags("definitions")
