"""What every line of a text lost, in a file of tab-separated columns that anybody can read.

L: lines; n: tokens.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.errors import DataError, number_in, shown
from fairseq_groc.evaluation.report import losses_of
from fairseq_groc.files import replace_file

PARTS = ("all", "known", "new")  # of the tokens, </s> at line ends among them; <unk> is in all alone
TOKENS, NATS = "_tokens", "_nats"
FIGURES = tuple(part + unit for part in PARTS for unit in (TOKENS, NATS))
COLUMNS = ("line", *FIGURES, "words")
LARGEST_SLIP = 1e-3  # by which a sum of losses of almost certain words may be below 0, in float32
EXPECTED = "Expected a file of python -m fairseq_groc evaluate --losses"

Sums = dict[str, NDArray[np.float64]]  # by column, (L)


def sums_by_line(adapted: Tensor, places: Tensor, parts: Mapping[str, Tensor], ends: NDArray[np.int64]) -> Sums:
    """Return the tokens and the losses of every line, nats.

    Args:
        adapted, places: as in ``TokenScores``, (n) each
        parts: of the tokens, as ``report.parts_of`` has them
        ends: of the lines in the text, (L)
    """
    lines = torch.searchsorted(torch.from_numpy(ends), places, right=True)
    sums: Sums = {}
    for part in PARTS:
        own, losses = lines[parts[part]], losses_of(adapted[parts[part]])
        sums[part + TOKENS] = torch.bincount(own, minlength=len(ends)).double().numpy()
        sums[part + NATS] = torch.bincount(own, losses, len(ends)).double().numpy()  # integers where there is no token
    return sums


def write_losses(path: Path, sums: Sums, words: Iterable[str]) -> None:
    """Write a line of the file for each of the text: its number from 1, tokens and nats of each part, and its words."""
    rows = zip(*(sums[column].tolist() for column in FIGURES), strict=True)
    with replace_file(path) as file:
        file.write("\t".join(COLUMNS) + "\n")
        for number, (row, text) in enumerate(zip(rows, words, strict=True), start=1):
            figures = (f"{value:.0f}" if name.endswith(TOKENS) else repr(value) for name, value in zip(FIGURES, row, strict=True))
            file.write("\t".join([str(number), *figures, text]) + "\n")


def read_losses(path: Path) -> tuple[Sums, list[str]]:
    """Return what ``write_losses`` was given: the sums, and each line's words.

    Raises:
        DataError: no such file, or one that says something else; with the line.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file. {EXPECTED}.")
    head, *lines = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    if head.split("\t") != list(COLUMNS):
        raise DataError(f"{path}: the first line is {shown(head)}. {EXPECTED}: {', '.join(COLUMNS)}.")
    if len(lines) < 2 or lines.pop():
        raise DataError(f"{path} has no lines, or is cut in the last one. {EXPECTED}.")
    rows = [_row(f"{path}:{number + 1}", number, line.split("\t")) for number, line in enumerate(lines, start=1)]
    columns = np.array([figures for figures, _ in rows]).T
    return dict(zip(FIGURES, columns, strict=True)), [words for _, words in rows]


def _row(where: str, number: int, fields: list[str]) -> tuple[list[float], str]:
    """Return the figures and the words of a line.

    Raises:
        DataError: it is none of such a file.
    """
    if len(fields) != len(COLUMNS):
        raise DataError(f"{where}: {len(fields)} columns, expected {len(COLUMNS)}. {EXPECTED}.")
    if fields[0] != str(number):
        raise DataError(f"{where}: the line's number is {shown(fields[0])}, expected {number}: lines are missing or in disorder")
    figures = [_number(where, name, text) for name, text in zip(FIGURES, fields[1:-1], strict=True)]
    (tokens, known, new), (nats, *of_parts) = figures[::2], figures[1::2]
    if tokens != len(fields[-1].split()) + 1 or known + new > tokens:
        raise DataError(
            f"{where}: {tokens:.0f} tokens, {known:.0f} known and {new:.0f} new, and the words are others. {EXPECTED}."
        )
    for part, count, lost in zip(PARTS, figures[::2], figures[1::2], strict=True):
        if lost > 0 and not count:
            raise DataError(
                f"{where}: {part}{TOKENS} is 0 and {part}{NATS} is above: lines lose nothing without tokens. {EXPECTED}."
            )
    if sum(of_parts) > nats + LARGEST_SLIP:
        raise DataError(f"{where}: known and new words have lost {sum(of_parts):g} nats, all {nats:g}. {EXPECTED}.")
    return figures, fields[-1]


def _number(where: str, column: str, text: str) -> float:
    value = number_in(text)
    whole = column.endswith(TOKENS)
    if not value >= -LARGEST_SLIP or (whole and not (text.isascii() and text.isdecimal())):
        expected = "a whole number" if whole else "0 or more, or inf"
        raise DataError(f"{where}: {column} is {shown(text)}, expected {expected}. {EXPECTED}.")
    return value
