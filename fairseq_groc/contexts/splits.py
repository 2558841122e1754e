"""Contexts of the texts of a data folder, from the tables that a user gives: read, held against each other and the texts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairseq_groc.contexts.schema import Schema
from fairseq_groc.contexts.table import Table, read_table
from fairseq_groc.contexts.variables import SplitContexts, Variable, by_kind
from fairseq_groc.errors import DataError, OptionError


def read_contexts(
    files: Mapping[str, str], numeric: Sequence[str], cyclic: Mapping[str, float], earlier: tuple[Variable, ...] = ()
) -> dict[str, SplitContexts]:
    """Read the contexts of splits and hold those of the others against those of training, if it has any.

    Args:
        files: by split, the table
        numeric, cyclic: as in ``contexts_of``
        earlier: what an earlier training knows

    Raises:
        GrocError: as ``read_table``, ``contexts_of`` and ``Schema.of_training`` say.
    """
    tables = {split: read_table(path) for split, path in files.items()}
    contexts = {split: arrays._replace(earlier=earlier) for split, arrays in contexts_of(tables, numeric, cyclic).items()}
    if "train" in contexts:
        schema = Schema.of_training(contexts["train"], 1)
        for arrays in contexts.values():
            schema.rows(arrays)  # warns of values that training has not
    return contexts


def check_rows(arrays: SplitContexts, lines: int, text: str) -> None:
    """Compare a table with the lines of its text.

    Raises:
        DataError: it has another number of rows.
    """
    rows = len(arrays.categories)
    if rows == lines:
        return
    names = ", ".join(variable.name for variable in arrays.variables)
    hint = f". Does it lack these? Its first row is {names}" if rows == lines - 1 else ""
    raise DataError(
        f"{arrays.name} has {rows:,} rows for the {lines:,} lines of {text}: expected a row a line, below names of columns{hint}"
    )


def described(splits: Mapping[str, SplitContexts]) -> str:
    """Return one line on the variables: what they are, and how many of the lines of all splits lack them."""
    lines, said = sum(len(arrays.categories) for arrays in splits.values()), []
    for variable in next(iter(splits.values())).variables:
        columns = [arrays.column(variable.name) for arrays in splits.values()]
        missing = sum(int((np.isnan(c) if variable.kind != "category" else c == 0).sum()) for c in columns)
        kind = f"{len(variable.values):,} values" if variable.kind == "category" else variable.described
        said.append(f"{variable.name} ({kind}; {missing / lines:.2%} missing)")
    return f"contexts of {', '.join(splits)}: {', '.join(said)}"


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


def _variable(name: str, kinds: Mapping[str, tuple[str, float]], tables: Iterable[Table]) -> Variable:
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
