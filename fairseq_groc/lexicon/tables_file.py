"""The file of lexicon tables beside the binarised data: written whole or not at all, checked whenever it is read."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from fairseq_groc.dictionary import spelling, words_fingerprint
from fairseq_groc.errors import TablesError
from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS, LexiconTables, Origin, known_source

FORMAT = 2  # raise whenever the arrays, their meaning or the fingerprints change
FOLDER = "lexicon-tables"
FILE = "tables.zip"  # in it: the header and the arrays, uncompressed; a zip file has a checksum of each
HEADER = "header.json"
# int32 indexes 2 * 10**9 forms, a thousand times the words of any language; offsets count list items: int64.
_DTYPES: dict[str, np.dtype[Any]] = {
    "form_bytes": np.dtype("u1"),
    "form_offsets": np.dtype("<i8"),
    "relations": np.dtype("<i4"),
    "relation_offsets": np.dtype("<i8"),
    "definitions": np.dtype("<i4"),
    "definition_offsets": np.dtype("<i8"),
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
    about = {name: value for name, value in asdict(tables.origin).items() if name != "piece_mark" or value}
    header = {"format": FORMAT, "dictionary": words_fingerprint(words), **about}
    scratch = target / f".{FILE}"
    with FileLock(target / ".lock"):
        try:
            scratch.unlink(missing_ok=True)  # what a killed process has left, or a link to somewhere else
            with zipfile.ZipFile(scratch, "x") as archive:
                archive.writestr(zipfile.ZipInfo(HEADER), json.dumps(header, indent=1) + "\n")
                for name, dtype in _DTYPES.items():
                    archive.writestr(zipfile.ZipInfo(name), getattr(tables, name).astype(dtype, copy=False).tobytes())
            _read(scratch)
            scratch.replace(target / FILE)
        except Exception as error:  # of the system, or of zipfile about what is not there
            raise TablesError(f"{target}: the tables could not be written ({error}). Is there room? Run this again.") from None
        finally:
            scratch.unlink(missing_ok=True)
    for old in (target / HEADER, *target.glob("*.npy")):  # of version 0.1.0, which could leave litter as well
        old.unlink(missing_ok=True)
    for litter in Path(folder).glob(f".{FOLDER}-" + "[0-9a-f]" * 32):
        shutil.rmtree(litter, ignore_errors=True)


def load_tables(folder: Path, words: Sequence[str]) -> LexiconTables:
    """Read the tables below *folder*, also those of version 0.1.0, and check all that indexing relies on.

    Raises:
        TablesError: they are missing, damaged, of another format, or made for another dictionary.
    """
    source = Path(folder) / FOLDER
    remedy = f"Rebuild them: python -m fairseq_groc tables {folder}"
    whole = (source / FILE).exists()
    if not whole and not (source / HEADER).exists():
        raise TablesError(f"{source}: no lexicon tables. {remedy}")
    try:
        header, tables = _read(source / FILE) if whole else _read_first_format(source)
        if header["dictionary"] != words_fingerprint(words):
            raise ValueError(f"made for another dictionary than {folder}/dict.txt")
        _check(tables, words)
    except Exception as error:  # whatever zipfile, json and numpy make of damaged files
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise TablesError(f"{source}: {reason}. {remedy}") from None
    return tables


def _read(path: Path) -> tuple[dict[str, Any], LexiconTables]:
    """Return the header and the tables of a file, all of it as it was written."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read(HEADER))
        _check_format(header, FORMAT)
        arrays = {name: np.frombuffer(archive.read(name), dtype) for name, dtype in _DTYPES.items()}
    made = header["lexicon"], header["max_relations"], header["max_definition"], tuple(header["sources"])
    return header, LexiconTables(**arrays, origin=Origin(*made, header.get("piece_mark", "")))


def _read_first_format(source: Path) -> tuple[dict[str, Any], LexiconTables]:
    """Return the header and the tables of a folder that version 0.1.0 wrote, without checksums."""
    header = json.loads((source / HEADER).read_text())
    _check_format(header, 1)
    arrays = {name: np.load(source / f"{name}.npy", allow_pickle=False) for name in _DTYPES}
    for name, array in arrays.items():
        if array.dtype != _DTYPES[name] or array.ndim != 1:
            raise ValueError(f"{name} is an array of {array.ndim} dimensions of {array.dtype}, expected 1 of {_DTYPES[name]}")
    lexicon = header["lexicon"]
    found = re.search(r"-r(\d+)-d(\d+)$", lexicon)
    limits = (int(found[1]), int(found[2])) if found else (MAX_RELATIONS, MAX_DEFINITION)
    sources = tuple(filter(None, [known_source(lexicon)]))
    return header, LexiconTables(**arrays, origin=Origin(lexicon, *limits, sources))


def _check_format(header: Any, expected: int) -> None:
    if not isinstance(header, dict) or "lexicon" not in header:
        raise ValueError(f"{HEADER} is not readable")
    if header.get("format") != expected:
        raise ValueError(f"tables of format {header.get('format')}, expected {FORMAT}")


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
