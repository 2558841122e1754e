"""Which mark the pieces of a folder that is being made have."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_groc.data.fingerprint import piece_mark
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.pieces import is_marked


def mark_of(given: str | None, folder: str | None) -> str:
    """Return the mark of pieces of words; nothing: the texts have whole words.

    Args:
        given: as an option; None: it is not
        folder: whose vocabulary is taken; None: no folder's

    Raises:
        OptionError: another mark than that of the vocabulary.
    """
    if folder is None:
        return given or ""
    mark = piece_mark(Path(folder))
    if given not in (None, mark):
        has = f"pieces marked {mark}" if mark else "whole words"
        raise OptionError(f"--piece-marks {given}: {folder} has {has}. Leave the option out.")
    return mark


def check_mark(mark: str, words: Sequence[str]) -> None:
    """Refuse a mark that no word of a dictionary has.

    Raises:
        DataError: these are whole words, or have another mark.
    """
    if mark and not any(is_marked(word, mark) for word in words):
        raise DataError(f"--piece-marks {mark}: no word has it. Cut the texts into pieces first, or leave the option out.")
