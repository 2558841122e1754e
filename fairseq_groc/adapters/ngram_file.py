"""An n-gram in a file, memory-mapped: its words and arrays, with a checksum of all of it.

The file: 8 bytes that say what it is, the length of the header (uint64), the checksum of what follows it (uint32, CRC-32), the
header in JSON, and the arrays, each from a multiple of 64 bytes on.
"""

import json
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.files import replace_file
from fairseq_groc.modules.kneser_ney import Level, NGrams

FILE = "ngram.bin"  # in its folder
FORMAT = 1  # raise whenever the file or the meaning of what is in it changes
MAGIC, HEAD, ALIGNED = b"groc-ngm", struct.Struct("<8sQI"), 64
END = "</s>"
MAKE = "python -m fairseq_groc ngram --data DATA --dest FOLDER"


class LanguageModel(Protocol):
    """What a mixture asks of an n-gram; a history is what it needs to know of one, n - 1 numbers, -1 for nothing."""

    @property
    def size(self) -> int:
        """V."""

    @property
    def order(self) -> int:
        """n."""

    def histories(self, numbers: NDArray[Any], before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the history after each word of a text, (n - 1, T)."""

    def probabilities(self, histories: NDArray[np.int64], numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Return p(word | history) of one word a position, (T)."""

    def distributions(self, histories: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return p(. | history), (T, V)."""


class WordNGrams(NamedTuple):
    """An n-gram and its words.

    Args:
        ngrams: over V words
        words: that they number, (V), ``</s>`` among them
        about: what it was made of: the digest of the text, the number of its tokens
    """

    ngrams: LanguageModel
    words: list[str]
    about: dict[str, Any]


def save_ngrams(folder: Path, ngrams: NGrams, words: list[str], about: dict[str, Any]) -> int:
    """Write what ``WordNGrams`` has into a folder; the file appears whole or not at all. Return its size in bytes."""
    arrays = {
        "words": np.frombuffer("\n".join(words).encode("utf-8", "surrogateescape"), np.uint8),
        "shares": ngrams.shares.astype("<f8"),
    }
    for length, level in enumerate(ngrams.levels, start=2):
        found = {"keys": level.keys.astype("<i8"), "shares": level.shares.astype("<f4"), "gammas": level.gammas.astype("<f4")}
        arrays.update({f"{length} {name}": array for name, array in found.items()})
    layout = {name: [array.dtype.str, len(array)] for name, array in arrays.items()}
    header = {"format": FORMAT, "order": ngrams.order, "floor": ngrams.floor, "about": about, "arrays": layout}
    parts = [json.dumps(header).encode(), *(array.tobytes() for array in arrays.values())]
    parts = [part + b" " * (_room(len(part) + (HEAD.size if not number else 0))) for number, part in enumerate(parts)]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    with replace_file(folder / FILE, "wb") as file:
        file.write(HEAD.pack(MAGIC, len(parts[0]), checksum))
        file.writelines(parts)
    return HEAD.size + sum(map(len, parts))


def _room(size: int) -> int:
    """Return how many bytes are missing to a multiple of 64."""
    return -size % ALIGNED


def open_ngrams(folder: Path) -> WordNGrams:
    """Open the n-gram of a folder; its arrays are read from the file when they are needed.

    Raises:
        OptionError: there is none.
        DataError: the file is damaged, or of another format.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise OptionError(f"{path} not found: expected a folder with an n-gram. Make one: {MAKE}")
    try:
        header, raw = _read(path)
        known = header["format"]
        if known == FORMAT:
            return _taken_apart(header, raw)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        raise DataError(f"{path} is damaged. Make it anew: {MAKE}") from None
    raise DataError(f"{path} has format {known}, expected {FORMAT}. Make it anew: {MAKE}")


def _read(path: Path) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """Return the header and the bytes of the arrays."""
    raw = np.memmap(path, np.uint8, "r")
    magic, length, checksum = HEAD.unpack(raw[: HEAD.size].tobytes())
    found = 0
    for begin in range(HEAD.size, len(raw), 1 << 24):
        found = zlib.crc32(raw[begin : begin + (1 << 24)].data, found)
    if magic != MAGIC or found != checksum:
        raise ValueError("checksum")
    return json.loads(raw[HEAD.size : HEAD.size + length].tobytes()), raw[HEAD.size + length :]


def _taken_apart(header: dict[str, Any], raw: NDArray[np.uint8]) -> WordNGrams:
    arrays, begin = {}, 0
    for name, (kind, length) in header["arrays"].items():
        size = np.dtype(kind).itemsize * length
        arrays[name] = raw[begin : begin + size].view(kind)
        begin += size + _room(size)
    levels = [
        Level(arrays[f"{n} keys"], arrays[f"{n} shares"], arrays[f"{n} gammas"]) for n in range(2, int(header["order"]) + 1)
    ]
    words = arrays["words"].tobytes().decode("utf-8", "surrogateescape").split("\n")
    return WordNGrams(NGrams(arrays["shares"], float(header["floor"]), levels), words, dict(header["about"]))
