"""Which dictionary a folder was binarised with: binarised text is numbers, and says nothing of the words it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

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


def note_dictionary(folder: Path, words: Sequence[str], trained: int) -> None:
    """Write, beside the text that was just binarised, the fingerprint of its dictionary.

    Args:
        folder: of the text
        words: of the dictionary
        trained: how many of them, after the special symbols, come from the training text
    """
    note = {"dictionary": words_fingerprint(words), "trained": trained}
    (Path(folder) / FILE).write_text(json.dumps(note) + "\n")


def trained_words(folder: Path) -> Optional[int]:
    """Return how many leading words of the dictionary come from the training text; None if nothing says so."""
    return _note(Path(folder)).get("trained")


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
