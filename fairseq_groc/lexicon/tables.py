"""Lexicon tables: what every word of a dictionary is made of, as compact arrays beside the binarised data.

V: words of the dictionary; F: forms, the dictionary's words first, then the related and gloss words it lacks.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import numpy as np

from fairseq_groc.errors import TablesError
from fairseq_groc.lexicon.base import Lexicon

FORMAT = 1  # raise whenever the arrays, their meaning or the fingerprints change
FOLDER = "lexicon-tables"
MAX_RELATIONS = 3  # GroC, appendix B.1
MAX_DEFINITION = 10  # GroC, appendix B.1
# int32 indexes 2 * 10**9 forms, a thousand times the words of any language; offsets count list items: int64.
_DTYPES = {
    "form_bytes": np.uint8,
    "form_offsets": np.int64,
    "relations": np.int32,
    "relation_offsets": np.int64,
    "definitions": np.int32,
    "definition_offsets": np.int64,
}


@dataclass(frozen=True)
class LexiconTables:
    """Spellings of all forms and, for each word of the dictionary, the forms related to it and in its gloss.

    Args:
        form_bytes, form_offsets: form i is ``form_bytes[form_offsets[i]:form_offsets[i + 1]]`` in UTF-8, i < F
        relations, relation_offsets: related forms of word v, at ``relation_offsets[v]:relation_offsets[v + 1]``
        definitions, definition_offsets: forms of the gloss of word v, likewise
        lexicon: fingerprint of the lexicon that they were made from
    """

    form_bytes: np.ndarray
    form_offsets: np.ndarray
    relations: np.ndarray
    relation_offsets: np.ndarray
    definitions: np.ndarray
    definition_offsets: np.ndarray
    lexicon: str

    @property
    def num_words(self) -> int:
        return len(self.relation_offsets) - 1

    @property
    def num_forms(self) -> int:
        return len(self.form_offsets) - 1

    def forms(self) -> List[bytes]:
        raw, ends = self.form_bytes.tobytes(), self.form_offsets.tolist()
        return [raw[a:b] for a, b in zip(ends, ends[1:])]

    def coverage(self) -> Dict[str, int]:
        """Count the words with at least one relation, and with a definition."""
        return {
            "relations": int((np.diff(self.relation_offsets) > 0).sum()),
            "definitions": int((np.diff(self.definition_offsets) > 0).sum()),
        }


def build_tables(
    words: Sequence[str],
    lexicon: Lexicon,
    is_word: Callable[[int], bool] = lambda index: True,
    max_relations: int = MAX_RELATIONS,
    max_definition: int = MAX_DEFINITION,
) -> LexiconTables:
    """Look every word up once.

    Args:
        words: the V entries of the dictionary, in its order
        is_word: False for entries that are no words (``<pad>``, fillers); those are never looked up
    """
    forms = {word: i for i, word in reversed(list(enumerate(words)))}  # the first of equal entries
    spellings = [word.encode("utf-8", "surrogateescape") for word in words]

    def form_of(word: str) -> int:
        if word not in forms:
            forms[word] = len(spellings)
            spellings.append(word.encode("utf-8", "surrogateescape"))
        return forms[word]

    relations: List[List[int]] = []
    definitions: List[List[int]] = []
    for index, word in enumerate(words):
        if is_word(index):
            entry = lexicon.lookup(word, max_relations, max_definition)
            relations.append([form_of(r.word) for r in entry.relations])
            definitions.append([form_of(w) for w in entry.definition])
        else:
            relations.append([])
            definitions.append([])
    return LexiconTables(
        np.frombuffer(b"".join(spellings), dtype=np.uint8),
        _offsets(spellings),
        np.array([f for row in relations for f in row], dtype=np.int32),
        _offsets(relations),
        np.array([f for row in definitions for f in row], dtype=np.int32),
        _offsets(definitions),
        f"{lexicon.fingerprint()}-r{max_relations}-d{max_definition}",
    )


def _offsets(rows: Sequence) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)


def words_fingerprint(words: Sequence[str]) -> str:
    """Return a fingerprint of a dictionary: its words in their order, not their counts."""
    joined = "\n".join(words).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:16]


def save_tables(folder: Path, tables: LexiconTables, words: Sequence[str]) -> None:
    """Write the tables below *folder*; they appear whole or not at all, however the writing ends."""
    target = Path(folder) / FOLDER
    scratch = Path(folder) / f".{FOLDER}-{uuid.uuid4().hex}"
    scratch.mkdir()
    try:
        for name, dtype in _DTYPES.items():
            np.save(scratch / f"{name}.npy", getattr(tables, name).astype(dtype, copy=False), allow_pickle=False)
        header = {"format": FORMAT, "dictionary": words_fingerprint(words), "lexicon": tables.lexicon}
        (scratch / "header.json").write_text(json.dumps(header, indent=1) + "\n")
        if target.exists():
            shutil.rmtree(target)
        os.rename(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def load_tables(folder: Path, words: Sequence[str]) -> LexiconTables:
    """Memory-map the tables below *folder*.

    Raises:
        TablesError: they are missing, of another format, or made for another dictionary.
    """
    source = Path(folder) / FOLDER
    remedy = f"Rebuild them: python -m fairseq_groc tables {folder}"
    try:
        header = json.loads((source / "header.json").read_text())
    except FileNotFoundError:
        raise TablesError(f"{source}: no lexicon tables. {remedy}") from None
    except ValueError:
        header = None
    if not isinstance(header, dict) or "lexicon" not in header:
        raise TablesError(f"{source}/header.json is not readable. {remedy}") from None
    if header.get("format") != FORMAT:
        raise TablesError(f"{source}: tables of format {header.get('format')}, expected {FORMAT}. {remedy}")
    if header.get("dictionary") != words_fingerprint(words):
        raise TablesError(f"{source}: made for another dictionary than {folder}/dict.txt. {remedy}")
    try:
        arrays = {name: _load_array(source / f"{name}.npy") for name in _DTYPES}
    except (OSError, ValueError, EOFError) as error:
        raise TablesError(f"{source}: {error}. {remedy}") from None
    return LexiconTables(**arrays, lexicon=header["lexicon"])


def _load_array(path: Path) -> np.ndarray:
    large = path.stat().st_size > 1 << 20  # an empty array cannot be mapped, a small one need not be
    return np.load(path, mmap_mode="r" if large else None, allow_pickle=False)
