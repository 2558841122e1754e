"""What tables of results are made of: lines of Markdown, means over seeds, and which runs are compared."""

import statistics
from typing import Any

from experiments import KNESER_NEY

TITLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return ["| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)]


def without_constants(
    columns: list[str], rows: list[list[str]], optional: tuple[str, ...]
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Take out those of the optional columns that are the same in all of several rows, or empty.

    Returns:
        the columns and rows that are left, and what stood in the others, by their names, without the empty ones
    """
    same = {name for k, name in enumerate(columns) if name in optional and len({row[k] for row in rows}) == 1}
    same = {name for name in same if len(rows) > 1 or not rows[0][columns.index(name)]}
    kept = [k for k, name in enumerate(columns) if name not in same]
    constant = {name: rows[0][columns.index(name)] for name in columns if name in same and rows[0][columns.index(name)]}
    return [columns[k] for k in kept], [[row[k] for k in kept] for row in rows], constant


def seeds_of(rows: dict[str, Any]) -> int:
    """Return how many seeds every row of a table has."""
    return min((len(row["runs"]) for row in rows.values()), default=0)


def compared(rows: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a row that are compared with the other rows': as many as each of them has."""
    runs: list[dict[str, Any]] = row["runs"][: seeds_of(rows)]
    return runs


def smoothed(run: dict[str, Any]) -> float:
    """Return a run's test perplexity with the uniform weight that validation text chose."""
    return float(run["uniform"]["test"])


def test_of(rows: dict[str, Any]) -> dict[str, float]:
    """Return the mean smoothed test perplexity of every row, over the seeds that are compared."""
    return {label: statistics.mean(map(smoothed, compared(rows, row))) for label, row in rows.items()}


def changes(rows: dict[str, Any]) -> dict[str, str]:
    """Return how far each row's smoothed test perplexity is above the first one's: the mean over the seeds of both, and each."""
    first, *others = ({run["seed"]: smoothed(run) for run in row["runs"]} for row in rows.values())
    cells = [""]
    for of in others:
        found = [of[seed] / first[seed] - 1 for seed in of if seed in first]
        each = f" ({', '.join(f'{one:+.1%}' for one in found)})" if len(found) > 1 else ""
        cells.append(f"{statistics.mean(found):+.1%}{each}" if found else "")
    return dict(zip(rows, cells, strict=True))


def setting(values: dict[str, Any]) -> str:
    """Return a setting in words."""
    return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in values.items())


def spread(values: list[float]) -> str:
    """Return the mean, and the standard deviation over seeds if there are several; nothing of none."""
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}" if values else ""


def less(one: float, other: float) -> str:
    """Return by how much the one is below the other."""
    return f"{1 - one / other:.0%}"


def brief(results: dict[str, Any]) -> str:
    """Return a table of parameters and test perplexities, smoothed and alone, the best row first."""
    rows, ngram = results["rows"], results["ngram"]["test"]
    found = [(ngram, [KNESER_NEY, "", f"{ngram:.1f}", ""])]
    for label, row in rows.items():
        runs = compared(rows, row)
        figures = [[smoothed(run) for run in runs], [run["test"] for run in runs]]
        found.append((statistics.mean(figures[0]), [label, f"{runs[0]['parameters'] / 1e6:.2f}M", *map(spread, figures)]))
    lines = [line for _, line in sorted(found)]
    lines[0][2] = f"**{lines[0][2]}**"
    return "\n".join(table(["", "parameters", "test, smoothed", "test"], lines))
