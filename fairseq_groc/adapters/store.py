"""Entries of a cache on disk: keys and words, appended and memory-mapped.

n: entries; d: size of a key.
"""

import json
import logging
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.errors import CacheError
from fairseq_groc.files import replace_file

logger = logging.getLogger(__name__)
FORMAT = 4  # raise whenever the files or the meaning of what the header says change
HEADER, KEYS, WORDS = "header.json", "keys.f32", "words.u32"
# float32: the h of a model may be so alike that half precision leaves nothing of their distances; uint32: 4 * 10**9 words


class Entries:
    """Append-only entries in memory.

    Args:
        dim: d
    """

    about: dict[str, Any] = {}  # what made them, where they are on disk

    def __init__(self, dim: int):
        self.dim, self.count = dim, 0
        self._keys, self._tokens = np.empty((16, dim), np.float32), np.empty(16, np.uint32)

    def append(self, keys: NDArray[np.float32], tokens: NDArray[np.uint32]) -> None:
        """Append entries: keys (n, d) and tokens (n)."""
        end = self.count + len(tokens)
        if end > len(self._tokens):
            self._keys = np.concatenate([self._keys[: self.count], np.empty((end, self.dim), np.float32)])
            self._tokens = np.concatenate([self._tokens[: self.count], np.empty(end, np.uint32)])
        self._keys[self.count : end], self._tokens[self.count : end] = keys, tokens
        self.count = end

    def entries(self) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
        """Return all entries: keys (n, d) and tokens (n)."""
        return self._keys[: self.count], self._tokens[: self.count]


class EntryStore(Entries):
    """Append-only entries below a folder.

    What ``commit`` has reported as stored survives a kill: the header, which counts it, is replaced as a whole after
    the data are on disk, and what was written after it is cut off when the store is opened again.

    Args:
        folder: where; None: a temporary one that goes with the store
        dim: d
        about: what makes the entries, for the header: the model's fingerprint, the text's digest, the length of its blocks
        reading: only read what is stored, as somebody else may be writing

    Raises:
        CacheError: the folder holds other entries, of another size or format, or is damaged.
    """

    def __init__(self, folder: Path | None, dim: int, about: dict[str, Any] | None = None, reading: bool = False):
        self._temporary = tempfile.TemporaryDirectory(prefix="groc-cache-") if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary else Path(folder)  # type: ignore[arg-type]
        self.dim, self.about = dim, about or {}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._header: dict[str, Any] = {}
        self.stored = self._open()  # entries that the header counts
        self.count = self.stored
        widths = {KEYS: 4 * dim, WORDS: 4}
        for name, width in widths.items():
            path = self.folder / name
            if not self.stored and not reading:
                path.touch()
            if not path.exists() or path.stat().st_size < self.stored * width:
                raise CacheError(f"{path} is shorter than the {self.stored:,} entries stored. {REMEDY}")
        self._sums = {name: self._checksum(name, width) for name, width in widths.items()}
        if self._header and self._sums != self._header["checksums"]:
            raise CacheError(f"{self.folder}: its files are not what was stored, they are damaged. {REMEDY}")
        for name, width in widths.items() if not reading else ():
            os.truncate(self.folder / name, self.stored * width)  # what was written after the last commit
        self._maps = 0, np.empty((0, dim), np.float32), np.empty(0, np.uint32)
        if not self.stored and not reading:
            self.commit()

    def _open(self) -> int:
        path = self.folder / HEADER
        if not path.exists():
            return 0
        header = self._header = read_header(self.folder)
        for name, ours in {"dim": self.dim, **self.about}.items():
            if header.get(name) != ours:
                what = "model or vocabulary" if name == "model" else name
                raise CacheError(f"{self.folder}: its {what} is {header.get(name)!s:.16}, not {ours!s:.16}. {REMEDY}")
        return int(header["stored"])

    def _checksum(self, name: str, width: int) -> int:
        """Return the checksum of what is stored in a file of so many bytes an entry."""
        total, left = 0, self.stored * width
        if left:
            with open(self.folder / name, "rb") as file:
                while left > 0 and (piece := file.read(min(left, 1 << 24))):
                    total, left = zlib.crc32(piece, total), left - len(piece)
        return total

    def append(self, keys: NDArray[np.float32], tokens: NDArray[np.uint32]) -> None:
        """Append entries: keys (n, d) and tokens (n)."""
        for name, values in ((KEYS, keys.astype(np.float32)), (WORDS, tokens.astype(np.uint32))):
            raw = values.tobytes()
            self._sums[name] = zlib.crc32(raw, self._sums[name])
            with open(self.folder / name, "ab") as file:  # opened each time: many streams have many stores
                file.write(raw)
        self.count += len(tokens)

    def entries(self) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
        """Return all entries, memory-mapped: keys (n, d) and tokens (n)."""
        if self._maps[0] != self.count:
            keys = np.memmap(self.folder / KEYS, np.float32, "r", shape=(self.count, self.dim))
            self._maps = self.count, keys, np.memmap(self.folder / WORDS, np.uint32, "r", shape=(self.count,))
        return self._maps[1], self._maps[2]

    def commit(self) -> int:
        """Put everything on disk, and return how many entries are stored from now on whatever happens."""
        for name in (KEYS, WORDS):
            with open(self.folder / name, "rb+") as file:
                os.fsync(file.fileno())
        self.stored = self.count
        header = {"format": FORMAT, "dim": self.dim, **self.about, "stored": self.stored, "checksums": self._sums}
        with replace_file(self.folder / HEADER) as file:
            file.write(json.dumps(header) + "\n")
        return self.stored


REMEDY = "Give another folder, or make it anew: python -m fairseq_groc remember."


def read_header(folder: Path) -> dict[str, Any]:
    """Return what a store says of itself.

    Raises:
        CacheError: there is none, it is damaged, or of another format.
    """
    try:
        header = json.loads((Path(folder) / HEADER).read_text())
        if header["format"] == 3:  # which had these in one string
            header["model"], header["text"], block = header["fingerprint"].split(" ")
            header.update(block=int(block), format=FORMAT)
    except FileNotFoundError:
        raise CacheError(f"{folder} holds no remembered text. {REMEDY}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CacheError(f"{folder}/{HEADER} is not readable. {REMEDY}") from None
    if header["format"] != FORMAT:
        raise CacheError(f"{folder}: remembered text of format {header['format']}, expected {FORMAT}. {REMEDY}")
    kinds = {"dim": int, "model": str, "text": str, "block": int, "stored": int, "checksums": dict}
    if not all(isinstance(header.get(name), kind) for name, kind in kinds.items()) or header["stored"] < 0:
        raise CacheError(f"{folder}/{HEADER} is not readable. {REMEDY}")
    return header


def open_store(folder: Path, model: Any) -> EntryStore:
    """Open the entries of a text that ``python -m fairseq_groc remember`` has stored, to read them.

    Args:
        model: the decoder that made them

    Raises:
        CacheError: there are none, or another model's or vocabulary's.
    """
    header = read_header(folder)
    about = {"model": model.fingerprint(), "text": header["text"], "block": header["block"]}
    store = EntryStore(folder, header["dim"], about, reading=True)
    largest = int(store.entries()[1].max()) if store.count else 0
    if largest >= len(model.dictionary):
        raise CacheError(f"{folder} has word {largest:,} of a vocabulary of {len(model.dictionary):,}: it is damaged. {REMEDY}")
    logger.info(f"{folder}: {store.count:,} words remembered")
    return store
