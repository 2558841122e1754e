"""Draw the learning curves of training logs: every validation subset against updates or seconds."""

import logging
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from fairseq_groc.arguments import named
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.results import aligned, label_log_axis, pyplot, save_figure, write_json
from fairseq_groc.evaluation.training_log import TRAINING, Curve, by_seconds, read_clock, read_curves
from fairseq_groc.files import check_place

logger = logging.getLogger(__name__)
FORMATS = (".png", ".pdf", ".svg")
LABELS = {"ppl": "perplexity", "loss": "loss (base 2)"}
AXES = {"updates": ("updates", "at update"), "seconds": ("seconds of training and validation", "at second")}
Row = dict[str, Any]  # run, log, subset and points (x, value)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("log", nargs="+", help="output of fairseq-train, --log-format simple or json; a run each")
    parser.add_argument("--out", required=True, help="picture (.png, .pdf or .svg); the numbers go beside it, as .json")
    parser.add_argument("--metric", choices=sorted(LABELS), default="ppl", help="what is drawn; loss: in base 2")
    parser.add_argument("--x", choices=tuple(AXES), default="updates", help="updates, or the seconds that these had taken")
    parser.add_argument("--names", nargs="*", default=[], metavar="SUBSET=NAME", help="what to call a subset: valid1=science")
    parser.add_argument("--title", default="", help="above the picture")


def run(args: Namespace) -> None:
    logs, out = [Path(log) for log in args.log], Path(args.out)
    _check_out(out, logs)
    names = named("--names", args.names, "SUBSET=NAME, as in valid1=science")
    rows = [
        {"run": run_name, "log": str(log), "subset": names.get(subset, subset), "points": points}
        for run_name, log in zip(run_names(logs), logs, strict=True)
        for subset, points in sorted(curves_of(log, args.metric, args.x).items(), key=lambda item: item[0] == TRAINING)
    ]
    if len({(row["run"], row["subset"]) for row in rows}) < len(rows):  # of several runs they may be one text
        raise OptionError(f"--names {' '.join(args.names)}: two subsets of a run have one name")
    print(table(rows, args.metric, args.x))
    write_json(out.with_suffix(".json"), {"metric": args.metric, "x": args.x, "curves": rows})
    draw(rows, args.metric, args.x, args.title, out)


def curves_of(log: Path, metric: str, x: str) -> dict[str, Curve]:
    """Return the curves of a log by subset, and say what is left out of them.

    Raises:
        DataError: nothing is left of one, since no training was logged around it.
    """
    curves = read_curves(log, metric)
    if x == "updates":
        return curves
    clock, found = read_clock(log), dict[str, Curve]()
    for subset, points in curves.items():
        found[subset], left = by_seconds(points, clock)
        where = f"before or after the lines of training, which say how many seconds these had taken ({log})"
        if not found[subset]:
            raise DataError(f"{subset}: all points are {where}: train with a smaller --log-interval, or leave out --x seconds")
        if left:
            logger.warning(f"{subset}: {left:,} points are left out, {where}")
    return found


def _check_out(out: Path, logs: list[Path]) -> None:
    if out.suffix.lower() not in FORMATS:
        raise OptionError(f"--out {out}: expected a name that ends in {', '.join(FORMATS)}")
    for name in (out, out.with_suffix(".json")):
        check_place("--out", name)
    for log in logs:
        if log.resolve() in (out.resolve(), out.with_suffix(".json").resolve()):
            raise OptionError(f"--out {out} would overwrite the log {log}: give another name")


def run_names(logs: list[Path]) -> list[str]:
    """Return what to call each run: the log's name, or its folder's where logs have the same, or else its path."""
    for name_of in (lambda log: log.stem, lambda log: log.resolve().parent.name):
        names = [name_of(log) for log in logs]
        if len(set(names)) == len(names):
            return names
    return [str(log) for log in logs]


def table(rows: list[Row], metric: str, x: str = "updates") -> str:
    """Return first, best and last value of every curve as text."""
    lines = []
    for row in rows:
        points = row["points"]
        (place, value), (end, last) = min(points, key=lambda point: (math.isnan(point[1]), point[1])), points[-1]
        figures = f"{points[0][1]:,.2f}", f"{value:,.2f}", f"{place:,}", f"{last:,.2f}", f"{end:,}"
        lines.append([row["run"], row["subset"], str(len(points)), *figures])
    columns = ["run", "subset", "points", "first", "best", AXES[x][1], "last", "at"]
    legend = f"{LABELS[metric]}, lower is better; train: means over log intervals, with dropout"
    return f"{aligned(columns, lines, names=2)}\n{legend}"


def draw(rows: list[Row], metric: str, x: str, title: str, path: Path) -> None:
    """Save a panel a subset, training last, with a line a run.

    Raises:
        OptionError: matplotlib is not installed.
    """
    subsets = sorted(dict.fromkeys(row["subset"] for row in rows), key=lambda name: name == TRAINING)
    runs = list(dict.fromkeys(row["run"] for row in rows))
    figure, panels = pyplot().subplots(1, len(subsets), figsize=(1 + 4 * len(subsets), 3.8), squeeze=False)
    for panel, subset in zip(panels[0], subsets, strict=True):
        for row in (row for row in rows if row["subset"] == subset):
            finite = [point for point in row["points"] if math.isfinite(point[1])]
            missing = len(row["points"]) - len(finite)
            label = row["run"] + (f" ({missing} infinite)" if missing else "")
            marker = "o" if len(finite) < 40 else None
            panel.plot([n for n, _ in finite], [v for _, v in finite], f"C{runs.index(row['run'])}", marker=marker, label=label)
        panel.set(title=subset, xlabel=AXES[x][0], yscale="log" if metric == "ppl" else "linear")
        panel.legend(fontsize=8)
        if metric == "ppl":
            label_log_axis(panel.yaxis)
            panel.tick_params(axis="y", which="both", labelsize=8)
    panels[0][0].set_ylabel(LABELS[metric])
    figure.suptitle(title)
    save_figure(figure, path)
