"""Text to fairseq's binary form, read once: words are numbered as they come, and renumbered once the dictionary is known."""

import struct
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code, best_fitting_int_dtype

from fairseq_groc.errors import DataError
from fairseq_groc.files import chunks

_NUMBER = "i"  # of words that have no place in the dictionary yet: int32


class Text(NamedTuple):
    """A text in a file of numbers: where, the length of each line with its ``</s>``, and the counts of its words."""

    path: Path
    lengths: "array[int]"
    counts: Counter[str]


class Numbering:
    """Numbers of words, by first appearance in all texts; memory grows with the words, and by 4 bytes a line."""

    def __init__(self, eos: str) -> None:
        self._eos = eos
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def write(self, path: Path, lines: Iterable[str]) -> Text:
        """Write the numbers of a text's words, and count them; equal counts keep the order of first appearance.

        Raises:
            DataError: it has no line.
        """
        lengths, counts = array("i"), Counter[str]()
        with open(path, "wb") as file:
            for line in lines:
                words = line.split()
                counts.update(words)
                words.append(self._eos)
                file.write(array(_NUMBER, map(self._numbers.__getitem__, words)))
                lengths.append(len(words))
        if not lengths:
            raise DataError(f"the {path.name} text is empty: nothing to train or score on")
        return Text(path, lengths, counts)

    def binarise(self, text: Text, prefix: Path, dictionary: Dictionary) -> None:
        """Write what fairseq-preprocess writes of a text, an index and the tokens, and remove the text.

        The index: what it is, its version, the type of tokens, the number of lines, their lengths, where they begin in bytes.
        (fairseq's writer holds a list of Python's numbers, many bytes a line.)
        """
        kind = np.dtype(best_fitting_int_dtype(len(dictionary)))
        entries = np.array([dictionary.index(word) for word in self._numbers], kind)
        with open(f"{prefix}.bin", "wb") as file:
            for chunk in chunks(text.path):
                file.write(entries[np.frombuffer(chunk, _NUMBER)].data)
        lengths = np.frombuffer(text.lengths, _NUMBER)
        with open(f"{prefix}.idx", "wb") as file:
            file.write(MMapIndexedDataset.Index._HDR_MAGIC + struct.pack("<QBQ", 1, _dtype_header_code(kind), len(lengths)))
            file.write(text.lengths)
            file.write(((np.cumsum(lengths, dtype=np.int64) - lengths) * kind.itemsize).data)
        text.path.unlink()
