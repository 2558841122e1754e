"""What a folder was binarised from: binarised text is numbers, and says nothing of its words, nor whether it is whole."""

import functools
import json
import logging
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from numpy.typing import NDArray

from fairseq_groc.dictionary import ADD_WORDS, list_of, load_dictionary, words_fingerprint
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.files import chunks
from fairseq_groc.pieces import MARKS, is_marked

FILE = "binarised.json"
logger = logging.getLogger(__name__)


def note_folder(
    folder: Path, words: Sequence[str], trained: NDArray[Any] | None, mark: str = "", cleaning: Sequence[str] = ()
) -> None:
    """Write, beside the texts that were just binarised, their checksums and the fingerprint of their dictionary.

    Args:
        folder: of the texts
        words: of the dictionary
        trained: mask (V) of the entries that the training text has; None: nobody knows
        mark: of pieces of words; nothing: the entries are whole words
        cleaning: the options that the raw texts were cleaned with
    """
    texts = {path.stem: _checksum(path.with_suffix("")) for path in sorted(folder.glob("*.bin"))}
    note: dict[str, Any] = {"dictionary": words_fingerprint(words), "texts": texts}
    if trained is not None:  # where runs of such entries begin and end: they are nearly always one
        edges = np.flatnonzero(np.diff(np.concatenate([[0], trained.astype(np.int8), [0]])))
        note["trained"] = edges.tolist()
    if mark:
        note["piece_mark"] = mark
    if cleaning:
        note["cleaning"] = list(cleaning)
    (folder / FILE).write_text(json.dumps(note) + "\n")


def trained_words(folder: Path, size: int) -> NDArray[Any] | None:
    """Return the mask (V) of the entries of a dictionary of *size* that the training text has; None if nothing says so.

    Raises:
        DataError: what is noted is not readable, or of another dictionary.
    """
    edges = _note(folder).get("trained")
    if edges is None:
        return None
    if edges and edges[-1] > size:
        raise _unreadable(folder)
    mask = np.zeros(size, dtype=bool)
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        mask[begin:end] = True
    return mask


def piece_mark(folder: Path) -> str:
    """Return the mark of the pieces that a folder's dictionary has; nothing: it has whole words, or nothing says so.

    Raises:
        DataError: what is noted is not readable.
    """
    return _note(folder).get("piece_mark", "")


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


def noted_cleaning(folder: Path) -> list[str]:
    """Return the options that a folder's raw texts were cleaned with; none: they were clean, or nothing says so.

    Raises:
        DataError: what is noted is not readable.
    """
    return _note(folder).get("cleaning", [])


class NamingDictionary(Dictionary):
    """One that names the words that it lacks, each once, where they are read as ``<unk>``."""

    def encode_line(self, line: str, *args: Any, **kwargs: Any) -> Any:
        """Return the numbers of a line's words, as fairseq does."""
        adding = kwargs.get("add_if_not_exist", args[1] if len(args) > 1 else True)
        named = self.__dict__.setdefault("_named", set())
        lacking = [] if adding else [word for word in dict.fromkeys(line.split()) if word not in self.indices]
        if new := [word for word in lacking if word not in named]:
            named.update(new)
            logger.warning(f"{list_of(new)} not in the vocabulary: read as {self.unk_word}. {ADD_WORDS}")
        return super().encode_line(line, *args, **kwargs)


def folder_dictionary(folder: Path) -> Dictionary:
    """Load the dictionary of a folder of binarised text; it names words that it lacks where a program reads them.

    Raises:
        DataError: it is no such folder, or has another's dictionary.
    """
    path = folder / "dict.txt"
    if not path.is_file():
        raise DataError(f"{path} not found: expected a folder that scripts/preprocess.sh has made")
    dictionary = load_dictionary(path, NamingDictionary)
    check_dictionary(folder, dictionary.symbols)
    return dictionary


def known_words(folder: Path) -> set[str]:
    """Return those of a folder's words that its training text has; all of them if nothing says which these are."""
    words = folder_dictionary(folder).symbols
    mask = trained_words(folder, len(words))
    return {word for i, word in enumerate(words) if mask is None or mask[i]}


def check_dictionary(folder: Path, words: Sequence[str]) -> None:
    """Compare; a folder that scripts/preprocess.sh did not make has nothing to compare with.

    Raises:
        DataError: ``dict.txt`` is not the dictionary of the binarised text.
    """
    fingerprint = words_fingerprint(words)
    if _note(folder).get("dictionary", fingerprint) != fingerprint:
        raise DataError(
            f"{folder}: dict.txt is not the dictionary that the text in this folder was binarised with. "
            "Put that one back, or binarise the text again: scripts/preprocess.sh."
        )


def check_binarised(prefix: Path) -> None:
    """Compare a text with its checksum, once in a process; in folders of version 0.1.0 or of fairseq-preprocess it has none.

    Args:
        prefix: of the text: its path without .bin

    Raises:
        DataError: the text or its index is not as it was binarised.
    """
    noted = _note(prefix.parent).get("texts", {}).get(prefix.name)
    if noted is not None and noted != _checksum(prefix):
        raise DataError(f"{prefix}.bin or .idx is not as it was binarised. Binarise the text again: scripts/preprocess.sh.")


def _checksum(prefix: Path) -> int:
    """Return the CRC-32 of a text: of its index, then of its tokens."""
    paths = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    return _crc(*((path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths))


@functools.lru_cache(maxsize=64)
def _crc(*stamped: tuple[Path, int, int]) -> int:
    total = 0
    for path, *_ in stamped:
        for chunk in chunks(path):
            total = zlib.crc32(chunk, total)
    return total


def _note(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    if not os.path.lexists(path):  # a link to nothing is not readable
        return {}
    try:
        note = json.loads(path.read_text())
        edges, texts, cleaning = note.get("trained", []), note.get("texts", {}), note.get("cleaning", [])
        lists = isinstance(edges, list) and isinstance(cleaning, list)
        kinds = {*map(type, edges), *map(type, texts.values())} <= {int} and {*map(type, cleaning)} <= {str}
        rising = len(edges) % 2 == 0 and [-1, *edges] == sorted({-1, *edges})
        readable = lists and kinds and rising and note.get("piece_mark", "") in ("", *MARKS)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        readable = False
    if not readable or not isinstance(note.get("dictionary", ""), str):
        raise _unreadable(folder)
    return note


def _unreadable(folder: Path) -> DataError:
    return DataError(f"{folder / FILE} is not readable. Binarise the text again: scripts/preprocess.sh.")
