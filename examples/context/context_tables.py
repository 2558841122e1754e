"""Tables and pictures of what examples/context/run.py has found.

    python examples/context/context_tables.py WORK/models-agnews.json [--out FOLDER]

prints a table in Markdown; with --out a picture of accuracy against perplexity is drawn there, or of both by rank.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_groc.evaluation.context_pictures import Label, write_labels
from fairseq_groc.evaluation.results import color_of, pyplot, save_figure

MARKERS = "os^Dv*Px"
COLUMNS = ["model", "seeds", "perplexity", "known words", "new words", "values never seen", "accuracy", "parameters (M)"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="JSON of run.py")
    parser.add_argument("--out", type=Path, help="folder for the picture")
    args = parser.parse_args()
    found = json.loads(args.results.read_text())
    rows = found["rows"]
    print("\n".join(markdown(rows, found["ngram"])))
    picture = args.out and args.out / args.results.with_suffix(".png").name
    if picture and found["experiment"] == "ranks":
        draw_ranks(rows, picture)
    elif picture and any("accuracy" in run for runs in rows.values() for run in runs.values()):
        draw(rows, picture)


def markdown(rows: dict[str, Any], ngram: dict[str, Any]) -> list[str]:
    """Return a table: means and standard deviations over seeds, no columns without figures, and below what reads no contexts."""
    lines = [cells_of(label, list(runs.values())) for label, runs in rows.items()]
    lines.append(["Kneser-Ney 4-gram", "", *perplexities([ngram]), "", ""])
    baselines = next((run["baselines"] for runs in rows.values() for run in runs.values() if run.get("baselines")), {})
    for name, found in baselines.items():
        lines.append([f"{name} on counts", "", "", "", "", "", f"{found['accuracy']:.1%}", ""])
    kept = [i for i in range(len(COLUMNS)) if any(line[i] for line in lines)]
    return written([[line[i] for i in kept] for line in (COLUMNS, *lines)])


def written(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown; its first line has the names of the columns."""
    rule = ["---"] + ["---:"] * (len(lines[0]) - 1)
    return [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]


def cells_of(label: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the row of a model from its seeds' figures."""
    accuracy = spread([run["accuracy"] for run in runs if "accuracy" in run], ".1%")
    return [label, str(len(runs)), *perplexities(runs), accuracy, f"{runs[0]['parameters'] / 1e6:.2f}"]


def against_adaptation(rows: dict[str, Any]) -> list[str]:
    """Return a table of against_adaptation.py: perplexity of each way on each source, and the speeds of what learns."""
    sources, speeds = list(next(iter(rows.values()))), ("tokens per second", "static tokens per second")
    lines = [["", *sources, *speeds]]
    for way, found in rows.items():
        runs = [run for of in found.values() for run in of.values()]
        cells = [spread([run["all"]["perplexity"] for run in found[source].values()]) for source in sources]
        cells += [f"{statistics.mean(run[name] for run in runs):,.0f}" if name in runs[0] else "" for name in speeds]
        lines.append([way, *cells])
    return written(lines)


def perplexities(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the cells of the test text, its known words, its new ones, and lines whose values training has not."""
    parts = ("perplexity", "known", "new", "unseen")
    return [spread([run[part] for run in runs if run.get(part)]) for part in parts]


def spread(values: Sequence[float], form: str = ",.1f") -> str:
    """Return the mean of values, and their standard deviation where there are several."""
    if not values:
        return ""
    if statistics.mean(values) >= 10_000:
        form = ",.0f"
    middle = f"{statistics.mean(values):{form}}"
    return middle if len(values) == 1 else f"{middle} ± {statistics.stdev(values):{form}}"


def draw(rows: dict[str, Any], path: Path) -> None:
    """Save accuracy (y) against perplexity (x), a point for each model and seed, the best at the upper right, as in the paper."""
    figure, axes = pyplot().subplots(figsize=(7, 4.6))
    scored = {name: [run for run in runs.values() if "accuracy" in run] for name, runs in rows.items()}
    found = {name: [(run["perplexity"], run["accuracy"]) for run in runs] for name, runs in scored.items() if runs}
    labels = []
    for number, (name, points) in enumerate(found.items()):
        color, marker = color_of(name, number), MARKERS[number % len(MARKERS)]
        axes.plot(*zip(*points, strict=True), linestyle="none", alpha=0.85, color=color, marker=marker, markersize=6)
        labels.append(Label(name, *max(points, key=lambda point: (point[1], -point[0])), color, "bold"))
    axes.margins(0.15)
    axes.grid(alpha=0.25)
    axes.invert_xaxis()
    axes.set(xlabel="perplexity, lower to the right", ylabel="accuracy")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")
    write_labels(axes, labels, np.array([point for points in found.values() for point in points]))
    save_figure(figure, path)


def draw_ranks(rows: dict[str, Any], path: Path) -> None:
    """Save perplexity and accuracy by rank, a point for each seed and a stroke for their mean (the paper's Figure 5)."""
    ranks, figures = [int(label.split()[1]) for label in rows], [list(runs.values()) for runs in rows.values()]
    figure, panels = pyplot().subplots(1, 2, figsize=(8, 3.4))
    for axes, what in zip(panels, ("perplexity", "accuracy"), strict=True):
        found = [[run[what] for run in runs] for runs in figures]
        axes.plot(ranks, [statistics.mean(values) for values in found], "_", color="#0072B2", markersize=16, markeredgewidth=2)
        for rank, values in zip(ranks, found, strict=True):
            axes.plot([rank] * len(values), values, "o", color="#0072B2", alpha=0.6, markersize=5)
        axes.set(xlabel="rank of the change (0: ConcatCell)\nstrokes: means", ylabel=what, xticks=ranks)
        axes.grid(alpha=0.25)
    panels[1].yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g}%")
    save_figure(figure, path)


if __name__ == "__main__":
    main()
