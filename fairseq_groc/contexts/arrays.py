"""Contexts beside a binarised text: ``context.json``, and two arrays for each split, which are mapped into memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.contexts.schema import SplitContexts, Variable, by_kind
from fairseq_groc.contexts.table import Table
from fairseq_groc.errors import DataError, OptionError

FILE = "context.json"
FORMAT = 1
KINDS = ("category", "number", "cycle")


def contexts_of(
    tables: Mapping[str, Table], numeric: Sequence[str] = (), cyclic: Mapping[str, float] | None = None
) -> dict[str, SplitContexts]:
    """Return the contexts of splits; all other columns than those named are categories.

    Args:
        tables: by split; all have the columns of the first
        numeric: columns that are numbers
        cyclic: columns that are numbers which begin anew at 0 after a period, with their periods

    Raises:
        OptionError: a column that is named and not there, or named twice.
        DataError: columns of one table that another lacks, or a cell that is no number.
    """
    first, *others = tables.values()
    for table in others:
        _check_columns(first, table)
    kinds = _kinds(first, numeric, cyclic or {})
    variables = tuple(_variable(column, kinds, tables.values()) for column in first.names)
    return {split: _binarised(table, variables) for split, table in tables.items()}


def write_contexts(folder: Path, splits: Mapping[str, SplitContexts], lengths: Mapping[str, NDArray[Any]]) -> None:
    """Write contexts beside texts.

    Args:
        lengths: by split, how many tokens each line has: what the text of the contexts is known by
    """
    given = next(iter(splits.values())).variables
    variables = [{"name": v.name, "kind": v.kind, "values": list(v.values), "period": v.period} for v in given]
    noted = {}
    for split, arrays in splits.items():
        categories, numbers = _paths(folder / split)
        np.save(categories, arrays.categories, allow_pickle=False)
        np.save(numbers, arrays.numbers, allow_pickle=False)
        digests = {"text": _text_digest(lengths[split]), "sha256": _digest(folder / split, variables)}
        noted[split] = {"lines": len(arrays.categories), **digests}
    (folder / FILE).write_text(json.dumps({"format": FORMAT, "variables": variables, "splits": noted}) + "\n", encoding="utf-8")


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
    variables, splits = _note(folder)
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
        whole = noted["sha256"] == _digest(prefix, variables)
        categories, numbers = (np.load(path, mmap_mode="r", allow_pickle=False) for path in files) if whole else (None, None)
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror}. {AGAIN}") from None
    if categories is None or numbers is None:
        raise DataError(f"{files[0]}, {files[1].name} or {FILE} is not as it was written. {AGAIN}")
    found = tuple(Variable(v["name"], v["kind"], tuple(v["values"]), period=v["period"]) for v in variables)
    return SplitContexts(str(prefix), found, categories, numbers)


AGAIN = "Preprocess the text again with its --context-train, --context-valid or --context-test."


def _check_columns(first: Table, other: Table) -> None:
    for one, two in ((first, other), (other, first)):
        if lacking := [name for name in one.names if name not in two.names]:
            raise DataError(
                f"{two.path}: has no column {lacking[0]}, which {one.path} has: expected the same columns in both, in any order"
            )


def _kinds(table: Table, numeric: Sequence[str], cyclic: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """Return the kind and the period of those columns that are no categories."""
    for option, names in (("--context-numeric", numeric), ("--context-cyclic", cyclic)):
        if unknown := [name for name in names if name not in table.names]:
            raise OptionError(f"{option} {unknown[0]}: {table.path} has no such column. It has {', '.join(table.names)}.")
    if both := [name for name in numeric if name in cyclic]:
        raise OptionError(f"--context-numeric {both[0]} and --context-cyclic {both[0]}: give one")
    return dict.fromkeys(numeric, ("number", 0.0)) | {name: ("cycle", period) for name, period in cyclic.items()}


def _variable(name: str, kinds: Mapping[str, tuple[str, float]], tables: Any) -> Variable:
    if name in kinds:
        kind, period = kinds[name]
        return Variable(name, kind, period=period)
    counts = Counter[str]()
    for table in tables:
        column = table.column(name)
        counts.update(dict(zip(column.values, np.bincount(column.codes).tolist(), strict=True)))
    return Variable(name, "category", tuple(value for value, _ in counts.most_common() if value))


def _binarised(table: Table, variables: tuple[Variable, ...]) -> SplitContexts:
    categories, numbers = by_kind(variables)
    chosen = np.zeros((table.rows, len(categories)), np.int32)
    for i, variable in enumerate(categories):
        number = {value: k for k, value in enumerate(variable.values, start=1)}
        column = table.column(variable.name)
        chosen[:, i] = np.array([number.get(value, 0) for value in column.values], np.int32)[column.codes]
    measured = np.full((table.rows, len(numbers)), np.nan)
    for i, variable in enumerate(numbers):
        measured[:, i] = table.numbers(variable.name)
    return SplitContexts(table.path, variables, chosen, measured)


def _paths(prefix: Path) -> tuple[Path, Path]:
    return Path(f"{prefix}.context.categories.npy"), Path(f"{prefix}.context.numbers.npy")


def _text_digest(lengths: NDArray[Any]) -> str:
    return hashlib.sha256(np.asarray(lengths, "<i8").tobytes()).hexdigest()


def _digest(prefix: Path, variables: Any) -> str:
    """Return the SHA-256 of what is known of a split: the variables as JSON, then both files."""
    total = hashlib.sha256(json.dumps(variables).encode())
    for path in _paths(prefix):
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                total.update(piece)
    return total.hexdigest()


def _note(folder: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the variables and the splits that ``context.json`` has."""
    path = folder / FILE
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        readable = note["format"] == FORMAT and all(map(_is_variable, note["variables"])) and isinstance(note["splits"], dict)
        kinds = {(type(split["lines"]), type(split["text"]), type(split["sha256"])) for split in note["splits"].values()}
        readable = readable and kinds <= {(int, str, str)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        readable = False
    if not readable:
        raise DataError(f"{path} is not readable. {AGAIN}")
    return note["variables"], note["splits"]


def _is_variable(saved: Any) -> bool:
    named = isinstance(saved["name"], str) and saved["kind"] in KINDS and isinstance(saved["period"], (int, float))
    return named and isinstance(saved["values"], list) and all(isinstance(value, str) for value in saved["values"])
