"""Validation perplexity at equal time: a table's learning curves, with updates counted in steps of its first row's model.

    python examples/papers/equal_time.py table-2-ptb-quarter.json step-by-step-small.json --out picture.png

The second file is of benchmarks/scaling.py --step-by-step, where models take turns at every step: so the load of a machine
during a training does not count. Prints a table in Markdown: perplexities between two validations are on a line through their
logarithms.
"""

import argparse
import itertools
import json
import math
from pathlib import Path
from typing import Any

from pictures import draw_curves

RUNS = {"GroC": "sampled-0.1", "GroC + corrections": "corrected-0.05"}  # rows whose name in the benchmark is not their head's
Curve = list[tuple[float, float]]  # (steps of the first row's model, perplexity)
POINTS = 6  # columns of the table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="JSON of run.py")
    parser.add_argument("times", type=Path, help="JSON of benchmarks/scaling.py --step-by-step")
    parser.add_argument("--first", default="tied", help="the row whose steps are counted")
    parser.add_argument("--out", type=Path, required=True, help="picture")
    args = parser.parse_args()
    curves, made = of_files(args.results, args.times, args.first)
    print(made)
    end = curves[args.first][-1][0]
    draw_curves({label: until(curve, end) for label, curve in curves.items()}, f"time (in updates of {args.first})", args.out)


def of_files(results: Path, times: Path, first: str) -> tuple[dict[str, Curve], str]:
    """Return the curves of the rows that have a price, and the table."""
    rows = json.loads(results.read_text())["rows"]
    prices = relative(json.loads(times.read_text()), first)
    curves = {label: scaled(row, prices[name_of(label)]) for label, row in rows.items() if name_of(label) in prices}
    return curves, table(curves, {label: prices[name_of(label)] for label in curves}, first)


def name_of(label: str) -> str:
    """Return the name that a row has in the benchmark."""
    return RUNS.get(label, label.replace(" ", "_"))


def relative(times: dict[str, Any], first: str) -> dict[str, float]:
    """Return the mean time of a step of each run, in those of the first."""
    (runs,) = times["runs"].values()  # of one vocabulary
    return {name: found["mean"] / runs[first]["mean"] for name, found in runs.items()}


def scaled(row: dict[str, Any], price: float) -> Curve:
    """Return the learning curve of a row's first seed."""
    return [(updates * price, perplexity) for updates, perplexity in row["runs"][0]["curve"]]


def at(curve: Curve, place: float) -> float | None:
    """Return the perplexity at a place between two validations; None: there is none on either side."""
    for (x, y), (u, v) in itertools.pairwise(curve):
        if x <= place <= u:
            return math.exp(math.log(y) + (math.log(v) - math.log(y)) * (place - x) / (u - x))
    return None


def table(curves: dict[str, Curve], prices: dict[str, float], first: str) -> str:
    """Return perplexities at equal times, in Markdown; the least of each time is bold."""
    end = curves[first][-1][0]
    places = [round(end * (number + 1) / POINTS) for number in range(POINTS)]
    found = {label: [at(curve, place) for place in places] for label, curve in curves.items()}
    least = [min((v[k] for v in found.values() if v[k] is not None), default=None) for k in range(POINTS)]
    lines = [["", "a step", *(f"{place:,}" for place in places)], ["---", *["---:"] * (POINTS + 1)]]
    for label, values in found.items():
        shown = ["" if v is None else f"**{v:.0f}**" if v == best else f"{v:.0f}" for v, best in zip(values, least, strict=True)]
        lines.append([label, f"{prices[label]:.2f}", *shown])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def until(curve: Curve, end: float) -> Curve:
    """Return a curve up to a time, with its perplexity then where that is between two validations."""
    last = at(curve, end)
    return [(x, y) for x, y in curve if x <= end] + ([(end, last)] if last is not None else [])


if __name__ == "__main__":
    main()
