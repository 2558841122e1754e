"""Tables and pictures in Markdown from what run.py has written.

    python examples/papers/report.py FOLDER --out docs/results.md [--about FILE]

FOLDER has run.py's JSON, and may have NAME.md for the words that belong under the table of NAME.json.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List

from experiments import SCALES

from fairseq_groc.cli.results import pyplot

TITLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}
COLUMNS = ["", "M parameters", "setting", "updates a second", "validation", "test", "paper, test", "paper, M parameters"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--about", type=Path, help="Markdown to begin with")
    args = parser.parse_args()
    found = sorted(args.folder.glob("*-*-*.json"))
    if not found:
        sys.exit(f"nothing found in {args.folder}: run examples/papers/run.py first")
    parts = [args.about.read_text().rstrip()] if args.about else ["# Results"]
    for path in found:
        results = json.loads(path.read_text())
        picture = args.out.with_name(f"results-{path.stem}.png")
        draw(results, picture)
        parts.append(section(results, picture))
        if path.with_suffix(".md").exists():
            parts.append(path.with_suffix(".md").read_text().rstrip())
    args.out.write_text("\n\n".join(parts) + "\n")
    print(args.out)


def section(results: Dict[str, Any], picture: Path) -> str:
    """Return the title, the command, the table and the picture of one experiment."""
    scale = SCALES[results["scale"]]
    seeds = max(([run["seed"] for run in row["runs"]] for row in results["rows"].values()), key=len)
    command = f"python examples/papers/run.py {results['experiment']} --dataset {results['dataset']} --scale {results['scale']}"
    command += " --workdir DIR" + (f" --seeds {' '.join(map(str, seeds))}" if len(seeds) > 1 else "")
    lines = [f"## {results['title']}: {TITLES[results['dataset']]}, scale {results['scale']}", "", f"    {command}", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells(label, row)) + " |" for label, row in results["rows"].items()]
    tried = f"Settings tried: {'; '.join(setting(values) for values in results['grid'])}"
    if scale.try_updates:
        tried += f"; each for {results['try_updates']:,} updates"
    lines += ["", f"{tried}. The best on validation text trained the row. {results['machine']}."]
    return "\n".join([*lines, "", f"![validation perplexity against updates]({picture.name})"])


def cells(label: str, row: Dict[str, Any]) -> List[str]:
    """Return the table's cells of a row."""
    runs, paper = row["runs"], row["paper"]
    figures = [spread([run[key] for run in runs]) for key in ("valid", "test")]
    published = [str(paper["test"] or ""), f"{paper['parameters_millions']:g}" if paper["parameters_millions"] else ""]
    speed = f"{statistics.median(run['ups'] for run in runs):.1f}"
    return [label, f"{runs[0]['parameters'] / 1e6:.2f}", setting(row["setting"]), speed, *figures, *published]


def setting(values: Dict[str, Any]) -> str:
    """Return a setting in words; dropouts that are equal are one."""
    return ", ".join(f"{key} {value:g}" for key, value in values.items() if key != "dropout_in" or value != values.get("dropout"))


def spread(values: List[float]) -> str:
    """Return the mean, and the standard deviation over seeds if there are several."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} ({len(values)} seeds)"


def draw(results: Dict[str, Any], path: Path) -> None:
    """Save the learning curves of all rows, the first seed's."""
    plot = pyplot()
    figure, axes = plot.subplots(figsize=(7, 4.2))
    for number, (label, row) in enumerate(results["rows"].items()):
        axes.plot(*zip(*row["runs"][0]["curve"]), marker="o", markersize=3, color=f"C{number % 10}", label=label)
    axes.set(xlabel="updates", ylabel="validation perplexity", yscale="log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_formatter("{x:,.0f}")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plot.close(figure)


if __name__ == "__main__":
    main()
