"""Which dictionary a folder was binarised with: binarised text is numbers, and says nothing of the words it means."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

import numpy as np
from fairseq.data import Dictionary

from fairseq_groc.errors import DataError
from fairseq_groc.lexicon.tables import words_fingerprint

FILE = "binarised.json"


def load_dictionary(path: Path) -> Dictionary:
    """Load a ``dict.txt``.

    Raises:
        DataError: fairseq cannot read it, or it has a word twice.
    """
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises no narrower one for bad encodings
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"{path}: {reason} Mend the file, or binarise the text again: scripts/preprocess.sh.") from None


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
    """Return the mask (V) of the entries of a dictionary of *size* that the training text has; None if nothing says so."""
    edges = _note(Path(folder)).get("trained")
    if not isinstance(edges, list):
        return None
    mask = np.zeros(size, dtype=bool)
    for begin, end in zip(edges[::2], edges[1::2]):
        mask[begin:end] = True
    return mask


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
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError):
        raise DataError(f"{path} is not readable. Binarise the text again: scripts/preprocess.sh.") from None


def digest(*paths: Path) -> str:
    """Return the SHA-256 of files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    return total.hexdigest()
