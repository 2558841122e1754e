"""Learning curves from the log of ``fairseq-train``, as ``--log-format simple`` and ``json`` write it."""

import contextlib
import json
import math
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_groc.errors import DataError, shown

Curve = list[tuple[float, float]]  # (updates, value), by updates; or (seconds, value)
TRAINING = "train"  # the name of the training curve: means over log intervals
_VALID = re.compile(r"valid on '([^']+)' subset \| (.*)")
_EPOCH = " epoch"  # what the means over an epoch of training are filed under, which are in its other lines: no subset's name
_MEANS = re.compile(r"\| train \| epoch \d+ \| (.*)")
_INNER = re.compile(r"epoch \d+: +\d+ / \d+ (.*num_updates=.*)")
_JSON = re.compile(r"\{.*\}\s*$")
_UPDATES = "num_updates"
_BEGINS = re.compile(r"fairseq_cli\.train\W.*\{'_name'")  # what a process of training logs first: its options
_BEGINNING = " begins"  # what that line is filed under


def read_curves(path: Path, metric: str = "ppl") -> dict[str, Curve]:
    """Return the curve of every validation subset, by its name, and that of training where its losses were logged.

    Where a run was stopped and went on from an earlier checkpoint in the same log, the later lines count.

    Args:
        path: of the log
        metric: as fairseq names it: ``ppl``, or ``loss`` in base 2

    Raises:
        DataError: there is no such file, or it has no validation results, or not of this metric, or something that is no number.
    """
    curves: dict[str, Curve] = {}
    for _, name, updates, value in _reports(path, metric):
        if name in (_EPOCH, _BEGINNING):
            continue
        curve = curves.setdefault(name, [])
        _go_back(curve, updates)
        curve.append((updates, value))
    if set(curves) <= {TRAINING}:
        raise DataError(
            f"{path}: no '{metric}' of a validation subset. Expected the output of fairseq-train --log-format simple or json, "
            "with validation."
        )
    return curves


def read_clock(path: Path) -> Curve:
    """Return how many seconds the training had taken after so many updates: validation and loading count, stops do not.

    Each line is of a number of updates that no other has. Where a run goes on in another process, fairseq's own clock stands
    still, so what counts is when each line was written, and which line a process begins with.

    Raises:
        DataError: there is no such file, or no line of training says when it was written.
    """
    clock: Curve = []
    begun: datetime | None = None  # when the process did
    before: float | None = None  # what the training had taken by then; None: its first line of training says what it goes on from
    for line, name, updates, _ in _reports(path):
        with contextlib.suppress(ValueError):  # no time, or no day of the calendar
            now = datetime.fromisoformat(line.lstrip("[")[:19])
            if begun is None or name == _BEGINNING:
                begun, before = now, None
            if name in (TRAINING, _EPOCH):
                if before is None:
                    _go_back(clock, updates)
                    before = clock[-1][1] if clock else 0.0
                if not clock or clock[-1][0] < updates:
                    clock.append((updates, before + (now - begun).total_seconds()))
    if not clock:
        raise DataError(f"{path}: no line of training says when it was written: give the log of fairseq-train")
    return clock


def by_seconds(curve: Curve, clock: Curve) -> tuple[Curve, int]:
    """Return a curve by seconds, linear between the lines of the clock, and how many points lie beyond these and are left out."""
    updates, seconds = zip(*clock, strict=True)
    inside = [point for point in curve if updates[0] <= point[0] <= updates[-1]]
    found = [(round(float(np.interp(place, updates, seconds)), 2), value) for place, value in inside]
    return found, len(curve) - len(inside)


def read_parameters(output: str) -> int:
    """Return the number of the model's parameters, as ``fairseq-train`` prints it."""
    return int(re.findall(r"num. shared model params: ([\d,]+)", output)[0].replace(",", ""))


def _reports(path: Path, metric: str = _UPDATES) -> Iterator[tuple[str, str, int, float]]:
    """Yield line, name, updates and value of what the lines of a log report of a metric.

    Raises:
        DataError: there is no such file, or something that is no number.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: no such log")
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            for name, stats in _results(line):
                if metric in stats and _UPDATES in stats:
                    where = f"{path}:{number}: {{}} of '{name.strip()}'"
                    updates = _number(stats[_UPDATES], where.format(_UPDATES), 0)
                    yield line, name, int(updates), _number(stats[metric], where.format(metric))


def _number(value: Any, what: str, least: float = -math.inf) -> float:
    """Return a number of a log, a finite one from *least* on unless this is -inf.

    Raises:
        DataError: it is none.
    """
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or (least > -math.inf and not least <= number < math.inf):
        raise DataError(f"{what} is {shown(str(value))}, expected a number: mend or leave out the line")
    return number


def _go_back(curve: Curve, updates: int) -> None:
    """Leave out what a run did after the checkpoint that it went on from."""
    while curve and curve[-1][0] >= updates:
        curve.pop()


def _results(line: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the figures of what a line reports."""
    valid, inner, means, as_json = (pattern.search(line) for pattern in (_VALID, _INNER, _MEANS, _JSON))
    if valid:
        yield valid[1], _pairs(valid[2])
    elif inner:
        yield TRAINING, dict(pair.split("=", 1) for pair in inner[1].strip().split(", ") if "=" in pair)
    elif means:
        yield _EPOCH, _pairs(means[1])
    elif _BEGINS.search(line):
        yield _BEGINNING, {_UPDATES: 0}
    elif as_json:
        yield from _from_json(as_json[0])


def _pairs(text: str) -> dict[str, Any]:
    return dict(pair.split(" ", 1) for pair in text.strip().split(" | ") if " " in pair)


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
        if key.endswith(f"_{_UPDATES}"):
            figures = {k[len(name) + 1 :]: value for k, value in stats.items() if k.startswith(f"{name}_")}
            yield (_EPOCH if name == TRAINING else name), figures
