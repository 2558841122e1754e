"""Contexts beside a binarised text: ``context.json``, and two arrays for each split, which are mapped into memory."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.contexts.variables import SplitContexts, Variable
from fairseq_groc.errors import DataError
from fairseq_groc.files import digest

FILE = "context.json"
FORMAT = 1
KINDS = ("category", "number", "cycle")


def write_contexts(folder: Path, splits: Mapping[str, SplitContexts], lengths: Mapping[str, NDArray[Any]]) -> None:
    """Write contexts beside texts.

    Args:
        lengths: by split, how many tokens each line has: what the text of the contexts is known by
    """
    first, noted = next(iter(splits.values())), {}
    variables, earlier = ([variable.as_dict() for variable in of] for of in (first.variables, first.earlier))
    for split, arrays in splits.items():
        categories, numbers = _paths(folder / split)
        np.save(categories, arrays.categories, allow_pickle=False)
        np.save(numbers, arrays.numbers, allow_pickle=False)
        digests = {"text": _text_digest(lengths[split]), "sha256": _digest(folder / split, variables, earlier)}
        noted[split] = {"lines": len(arrays.categories), **digests}
    note = {"format": FORMAT, "variables": variables, "earlier": earlier, "splits": noted}
    (folder / FILE).write_text(json.dumps(note) + "\n", encoding="utf-8")


def open_contexts(prefix: Path, lengths: NDArray[Any]) -> SplitContexts | None:
    """Return the contexts of a split; None: it has none.

    Args:
        prefix: of the text: its path without .bin
        lengths: how many tokens each line of the text has

    Raises:
        DataError: they are damaged, or of another text.
    """
    folder, files = prefix.parent, _paths(prefix)
    if not os.path.lexists(folder / FILE):
        if any(map(os.path.lexists, files)):
            raise DataError(f"{prefix} has contexts, but {folder} has no {FILE}, which says what they are. {AGAIN}")
        return None
    variables, earlier, splits = _note(folder)
    if prefix.name not in splits:
        if any(map(os.path.lexists, files)):
            raise DataError(f"{prefix} has contexts that {folder / FILE} knows nothing of. {AGAIN}")
        return None
    noted = splits[prefix.name]
    if noted["lines"] != len(lengths) or noted["text"] != _text_digest(lengths):
        other = f"that one has {noted['lines']:,} lines, this one {len(lengths):,}"
        if noted["lines"] == len(lengths):
            other = "as many lines, of other lengths"
        raise DataError(f"{prefix}: its contexts are of another text ({other}). {AGAIN}")
    try:
        whole = noted["sha256"] == _digest(prefix, variables, earlier)
        categories, numbers = (np.load(path, mmap_mode="r", allow_pickle=False) for path in files) if whole else (None, None)
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}. {AGAIN}") from None
    if categories is None or numbers is None:
        raise DataError(f"{files[0]}, {files[1].name} or {FILE} is not as it was written. {AGAIN}")
    own, before = (tuple(map(Variable.from_dict, of)) for of in (variables, earlier))
    return SplitContexts(str(prefix), own, categories, numbers, before)


def earlier_contexts(folder: Path) -> tuple[Variable, ...]:
    """Return what an earlier training knows, of which a folder's vocabulary is; nothing: there is none, or no contexts.

    Raises:
        DataError: they are damaged.
    """
    return tuple(map(Variable.from_dict, _note(folder)[1])) if os.path.lexists(folder / FILE) else ()


AGAIN = "Preprocess the text again with its --context-train, --context-valid or --context-test."


def _paths(prefix: Path) -> tuple[Path, Path]:
    return Path(f"{prefix}.context.categories.npy"), Path(f"{prefix}.context.numbers.npy")


def _text_digest(lengths: NDArray[Any]) -> str:
    return hashlib.sha256(np.asarray(lengths, "<i8").tobytes()).hexdigest()


def _digest(prefix: Path, variables: Any, earlier: Any) -> str:
    """Return the SHA-256 of what is known of a split: the variables as JSON, then both files."""
    return digest(*_paths(prefix), first=json.dumps([variables, earlier] if earlier else variables).encode())


def _note(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the variables, those of an earlier training and the splits that ``context.json`` has."""
    path = folder / FILE
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        variables, earlier = note["variables"], note.get("earlier", [])
        readable = note["format"] == FORMAT and all(map(_is_variable, variables + earlier)) and isinstance(note["splits"], dict)
        readable = readable and all(len({one["name"] for one in of}) == len(of) for of in (variables, earlier))
        kinds = {(type(split["lines"]), type(split["text"]), type(split["sha256"])) for split in note["splits"].values()}
        readable = readable and kinds <= {(int, str, str)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        readable = False
    if not readable:
        raise DataError(f"{path} is not readable. {AGAIN}")
    return variables, earlier, note["splits"]


def _is_variable(saved: Any) -> bool:
    named = isinstance(saved["name"], str) and saved["kind"] in KINDS and saved.keys() <= set(Variable._fields)
    numbers = (saved["period"], *(saved.get(name, 0) for name in ("unknown", "mean", "deviation")))
    values, counts = saved["values"], saved.get("counts", [])
    valued = isinstance(values, list) and all(isinstance(value, str) for value in values) and len(set(values)) == len(values)
    counted = len(counts) in (0, len(values)) and all(isinstance(count, int) for count in counts)
    return named and valued and counted and all(isinstance(number, (int, float)) for number in numbers)
