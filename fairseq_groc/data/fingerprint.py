"""Which dictionary a folder was binarised with: binarised text is numbers, and says nothing of the words it means."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Set

import numpy as np
from fairseq.data import Dictionary

from fairseq_groc.data.text import has_mark
from fairseq_groc.errors import DataError
from fairseq_groc.lexicon.tables import words_fingerprint
from fairseq_groc.modules.probabilities import is_filler

FILE = "binarised.json"


def load_dictionary(path: Path) -> Dictionary:
    """Load a ``dict.txt``.

    Raises:
        DataError: fairseq cannot read it, it has no words, a word twice or one that no text can have, or a negative count.
    """
    dictionary = Dictionary()
    try:
        with open(path, "rb") as head:
            encoding = "utf-8-sig" if has_mark(head.read(3), str(path)) else "utf-8"
        with open(path, encoding=encoding) as file:
            dictionary.add_from_file(file)
        _check_words(dictionary)
    except Exception as error:  # fairseq raises no narrower one
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: {reason} Mend the file, or binarise the text again: scripts/preprocess.sh.") from None
    return dictionary


def _check_words(dictionary: Dictionary) -> None:
    words = dictionary.symbols[dictionary.nspecial :]
    if all(map(is_filler, words)):
        raise DataError("no words: expected a word and its count on each line.")
    if len(dictionary.indices) < len(dictionary):
        word = next(word for i, word in enumerate(dictionary.symbols) if dictionary.indices[word] != i)
        raise DataError(f"has {word!r} twice.")
    for word, count in zip(words, dictionary.count[dictionary.nspecial :]):
        if word.split() != [word]:
            raise DataError(f"{word!r} has blanks or nothing in it: no text can have this word.")
        if count < 0:
            raise DataError(f"{word!r} has the count {count}: expected 0 or more.")


def note_dictionary(folder: Path, words: Sequence[str], trained: Optional[np.ndarray]) -> None:
    """Write, beside the text that was just binarised, the fingerprint of its dictionary.

    Args:
        folder: of the text
        words: of the dictionary
        trained: mask (V) of the entries that the training text has; None: nobody knows
    """
    note: Dict[str, Any] = {"dictionary": words_fingerprint(words)}
    if trained is not None:  # where runs of such entries begin and end: they are nearly always one
        edges = np.flatnonzero(np.diff(np.concatenate([[0], trained.astype(np.int8), [0]])))
        note["trained"] = edges.tolist()
    (Path(folder) / FILE).write_text(json.dumps(note) + "\n")


def trained_words(folder: Path, size: int) -> Optional[np.ndarray]:
    """Return the mask (V) of the entries of a dictionary of *size* that the training text has; None if nothing says so.

    Raises:
        DataError: what is noted is not readable, or of another dictionary.
    """
    edges = _note(Path(folder)).get("trained")
    if edges is None:
        return None
    if edges and edges[-1] > size:
        raise _unreadable(Path(folder))
    mask = np.zeros(size, dtype=bool)
    for begin, end in zip(edges[::2], edges[1::2]):
        mask[begin:end] = True
    return mask


def folder_dictionary(folder: Path) -> Dictionary:
    """Load the dictionary of a folder of binarised text.

    Raises:
        DataError: it is no such folder, or has another's dictionary.
    """
    path = Path(folder) / "dict.txt"
    if not path.is_file():
        raise DataError(f"{path} not found: expected a folder of binarised data")
    dictionary = load_dictionary(path)
    check_dictionary(folder, dictionary.symbols)
    return dictionary


def known_words(folder: Path, words: Sequence[str]) -> Set[str]:
    """Return those of a folder's words that its training text has; all of them if nothing says which these are."""
    mask = trained_words(folder, len(words))
    return {word for i, word in enumerate(words) if mask is None or mask[i]}


def check_dictionary(folder: Path, words: Sequence[str]) -> None:
    """Compare; a folder that scripts/preprocess.sh did not make has nothing to compare with.

    Raises:
        DataError: ``dict.txt`` is not the dictionary of the binarised text.
    """
    fingerprint = words_fingerprint(words)
    if _note(Path(folder)).get("dictionary", fingerprint) != fingerprint:
        raise DataError(
            f"{folder}: dict.txt is not the dictionary that the text in this folder was binarised with. "
            "Put that one back, or binarise the text again: scripts/preprocess.sh."
        )


def _note(folder: Path) -> Dict[str, Any]:
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        note = json.loads(path.read_text())
        edges = note.get("trained", [])
        readable = isinstance(edges, list) and all(type(edge) is int for edge in edges)
        readable = readable and len(edges) % 2 == 0 and [-1, *edges] == sorted({-1, *edges})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        readable = False
    if not readable or not isinstance(note.get("dictionary", ""), str):
        raise _unreadable(folder)
    return note


def _unreadable(folder: Path) -> DataError:
    return DataError(f"{folder / FILE} is not readable. Binarise the text again: scripts/preprocess.sh.")


def digest(*paths: Path) -> str:
    """Return the SHA-256 of files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    return total.hexdigest()
