"""Tables and pictures in Markdown from what run.py has written.

python examples/papers/report.py WORKDIR [WORKDIR ...] --out docs/results.md
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List

from experiments import EXPERIMENTS, SCALES

from fairseq_groc.cli.results import pyplot

TITLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workdir", type=Path, nargs="+", help="one a seed, or one with everything")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--about", type=Path, help="Markdown to begin with")
    args = parser.parse_args()
    found = [
        json.loads(path.read_text()) | {"name": path.stem} for work in args.workdir for path in sorted(work.glob("*-*-*.json"))
    ]
    if not found:
        sys.exit(f"nothing found in {' '.join(map(str, args.workdir))}: run examples/papers/run.py first")
    parts = [args.about.read_text().rstrip()] if args.about else ["# Results"]
    for name in dict.fromkeys(results["name"] for results in found):
        same = [results for results in found if results["name"] == name]
        picture = args.out.with_name(f"results-{name}.png")
        draw(same[0], picture)
        parts.append(section(name, same, picture))
    args.out.write_text("\n\n".join(parts) + "\n")
    print(args.out)


def section(name: str, same: List[Dict[str, Any]], picture: Path) -> str:
    """Return a table of one experiment; several results of it are seeds."""
    first = same[0]
    experiment = next(key for key in EXPERIMENTS if name.startswith(key))
    command = f"python examples/papers/run.py {experiment} --dataset {first['dataset']} --scale {first['scale']} --workdir DIR"
    lines = [f"## {first['title']}: {TITLES[first['dataset']]}, scale {first['scale']}", "", f"    {command}", ""]
    columns = ["", "M parameters", "rate", "updates", "validation", "test", "paper, test", "paper, M parameters"]
    lines += ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for label, row in first["rows"].items():
        rows = [results["rows"][label] for results in same if label in results["rows"]]
        size, paper = f"{row['parameters'] / 1e6:.2f}", row["paper"]
        figures = [spread([r[key] for r in rows]) for key in ("valid", "test")]
        published = [str(paper["test"] or ""), f"{paper['parameters_millions']:g}" if paper["parameters_millions"] else ""]
        lines.append("| " + " | ".join([label, size, f"{row['lr']:g}", f"{row['updates']:,}", *figures, *published]) + " |")
    lines += ["", f"Tried: {', '.join(setting(s) for s in first['grid'])}; the best on validation text is in the table."]
    lines += [f"Cost: {SCALES[first['scale']].cost}.", "", f"![validation perplexity against updates]({picture.name})"]
    return "\n".join(lines)


def setting(values: Dict[str, Any]) -> str:
    return " ".join(f"{key} {value:g}" for key, value in values.items())


def spread(values: List[float]) -> str:
    """Return the mean, and the standard deviation over seeds if there are several."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} ({len(values)} seeds)"


def draw(results: Dict[str, Any], path: Path) -> None:
    """Save the learning curves of the chosen settings."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(7, 4.2))
    for number, (label, row) in enumerate(results["rows"].items()):
        axes.plot(*zip(*row["curve"]), marker="o", markersize=3, color=f"C{number % 10}", label=label)
    axes.set(xlabel="updates", ylabel="validation perplexity", yscale="log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter("{x:,.0f}")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plot.close(figure)


if __name__ == "__main__":
    main()
