"""Lexicon tables: what every word of a dictionary is made of, as compact arrays beside the binarised data.

V: words of the dictionary; F: forms, the dictionary's words first, then the related and gloss words it lacks.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from fairseq_groc.dictionary import is_symbol, spelling
from fairseq_groc.lexicon.base import Entry, Lexicon, NoLexicon

MAX_RELATIONS = 3  # GroC, appendix B.1
MAX_DEFINITION = 10  # GroC, appendix B.1


@dataclass(frozen=True)
class Origin:
    """What tables were made from.

    Args:
        lexicon: fingerprint of the lexicon and of the limits
        max_relations, max_definition: the limits, of a word
        sources: what ``open_lexicons`` opens the lexicon by; empty: nobody knows
        piece_mark: of the words, which are pieces; nothing: they are whole
    """

    lexicon: str
    max_relations: int
    max_definition: int
    sources: tuple[str, ...] = ()
    piece_mark: str = ""

    @classmethod
    def of(cls, lexicon: Lexicon, max_relations: int, max_definition: int, sources: Sequence[str] = ()) -> Origin:
        """Return that of tables that are made from a lexicon."""
        fingerprint = f"{lexicon.fingerprint()}-r{max_relations}-d{max_definition}"
        return cls(fingerprint, max_relations, max_definition, tuple(sources))

    @property
    def limits(self) -> tuple[int, int]:
        return self.max_relations, self.max_definition

    def is_of(self, lexicon: Lexicon) -> bool:
        """Say whether the tables were made from this very lexicon."""
        return self.lexicon == Origin.of(lexicon, *self.limits).lexicon

    def __str__(self) -> str:
        return f"{self.lexicon}: {', '.join(self.sources)}" if self.sources else self.lexicon


def known_source(lexicon: str) -> str | None:
    """Return the name that opens a lexicon of the package's, by the fingerprint in tables or checkpoints; None: it is another."""
    kind = re.sub(r"(-[0-9a-f]{16})?-r\d+-d\d+$", "", lexicon)
    names = {"none": "none", "wordnet": "wordnet_nouns_first", "wordnet-by-use": "wordnet", "synonyms-wordnet": "synonyms"}
    return names.get(kind)


@dataclass(frozen=True)
class LexiconTables:
    """Spellings of all forms and, for each word of the dictionary, the forms related to it and in its gloss.

    Args:
        form_bytes, form_offsets: form i is ``form_bytes[form_offsets[i]:form_offsets[i + 1]]`` in UTF-8, i < F
        relations, relation_offsets: related forms of word v, at ``relation_offsets[v]:relation_offsets[v + 1]``
        definitions, definition_offsets: forms of the gloss of word v, likewise
        origin: the lexicon that they were made from
    """

    form_bytes: NDArray[np.uint8]
    form_offsets: NDArray[np.int64]
    relations: NDArray[np.int32]
    relation_offsets: NDArray[np.int64]
    definitions: NDArray[np.int32]
    definition_offsets: NDArray[np.int64]
    origin: Origin

    @property
    def num_words(self) -> int:
        return len(self.relation_offsets) - 1

    @property
    def num_forms(self) -> int:
        return len(self.form_offsets) - 1

    def forms(self) -> list[bytes]:
        raw, ends = self.form_bytes.tobytes(), self.form_offsets.tolist()
        return [raw[a:b] for a, b in itertools.pairwise(ends)]

    def parts(self, relations: bool, definitions: bool) -> LexiconTables:
        """Return tables of some parts alone, without the forms that only the others use."""
        nothing = np.zeros_like(self.relations[:0]), np.zeros_like(self.relation_offsets)
        related = (self.relations, self.relation_offsets) if relations else nothing
        glosses = (self.definitions, self.definition_offsets) if definitions else nothing
        used = np.unique(np.concatenate([np.arange(self.num_words), related[0], glosses[0]]))
        forms, number = self.forms(), np.zeros(self.num_forms, dtype=self.relations.dtype)
        number[used] = np.arange(len(used))
        spelled = [forms[i] for i in used.tolist()]
        return LexiconTables(*_spelled(spelled), number[related[0]], related[1], number[glosses[0]], glosses[1], self.origin)

    def word_digests(self) -> NDArray[np.uint64]:
        """Return 64 bits of each word and of what it is made of, (V): the same words made of the same have the same."""
        forms = np.frombuffer(b"".join(map(_digest, self.forms())), dtype="<u8")
        related, glosses = forms[self.relations].tobytes(), forms[self.definitions].tobytes()
        heads = np.stack([forms[: self.num_words], np.diff(self.relation_offsets).astype("<u8")], axis=1).tobytes()
        r, d = (8 * self.relation_offsets).tolist(), (8 * self.definition_offsets).tolist()
        rows = (heads[16 * v : 16 * v + 16] + related[r[v] : r[v + 1]] + glosses[d[v] : d[v + 1]] for v in range(self.num_words))
        return np.frombuffer(b"".join(map(_digest, rows)), dtype="<u8")

    def coverage(self) -> dict[str, int]:
        """Count the words with at least one relation, and with a definition."""
        parts = {"relations": self.relation_offsets, "definitions": self.definition_offsets}
        return {part: int((np.diff(offsets) > 0).sum()) for part, offsets in parts.items()}


def build_tables(
    words: Sequence[str],
    lexicon: Lexicon,
    max_relations: int = MAX_RELATIONS,
    max_definition: int = MAX_DEFINITION,
    sources: Sequence[str] = (),
) -> LexiconTables:
    """Look every word up once, but no entry that is none (``<pad>``, fillers).

    Args:
        words: the V entries of the dictionary, in its order
        sources: of the lexicon, as ``Origin`` has them
    """
    forms = {word: i for i, word in enumerate(words)}
    spellings = list(map(spelling, words))

    def form_of(word: str) -> int:
        if word not in forms:
            forms[word] = len(spellings)
            spellings.append(spelling(word))
        return forms[word]

    relations: list[list[int]] = []
    definitions: list[list[int]] = []
    for word in tqdm(words, desc="lexicon", unit=" words", leave=False, disable=None):
        entry = lexicon.lookup(word, max_relations, max_definition) if not is_symbol(word) else Entry()
        relations.append([form_of(r.word) for r in entry.relations])
        definitions.append([form_of(w) for w in entry.definition])
    origin = Origin.of(lexicon, max_relations, max_definition, sources)
    return LexiconTables(*_spelled(spellings), *_listed(relations), *_listed(definitions), origin)


def tables_of_spellings(words: Sequence[str]) -> LexiconTables:
    """Return what ``build_tables`` does where the lexicon has no entry, without looking for any."""
    spellings, none = list(map(spelling, words)), (np.zeros(0, np.int32), np.zeros(len(words) + 1, np.int64))
    origin = Origin.of(NoLexicon(), MAX_RELATIONS, MAX_DEFINITION)
    return LexiconTables(*_spelled(spellings), *none, *none, origin)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()


def _spelled(forms: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return np.frombuffer(b"".join(forms), dtype=np.uint8), _offsets(forms)


def _listed(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    return np.array([form for row in rows for form in row], dtype=np.int32), _offsets(rows)


def _offsets(rows: Sequence[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
