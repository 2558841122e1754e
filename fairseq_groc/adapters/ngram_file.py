"""An n-gram in a file of safetensors, memory-mapped: its words and arrays, with a checksum of all of it."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_groc.adapters.arpa import ArpaNGrams
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.modules.kneser_ney import Level, NGrams
from fairseq_groc.tensor_file import open_tensors, save_tensors

FILE = "ngram.safetensors"  # in its folder
FORMAT = 2  # raise whenever the file or the meaning of what is in it changes
MAKE = "python -m fairseq_groc ngram --data DATA --dest FOLDER"


class WordNGrams(NamedTuple):
    """An n-gram and its words.

    Args:
        ngrams: over V words; a history is what it needs to know of one, n - 1 numbers, -1 for nothing
        words: that they number, (V), ``</s>`` among them
        about: what it was made of: the digest of the text, the number of its tokens
    """

    ngrams: NGrams | ArpaNGrams
    words: list[str]
    about: dict[str, Any]


def save_ngrams(folder: Path, ngrams: NGrams, words: list[str], about: dict[str, Any]) -> int:
    """Write what ``WordNGrams`` has into a folder; the file appears whole or not at all. Return its size in bytes."""
    arrays = {"words": np.frombuffer("\n".join(words).encode("utf-8", "surrogateescape"), np.uint8), "shares": ngrams.shares}
    for n, level in enumerate(ngrams.levels, start=2):
        arrays |= {f"{n} {name}": array for name, array in level._asdict().items()}
    header = {"format": FORMAT, "order": ngrams.order, "floor": ngrams.floor, "about": about}
    save_tensors(folder / FILE, {name: torch.tensor(array) for name, array in arrays.items()}, header)
    return (folder / FILE).stat().st_size


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
        header, tensors = open_tensors(path)
        known = header["format"]
        if known == FORMAT:
            return _taken_apart(header, {name: tensor.numpy() for name, tensor in tensors.items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} is damaged. Make it anew: {MAKE}") from None
    raise DataError(f"{path} has format {known}, expected {FORMAT}. Make it anew: {MAKE}")


def _taken_apart(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> WordNGrams:
    levels = [Level(*(arrays[f"{n} {name}"] for name in Level._fields)) for n in range(2, int(header["order"]) + 1)]
    words = arrays["words"].tobytes().decode("utf-8", "surrogateescape").split("\n")
    return WordNGrams(NGrams(arrays["shares"], float(header["floor"]), levels), words, dict(header["about"]))
