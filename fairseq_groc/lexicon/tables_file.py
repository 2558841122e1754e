"""The file of lexicon tables beside the binarised data: written whole or not at all, checked whenever it is read."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from numpy.typing import NDArray

from fairseq_groc.dictionary import spelling, words_fingerprint
from fairseq_groc.errors import TablesError
from fairseq_groc.lexicon.tables import LexiconTables, Origin
from fairseq_groc.tensor_file import open_tensors, save_tensors

FORMAT = 3  # raise whenever the arrays, their meaning or the fingerprints change
FOLDER = "lexicon-tables"
FILE = "tables.safetensors"
EARLIER = ("header.json", "tables.zip")  # files that earlier versions wrote
# int32 indexes 2 * 10**9 forms, a thousand times the words of any language; offsets count list items: int64
ARRAYS = {
    "form_bytes": torch.uint8,
    "form_offsets": torch.int64,
    "relations": torch.int32,
    "relation_offsets": torch.int64,
    "definitions": torch.int32,
    "definition_offsets": torch.int64,
}


def save_tables(folder: Path, tables: LexiconTables, words: Sequence[str]) -> None:
    """Write the tables below *folder*, where the old ones are until the new ones are whole, however the writing ends.

    Raises:
        TablesError: there is no room, or something else in the place of the tables.
    """
    target = Path(folder) / FOLDER
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise TablesError(f"{target}: a {'link' if target.is_symlink() else 'file'}, expected a folder. Move it away.")
    target.mkdir(exist_ok=True)
    header = {"format": FORMAT, "dictionary": words_fingerprint(words), **asdict(tables.origin)}
    arrays = {name: torch.tensor(getattr(tables, name), dtype=kind) for name, kind in ARRAYS.items()}
    with FileLock(target / ".lock"):
        try:
            save_tensors(target / FILE, arrays, header)
        except OSError as error:
            raise TablesError(f"{target}: the tables could not be written ({error}). Is there room? Run this again.") from None
        for old in (*(target / name for name in EARLIER), *target.glob("*.npy"), *target.glob(".*.part")):
            old.unlink(missing_ok=True)  # of other versions, and what a killed process has left
    for litter in Path(folder).glob(f".{FOLDER}-" + "[0-9a-f]" * 32):
        shutil.rmtree(litter, ignore_errors=True)


def load_tables(folder: Path, words: Sequence[str]) -> LexiconTables:
    """Map the tables below *folder* into memory, and check all that indexing relies on.

    Raises:
        TablesError: they are missing, damaged, of another version, or made for another dictionary.
    """
    source = Path(folder) / FOLDER
    remedy = f"Rebuild them: python -m fairseq_groc tables {folder}"
    if not (source / FILE).exists():
        earlier = any((source / name).exists() for name in EARLIER)
        raise TablesError(f"{source}: {'tables of an earlier version' if earlier else 'no lexicon tables'}. {remedy}")
    try:
        header, tensors = open_tensors(source / FILE)
        if header["format"] != FORMAT:
            raise ValueError(f"tables of format {header['format']}, expected {FORMAT}")
        if header["dictionary"] != words_fingerprint(words):
            raise ValueError(f"made for another dictionary than {folder}/dict.txt")
        origin = Origin(**{**{name: header[name] for name in Origin.__annotations__}, "sources": tuple(header["sources"])})
        tables = LexiconTables(**{name: tensors[name].numpy() for name in ARRAYS}, origin=origin)
        _check(tables, words)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TablesError(f"{source}: {error}. {remedy}") from None
    return tables


def _check(tables: LexiconTables, words: Sequence[str]) -> None:
    """Refuse arrays that point beyond each other: kernels read what an index says."""
    of_words: dict[str, NDArray[Any]] = {"relation": tables.relations, "definition": tables.definitions}
    for kind, items in {"form": tables.form_bytes, **of_words}.items():
        offsets = getattr(tables, f"{kind}_offsets")
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(items) or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"damaged: {kind}_offsets do not rise from 0 to {len(items):,}")
        if kind in of_words and len(offsets) != len(words) + 1:
            raise ValueError(f"damaged: {kind}_offsets are of {len(offsets) - 1:,} words, expected {len(words):,}")
        if kind in of_words and len(items) and not 0 <= items.min() <= items.max() < tables.num_forms:
            raise ValueError(f"damaged: {kind}s of {items.min():,} to {items.max():,}, expected 0 to {tables.num_forms - 1:,}")
    if tables.forms()[: len(words)] != list(map(spelling, words)):
        raise ValueError("damaged: the first forms are not the words of the dictionary")
