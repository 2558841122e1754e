"""A page with the tables and pictures of what run.py and analyses.py have written.

    python examples/papers/report.py FOLDER --out docs/results.md

FOLDER has their JSON and that of examples/adaptation, and may have about.md to begin with, summary.md for the words
under the summary, and NAME.md for those under the table of NAME.json.
"""

import argparse
import json
import os
import shlex
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

from analyses import ANALYSES
from experiments import EXPERIMENTS, SCALES, TABLE_5, preset_of

ADAPTATION = "table-5"  # of examples/adaptation
SUMMARISED = ("table-2", "table-3")  # the models of one size that a summary has
TITLES = {"ptb": "Penn Treebank", "wikitext2": "WikiText-2"}
COLUMNS = [
    "",
    "M parameters",
    "setting",
    "tried",
    "validation",
    "test",
    "uniform weight",
    "test, smoothed",
    "paper, test",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.write_text(page(args.folder, args.out.parent))
    print(args.out)


def page(folder: Path, place: Path) -> str:
    """Return the page of all results in *folder*, with links as they are from *place*."""
    names = (*EXPERIMENTS, *ANALYSES, ADAPTATION)
    found = [path for name in names for path in sorted(folder.glob(f"{name}-*-*.json"))]
    if not found:
        sys.exit(f"nothing found in {folder}: run examples/papers/run.py first")
    parts = written(folder / "about.md") or ["# Results"]
    loaded = {path: json.loads(path.read_text()) for path in found}
    if tables := [results for results in loaded.values() if results.get("experiment") in SUMMARISED]:
        parts += ["\n".join(summary(tables)), *written(folder / "summary.md")]
    for path, results in loaded.items():
        picture = os.path.relpath(path.with_suffix(".png"), place)
        kind = next((kind for kind in KINDS if kind in results), None)
        if kind is None:
            sys.exit(f"{path}: not made by run.py, analyses.py or examples/adaptation")
        parts += [KINDS[kind](results, picture), *written(path.with_suffix(".md"))]
    return "\n\n".join(parts) + "\n"


def written(path: Path) -> list[str]:
    """Return what somebody wrote in the file, if there is one."""
    return [path.read_text().rstrip()] if path.exists() else []


def summary(tables: list[dict[str, Any]]) -> list[str]:
    """Return the test perplexities of all models of Tables 2 and 3, a row a model, a column a text and scale.

    Table 2's GroC has an output network on one text and none on the other: it goes by the name that Table 3 has for it.
    """
    rows: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}  # in their order
    for results in tables:
        text = TITLES[results["dataset"]]
        paper, ours = f"{text}, paper", f"{text}, {results['scale']}"
        columns.update({paper: None, ours: None})
        names = {preset_of(row, results["dataset"]): row.label for row in EXPERIMENTS["table-3"].rows}
        for label, row in results["rows"].items():
            published = row["paper"]["test"]  # what is not in the paper goes by its own name
            figures = rows.setdefault(label if published is None else names.get(row["preset"], label), {})
            figures.setdefault(paper, "" if published is None else f"{published:g}")
            runs = compared(results["rows"], row)
            mark = "" if all("uniform" in run for run in runs) else "\\*"
            figures.setdefault(ours, spread([smoothed(run) for run in runs]) + mark)
    return [
        "Test perplexities, smoothed by the uniform weight that validation text chose; \\* not smoothed:",
        "",
        *table(["", *columns], [[name, *(of.get(c, "") for c in columns)] for name, of in rows.items()]),
    ]


def experiment(results: dict[str, Any], picture: str) -> str:
    """Return the title, the command, the table and the picture of one experiment."""
    lines = [f"## {results['title']}: {TITLES[results['dataset']]}, scale {results['scale']}", ""]
    lines += [*(f"    {command}" for command in commands(results)), ""]
    lines += table(COLUMNS, [cells(label, row, compared(results["rows"], row)) for label, row in results["rows"].items()])
    lines += ["", f"Seeds of every row: {seeds_of(results['rows'])}. Where several, means and standard deviations."]
    machines = list(dict.fromkeys(run["made"]["machine"] for row in results["rows"].values() for run in row["runs"]))
    if any(len(row["tried"]) > 1 for row in results["rows"].values()):
        caption = "Validation perplexity of every setting tried, the first seed's; in bold what the row has:"
        lines += ["", caption, "", *tried(results["rows"])]
    lines += ["", f"{'; '.join(machines)}."]
    return "\n".join([*lines, "", f"![validation perplexity against updates]({picture})"])


def commands(results: dict[str, Any]) -> list[str]:
    """Return the commands that make the rows, one for all that have the same options."""
    labels: dict[str, list[str]] = {}
    for label, row in results["rows"].items():
        made, seeds = row["runs"][0]["made"], [str(run["seed"]) for run in row["runs"]]
        options = settings(results, label) + (f" --seeds {' '.join(seeds)}" if len(seeds) > 1 else "")
        options += f" --lexicon-path {made['lexicon_path']}" if "lexicon_path" in made else ""
        options += f" --updates {made['updates']}" if made["updates"] != SCALES[results["scale"]].updates else ""
        labels.setdefault(options + (" --in-bf16" if made["in_bf16"] else ""), []).append(shlex.quote(label))
    about = f"{results['experiment']} --dataset {results['dataset']} --scale {results['scale']} --workdir DIR"
    return [f"python examples/papers/run.py {about} --rows {' '.join(of)}{options}" for options, of in labels.items()]


def settings(results: dict[str, Any], label: str) -> str:
    """Return the option of run.py that tries what a row's settings were chosen from."""
    made = [found["setting"] for found in results["rows"][label]["tried"]]
    row = next(row for row in EXPERIMENTS[results["experiment"]].rows if row.label == label)
    if made == row.settings(SCALES[results["scale"]].grid)[: len(made)]:
        return f" --settings {len(made)}"
    return " --setting " + " ".join(",".join(f"{key}={value:g}" for key, value in one.items()) for one in made)


def tried(rows: dict[str, Any]) -> list[str]:
    """Return a table with a row a setting and a column a row of the results; the chosen one's figure is in bold."""
    figures: dict[str, dict[str, str]] = {}
    for label, row in rows.items():
        for found in row["tried"]:
            mark = "**" if found["setting"] == row["setting"] else ""
            figures.setdefault(setting(found["setting"]), {})[label] = f"{mark}{found['valid']:.1f}{mark}"
    return table(["", *rows], [[name, *(of.get(label, "") for label in rows)] for name, of in sorted(figures.items())])


def analysis(results: dict[str, Any], picture: str) -> str:
    """Return the title, the command, the table and the picture of what was found out about models."""
    about, name = ANALYSES[results["analysis"]], results["analysis"]
    command = f"python examples/papers/analyses.py {name} --dataset {results['dataset']} --scale {results['scale']} --workdir DIR"
    command += " --in-bf16" if results["in_bf16"] else ""
    lines = [f"## {results['title']}: {TITLES[results['dataset']]}, scale {results['scale']}", "", f"    {command}", ""]
    lines += FOUND[name](results["found"])
    of = f"With the models of {EXPERIMENTS[about.table].title.partition(':')[0]}: {results['model']}. " if about.table else ""
    return "\n".join([*lines, "", f"{of}Paper: {about.paper}", "", f"![{about.title}]({picture})"])


def adaptation(results: dict[str, Any], picture: str) -> str:
    """Return the title, the command, the tables and the pictures of models on other domains."""
    domains, rows = results["domains"], results["rows"]
    command = " \\\n      ".join(textwrap.wrap(results["command"], 116, break_on_hyphens=False, break_long_words=False))
    lines = [f"## {results['title']}, scale {results['scale']}", "", f"    {command}", ""]
    tried = [f"{model} {valid:.1f} at {rate}" for model, of in results["learning_rates"].items() for rate, valid in of.items()]
    lines += [f"Rates, each model's best is taken; validation perplexity over the words of training: {', '.join(tried)}.", ""]
    figures = [[label, *(of_domain(found, domain, "all") for domain in domains)] for label, found in rows.items()]
    sizes = [next(found[domain] for found in rows.values() if domain in found) for domain in domains]
    tokens = ["*tokens scored*", *(f"{found['all']['tokens']:,}" for found in sizes)]
    new = [
        "*share of words that the models' training text lacks*",
        *(f"{found['new']['tokens'] / found['all']['tokens']:.1%}" for found in sizes),
    ]
    lines += ["Test perplexity over the union vocabulary, of all tokens:", "", *table(["", *domains], [*figures, tokens, new])]
    untouched = {label: found for label, found in rows.items() if results["trained_on"] in found}  # not finetuned
    others = [[label, *(of_domain(found, domain, "new") for domain in domains)] for label, found in untouched.items()]
    lines += ["", "Of the words alone that the models' training text lacks:", "", *table(["", *domains], others)]
    masses = [[label, *(f"{of[d]['mass of new words']:.1%}" if d in of else "" for d in domains)] for label, of in rows.items()]
    lines += ["", "The probability that they get together:", "", *table(["", *domains], [*masses, new])]
    learning = {label: of for label, of in rows.items() if any("tokens per second" in found for found in of.values())}
    if learning:
        pairs = [[label, *(speeds(of[domain]) for domain in domains)] for label, of in learning.items()]
        lines += ["", "Tokens scored in a second, and by the same model that does not learn:", "", *table(["", *domains], pairs)]
    if "grid" in results:
        lines += [
            "",
            f"The local cache's grid, tied, validation text of {results['grid']['domain']}:",
            "",
            *grid(results["grid"]),
        ]
    lines += ["", f"{results['machine']}. Paper: {TABLE_5}"]
    for caption, name in results["pictures"].items():
        lines += ["", f"![{caption}]({Path(picture).with_name(name)})"]
    return "\n".join(lines)


def speeds(found: dict[str, Any]) -> str:
    """Return the tokens a second of dynamic evaluation, and those of static scoring."""
    return f"{found['tokens per second']:,.0f}, {found['static tokens per second']:,.0f}"


def of_domain(found: dict[str, Any], domain: str, part: str) -> str:
    """Return a perplexity as it is printed; nothing where it was not measured, or there are no such tokens."""
    perplexity = found[domain][part]["perplexity"] if domain in found else None
    return "" if perplexity is None else f"{float(perplexity):,.1f}"


def bins(found: dict[str, Any]) -> list[str]:
    """Return the differences of loss, a row a baseline and bin."""
    columns = ["baseline", "occurrences", "words", "tokens", "mean, nats", "median, nats", "relative"]
    rows = [(name, b) for name, of_baseline in found["bins"].items() for b in of_baseline]
    sizes = [[name, b["label"], f"{b['words']:,}", f"{b['tokens']:,}"] for name, b in rows]
    gains = [[f"{b['mean']:.3f}", f"{b['median']:.3f}", f"{b['relative']:.1f}%"] for _, b in rows]
    return table(columns, [size + gain for size, gain in zip(sizes, gains, strict=True)])


def coverage(found: dict[str, Any]) -> list[str]:
    """Return a row a share of the entries."""
    columns = ["entries kept", "words with relations", "words with a definition", "test perplexity"]
    parts = ("share", "relations", "definitions")
    return table(columns, [[*(f"{row[key]:.0%}" for key in parts), f"{row['perplexity']:.1f}"] for row in found["rows"]])


def grid(found: dict[str, Any]) -> list[str]:
    """Return perplexities, a row a weight and a column a theta; what else was tried is the best one's, as in the picture."""

    def besides(row: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key not in ("local_weight", "cache_theta", "perplexity")}

    rows = [row for row in found["grid"] if row["local_weight"]]  # without the cache there is no theta
    best = besides(min(rows, key=lambda row: float(row["perplexity"])))
    shown = [row for row in rows if besides(row) == best]
    perplexity = {(row["local_weight"], row["cache_theta"]): float(row["perplexity"]) for row in shown}
    weights, thetas = (sorted(set(values)) for values in zip(*perplexity, strict=True))
    columns = ["weight", *(f"theta {theta:g}" for theta in thetas)]
    return table(columns, [[f"{weight:g}", *(f"{perplexity[weight, theta]:.1f}" for theta in thetas)] for weight in weights])


def speed(found: dict[str, Any]) -> list[str]:
    """Return a row a model, and what it was measured on."""
    columns = ["", "parameters", "s an epoch", f"time, x {found['rows'][0]['name']}", "range over rounds", "peak GiB"]
    rows = []
    for row in found["rows"]:
        spread = "{:.2f} to {:.2f}".format(*row["relative_range"]) if found["rounds"] > 1 else ""
        times = [f"{row['relative']:.2f}", spread, f"{row['peak_gib']:.1f}"]
        rows.append([row["name"], f"{row['parameters']:,}", f"{row['epoch_seconds']:,.0f}", *times])
    about = f"In turns, rounds: {found['rounds']}, updates of each: {found['updates']}; {found['machine']}."
    return [*table(columns, rows), "", about]


KINDS = {"experiment": experiment, "analysis": analysis, "adaptation": adaptation}
FOUND = {"figure-3": bins, "drill-figure-3": bins, "coverage": coverage, "figure-7": grid, "table-10": speed}


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return ["| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)]


def seeds_of(rows: dict[str, Any]) -> int:
    """Return how many seeds every row of a table has."""
    return min(len(row["runs"]) for row in rows.values())


def compared(rows: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of a row that are compared with the other rows': as many as each of them has."""
    runs: list[dict[str, Any]] = row["runs"][: seeds_of(rows)]
    return runs


def smoothed(run: dict[str, Any]) -> float:
    """Return a run's test perplexity with the uniform weight that validation text chose; alone where none was tried."""
    return float(run["uniform"]["test"] if "uniform" in run else run["test"])


def brief(rows: dict[str, Any]) -> str:
    """Return a table of parameters and test perplexities, smoothed and alone, the best row first."""
    found = []
    for label, row in rows.items():
        runs = compared(rows, row)
        figures = [[smoothed(run) for run in runs], [run["test"] for run in runs]]
        found.append((statistics.mean(figures[0]), [label, f"{runs[0]['parameters'] / 1e6:.2f}M", *map(spread, figures)]))
    lines = [line for _, line in sorted(found)]
    lines[0][2] = f"**{lines[0][2]}**"
    return "\n".join(table(["", "parameters", "test perplexity", "without the uniform distribution"], lines))


def cells(label: str, row: dict[str, Any], runs: list[dict[str, Any]]) -> list[str]:
    """Return the table's cells of a row.

    Args:
        runs: those of its runs that are compared
    """
    smoothing = [run["uniform"] for run in runs if "uniform" in run]
    figures = [spread([run[key] for run in runs]) for key in ("valid", "test")]
    figures += [", ".join(f"{found['weight']:g}" for found in smoothing), spread([found["test"] for found in smoothing])]
    about = [label, f"{runs[0]['parameters'] / 1e6:.2f}", setting(row["setting"]), str(len(row["tried"]))]
    return [*about, *figures, f"{row['paper']['test']:g}" if row["paper"]["test"] else ""]


def setting(values: dict[str, Any]) -> str:
    """Return a setting in words."""
    return ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in values.items())


def spread(values: list[float]) -> str:
    """Return the mean, and the standard deviation over seeds if there are several; nothing of none."""
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}" if values else ""


if __name__ == "__main__":
    main()
