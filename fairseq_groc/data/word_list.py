"""Lists of words in files: a word on each line, alone, or before its count as in ``dict.txt``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_groc.data.text import check_text, read_lines
from fairseq_groc.dictionary import is_filler, is_symbol, load_dictionary
from fairseq_groc.errors import DataError, shown

if TYPE_CHECKING:
    from fairseq.data import Dictionary


def listed_words(path: Path, lower: bool = False) -> list[str]:
    """Return the words of a file, the first of each line, each once; ``<unk>`` and fillers are left out.

    Args:
        lower: whether they are lower-cased, as the text is

    Raises:
        DataError: the file cannot be read, or has a symbol of fairseq's.
    """
    words = dict.fromkeys(parts[0] for parts in _lines(path, lower))
    return [word for word in words if not is_symbol(word)]


def listed_dictionary(path: Path, lower: bool = False) -> Dictionary:
    """Return a dictionary of the words of a file, in their order; with counts it is a ``dict.txt``, which stays as it is.

    Args:
        lower: as in ``listed_words``

    Raises:
        DataError: as ``listed_words``; some lines have counts and others do not, there is no word, or fairseq cannot read it.
    """
    from fairseq.data import Dictionary  # here: the rest needs no fairseq

    if len(next(_lines(path), [""])) > 1:
        return load_dictionary(path)
    dictionary = Dictionary()
    for number, parts in enumerate(_lines(path, lower), start=1):
        if len(parts) > 1:
            raise DataError(f"{path}: {shown(' '.join(parts))} is no word (word {number} of the list): expected one a line")
        if parts[0] not in dictionary.indices and not is_filler(parts[0]):
            dictionary.add_symbol(parts[0])
    if len(dictionary) == dictionary.nspecial:
        raise DataError(f"{path}: no words: expected one a line")
    return dictionary


def _lines(path: Path, lower: bool = False) -> Iterator[list[str]]:
    """Yield what is between the blanks of each line that has anything."""
    for number, line in enumerate(read_lines(path), start=1):
        parts = (line.lower() if lower else line).split()
        if parts and not is_filler(parts[0]):
            check_text(parts[0], f"{path}:{number}")
        if parts:
            yield parts
