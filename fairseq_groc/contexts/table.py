"""Contexts as a user writes them: a tab-separated table beside a text, names of columns first, then a row a line."""

import math
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.errors import DataError, counted, number_in, shown
from fairseq_groc.files import why_no_file

NAME = r"[^\W\d][\w.-]*"  # what --context NAME=VALUE,NAME=VALUE and --context-cyclic NAME:PERIOD can say


class Column(NamedTuple):
    """The cells of a column, without the blanks around them.

    Args:
        name: of the variable
        values: those that are there, by first appearance; an empty one says that it is missing
        codes: which of them each row has, (rows)
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int32]


class Table(NamedTuple):
    """A table that was read: where from, its columns, and its number of rows without the names."""

    path: str
    columns: tuple[Column, ...]
    rows: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, (rows), NaN where it is missing.

        Raises:
            DataError: a cell that is no finite number, and where.
        """
        column = self.column(name)
        found = np.empty(len(column.values))
        for code, value in enumerate(column.values):
            number = number_of(value) if value else math.nan
            if number is None:
                line = int(np.argmax(column.codes == code)) + 2
                raise DataError(f"{self.path}:{line}: column {name}: {shown(value)}: expected a finite number, or nothing")
            found[code] = number
        return found[column.codes]


def number_of(text: str) -> float | None:
    """Return the number that a text is; None: it is none, or not a finite one."""
    number = number_in(text) if "_" not in text else math.nan
    return number if math.isfinite(number) else None


def read_table(path: str) -> Table:
    """Read a table: UTF-8, tabs between cells, nothing is quoted; lines may end in any way.

    Raises:
        DataError: missing, empty, without names of columns or with ones that no option can name, or a row of another
            number of cells; says where.
    """
    lines = _lines(path)
    header = next(lines, None)
    if header is None:
        raise DataError(f"{path} is empty: expected names of columns, tabs between them, then a row a line of the text")
    names = _names(path, header)
    numbers: list[dict[str, int]] = [{} for _ in names]
    codes = [array("i") for _ in names]
    rows = 0
    for rows, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) != len(names):
            raise DataError(
                f"{path}:{rows + 1}: has {counted(len(cells), 'cell')}, and the first row names {counted(len(names), 'column')}: "
                "expected one tab less than columns, with nothing between two tabs where a value is missing"
            )
        for cell, known, column in zip(cells, numbers, codes, strict=True):
            column.append(known.setdefault(cell.strip(), len(known)))
    columns = (Column(n, tuple(v), np.array(c, np.int32)) for n, v, c in zip(names, numbers, codes, strict=True))
    return Table(path, tuple(columns), rows)


def _names(path: str, header: str) -> list[str]:
    names = [cell.strip() for cell in header.split("\t")]
    for name in names:
        if number_of(name) is not None:
            raise DataError(f"{path}:1: has the number {shown(name)}: expected names of columns in the first row")
        if not re.fullmatch(NAME, name):
            raise DataError(
                f"{path}:1: {shown(name)} cannot be the name of a column: expected letters, digits and _ . - with a letter first"
            )
        if names.count(name) > 1:
            raise DataError(f"{path}:1: two columns have the name {shown(name)}: rename one, or leave it out")
    return names


def _lines(path: str) -> Iterator[str]:
    if not Path(path).is_file():
        raise DataError(f"{path}: {why_no_file(Path(path))}")
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:  # a byte-order mark is no part of a name
        for number, line in enumerate(file, start=1):
            if re.search("[\udc80-\udcff]", line):  # a byte that is not; first, as UTF-16 has NULs too
                raise DataError(f"{path}:{number}: not UTF-8. Convert the file: iconv -f ENCODING -t UTF-8")
            if "\x00" in line:
                raise DataError(f"{path}:{number}: has a NUL character. Is the file whole, and is it UTF-8?")
            yield line.removesuffix("\n")
