"""Which dictionary a folder was binarised with: binarised text is numbers, and says nothing of the words it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Sequence

from fairseq_groc.errors import DataError
from fairseq_groc.lexicon.tables import words_fingerprint

FILE = "binarised.json"


def note_dictionary(folder: Path, words: Sequence[str]) -> None:
    """Write the fingerprint of the dictionary beside the text that was just binarised with it."""
    (Path(folder) / FILE).write_text(json.dumps({"dictionary": words_fingerprint(words)}) + "\n")


def check_dictionary(folder: Path, words: Sequence[str]) -> None:
    """Compare; a folder that scripts/preprocess.sh did not make has nothing to compare with.

    Raises:
        DataError: ``dict.txt`` is not the dictionary of the binarised text.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return
    try:
        noted = json.loads(path.read_text())["dictionary"]
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path} is not readable. Binarise the text again: scripts/preprocess.sh.") from None
    if noted != words_fingerprint(words):
        raise DataError(
            f"{folder}/dict.txt is not the dictionary that the text in {folder} was binarised with. "
            "Put that one back, or binarise the text again: scripts/preprocess.sh."
        )
