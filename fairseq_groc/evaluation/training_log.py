"""Learning curves from the log of ``fairseq-train``, as ``--log-format simple`` and ``json`` write it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairseq_groc.errors import DataError, shown

Curve = list[tuple[int, float]]  # (updates, value), by updates
TRAINING = "train"  # the name of the training curve: means over log intervals
_VALID = re.compile(r"valid on '([^']+)' subset \| (.*)")
_INNER = re.compile(r"epoch \d+: +\d+ / \d+ (.*num_updates=.*)")
_JSON = re.compile(r"\{.*\}\s*$")
_UPDATES = "num_updates"


def read_curves(path: Path, metric: str = "ppl") -> dict[str, Curve]:
    """Return the curve of every validation subset, by its name, and that of training where its losses were logged.

    Where a run was stopped and went on from an earlier checkpoint in the same log, the later lines count.

    Args:
        path: of the log
        metric: as fairseq names it: ``ppl``, or ``loss`` in base 2

    Raises:
        DataError: there is no such file, or it has no validation results, or not of this metric, or something that is no number.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: no such log")
    curves: dict[str, Curve] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            for name, stats in _results(line):
                if metric in stats:
                    where = f"{path}:{number}: {{}} of '{name}'"
                    updates = _number(stats[_UPDATES], where.format(_UPDATES), lambda number: 0 <= number < math.inf)
                    _add(curves.setdefault(name, []), int(updates), _number(stats[metric], where.format(metric)))
    if set(curves) <= {TRAINING}:
        raise DataError(
            f"{path}: no '{metric}' of a validation subset. Expected the output of fairseq-train --log-format simple or json, "
            "with validation."
        )
    return curves


def read_parameters(output: str) -> int:
    """Return the number of the model's parameters, as ``fairseq-train`` prints it."""
    return int(re.findall(r"num. shared model params: ([\d,]+)", output)[0].replace(",", ""))


def _number(value: Any, what: str, accepts: Callable[[float], bool] = lambda number: True) -> float:
    """Return a number of a log.

    Raises:
        DataError: it is none.
    """
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not accepts(number):
        raise DataError(f"{what} is {shown(str(value))}, expected a number: mend or leave out the line")
    return number


def _add(curve: Curve, updates: int, value: float) -> None:
    while curve and curve[-1][0] >= updates:  # the run went back
        curve.pop()
    curve.append((updates, value))


def _results(line: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the figures of what a line reports."""
    valid, inner, as_json = _VALID.search(line), _INNER.search(line), _JSON.search(line)
    if valid:
        stats = dict(pair.split(" ", 1) for pair in valid[2].strip().split(" | ") if " " in pair)
        if _UPDATES in stats:
            yield valid[1], stats
    elif inner:
        yield TRAINING, dict(pair.split("=", 1) for pair in inner[1].strip().split(", ") if "=" in pair)
    elif as_json:
        yield from _from_json(as_json[0])


def _from_json(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the same from a JSON object: the names of a subset's figures begin with the subset's, those of training do not."""
    try:
        stats = json.loads(text)
    except (ValueError, RecursionError):  # something else between braces
        return
    if _UPDATES in stats:
        yield TRAINING, stats
        return
    for key in stats:
        name = key[: -len(_UPDATES) - 1]
        if key.endswith(f"_{_UPDATES}") and name != TRAINING:  # the mean over an epoch is in the log's training lines already
            yield name, {k[len(name) + 1 :]: value for k, value in stats.items() if k.startswith(f"{name}_")}
