"""A page, with its picture, for each table that run.py, analyses.py and examples/adaptation have written, and a list of these.

    python examples/papers/report.py FOLDER

FOLDER has their JSON. NAME.json gets NAME.md, and NAME.png where its numbers are enough to draw it; README.md has a summary and
the list. What somebody wrote in words/NAME.md stands above the table.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from analyses import ANALYSES
from analysis_tables import FOUND, grid
from cells import TITLES, changes, compared, seeds_of, setting, smoothed, spread, table, without_constants
from experiments import EXPERIMENTS, KNESER_NEY, TABLE_5, preset_of
from pictures import CURVES, draw_domains, draw_finetuning, draw_rows, is_drawn
from scales import SCALES

from fairseq_groc.evaluation.bins import Bin, draw_bins

ADAPTATION = "table-5"  # of examples/adaptation
SUMMARISED = ("table-2", "table-3")  # the models of one size that a summary has
CHANGE = "against the first row"
FIGURES = ["", "M parameters", "test, smoothed", CHANGE, "test", "validation"]
ABOUT = ["uniform weight", "paper, test", "tried", "setting"]
OPTIONAL = (CHANGE, *ABOUT)  # named once where they are the same in all rows
READ = {
    "paper": "models of the papers' size",
    "paper-short": "models of the papers' size, the whole training text 15 times",
    "cpu": "small models, the whole training text five times",
    "quarter": "small models, a quarter of the training text {} times",
    "quarter-long": "small models, a quarter of the training text twelve times",
    "awd": "small AWD-LSTMs, a quarter of the training text 14 times",
    "awd-long": "small AWD-LSTMs, a quarter of the training text 48 times",
    "awd-paper": "AWD-LSTMs of the papers' size",
    "awd-paper-short": "AWD-LSTMs of the papers' size, three epochs of the training text",
    "awd-adam": "small AWD-LSTMs with Adam, a quarter of the training text {} times",
}
TIMES = {"quarter": {"ptb": "six", "wikitext2": "2.7"}, "awd-adam": {"ptb": "14", "wikitext2": "6.4"}}
SMOOTHED = "Lower is better. *Smoothed*: mixed with the uniform distribution, by the weight that is best on validation text."
COUNTED = "The 4-gram counts the same text (`ngram`), in seconds; words that it has not read share the uniform distribution."
TRIED = "*Tried*: how many settings were tried on validation text."
WEIGHTS = "*Uniform weight*: of each seed, where they differ."
CHANGED = "*Against the first row*: of the smoothed perplexity, mean over the seeds that both have (each seed)."
PAPER = "The paper's models are {}trained to convergence: compare the order of rows, not their perplexities."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, text in pages(folder).items():
        (folder / name).write_text(text)
        print(folder / name)
    for path, results in found_in(folder).items():
        draw(results, path)


def found_in(folder: Path) -> dict[Path, dict[str, Any]]:
    """Return the results of a folder by their files, in the order of the papers' tables."""
    names = (*EXPERIMENTS, *ANALYSES, ADAPTATION)
    found = {path: json.loads(path.read_text()) for name in names for path in sorted(folder.glob(f"{name}-*-*.json"))}
    if not found:
        sys.exit(f"nothing found in {folder}: run examples/papers/run.py first")
    for path, results in found.items():
        if not results.keys() & KINDS.keys():
            sys.exit(f"{path}: not made by run.py, analyses.py or examples/adaptation")
    return found


def pages(folder: Path) -> dict[str, str]:
    """Return the pages of all results of a folder, by the names of their files."""
    found = found_in(folder)
    made = {path.with_suffix(".md").name: page(results, path) for path, results in found.items()}
    parts = ["# All tables", SMOOTHED]
    if tables := [results for results in found.values() if results.get("experiment") in SUMMARISED]:
        parts += ["Test perplexities, ours smoothed:", "\n".join(summary(tables))]
    parts += ["\n".join(f"- [{heading(results)}]({path.stem}.md)" for path, results in found.items())]
    return {**made, "README.md": "\n\n".join(parts) + "\n"}


def page(results: dict[str, Any], path: Path) -> str:
    """Return the page of a table: what it is, what somebody wrote, and what its kind has."""
    words = path.parent / "words" / f"{path.stem}.md"
    parts = [f"# {results['title']}", *([words.read_text().rstrip()] if words.exists() else [])]
    kind = next(kind for kind in KINDS if kind in results)
    return "\n\n".join([*parts, *KINDS[kind](results, path.stem)]) + "\n"


def heading(results: dict[str, Any]) -> str:
    """Return a table's title, with its text and scale."""
    text = f"{TITLES[results['dataset']]}, " if "dataset" in results else ""
    return f"{results['title']} ({text}{results['scale']})"


def of_scale(results: dict[str, Any]) -> str:
    scale, text = results["scale"], results["dataset"]
    return f"{TITLES[text]}, scale `{scale}`: {READ[scale].format(TIMES.get(scale, {}).get(text))}."


def typed(command: str) -> str:
    """Return a command as a block of lines that are not too long."""
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):  # words with blanks stay whole
        if lines[-1] and len(lines[-1]) + len(word) > 110:
            lines.append("")
        lines[-1] += f"{word} "
    return "    " + "\\\n      ".join(lines).rstrip()


def draw(results: dict[str, Any], path: Path) -> None:
    """Save the pictures that the numbers are enough for."""
    if "experiment" in results and is_drawn(results["experiment"], results["rows"]):
        draw_rows(results["experiment"], results["rows"], path.with_suffix(".png"))
    if "bins" in results.get("found", ()):
        bins = results["found"]["bins"]
        compared_bins = {name: [Bin(**{key: b[key] for key in b if key != "label"}) for b in of] for name, of in bins.items()}
        draw_bins(compared_bins, path.with_suffix(".png"))
    if "adaptation" in results:
        draw_domains(results, path.with_suffix(".png"))
        draw_finetuning(results, path.with_name(f"{path.stem}-finetuning.png"))


def summary(tables: list[dict[str, Any]]) -> list[str]:
    """Return the test perplexities of all models of Tables 2 and 3, a row for each model, a column for each text and scale.

    Table 2's GroC has an output network on one text and none on the other: it goes by the name that Table 3 has for it.
    """
    rows: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}  # in their order
    for results in tables:
        text = TITLES[results["dataset"]]
        paper, ours = f"{text}, published", f"{text}, {results['scale']}"
        columns.update({paper: None, ours: None})
        names = {preset_of(row, results["dataset"]): row.label for row in EXPERIMENTS["table-3"].rows}
        for label, row in results["rows"].items():
            published = row["paper"]["test"]  # what is not in the paper goes by its own name
            figures = rows.setdefault(label if published is None else names.get(row["preset"], label), {})
            figures.setdefault(paper, "" if published is None else f"{published:g}")
            figures.setdefault(ours, spread([smoothed(run) for run in compared(results["rows"], row)]))
        if "ngram" in results:
            rows.setdefault(KNESER_NEY, {})[ours] = f"{results['ngram']['test']:.1f}"
    return table(["", *columns], [[name, *(of.get(c, "") for c in columns)] for name, of in rows.items()])


def experiment(results: dict[str, Any], stem: str) -> list[str]:
    """Return the picture, the table, the settings that were tried and the commands of one experiment."""
    rows = results["rows"]
    varied = EXPERIMENTS[results["experiment"]].varied
    change = changes(rows) if varied and rows else dict.fromkeys(rows, "")
    columns, lines, constant = without_constants(
        [*FIGURES, *ABOUT], [cells(label, row, compared(rows, row), change[label]) for label, row in rows.items()], OPTIONAL
    )
    about = [of_scale(results), SMOOTHED, *([TRIED] if "tried" in columns else [])]
    if "ngram" in results:
        counted = {
            "": KNESER_NEY,
            "test, smoothed": f"{results['ngram']['test']:.1f}",
            "validation": f"{results['ngram']['valid']:.1f}",
        }
        lines.append([counted.get(column, "") for column in columns])
        about.append(COUNTED)
    seeds = seeds_of(rows)
    about += [f"Seeds of every perplexity: {seeds}." + (" Means and standard deviations over them." if seeds > 1 else "")]
    if results["experiment"] in CURVES:
        several = any(len(row["runs"]) > 1 for row in rows.values())
        about += [f"Curves are {'of the first seed and ' if several else ''}not smoothed."]
    about += [WEIGHTS] if seeds > 1 and "uniform weight" in columns else []
    about += [CHANGED] if varied else []
    about += [f"In all rows: {'; '.join(f'*{name}* {value}' for name, value in constant.items())}."] if constant else []
    scale = SCALES[results["scale"]]
    ended = "--patience" in scale.training and not any(run["made"]["updates"] for row in rows.values() for run in row["runs"])
    larger = "far larger and " if "decoder_hidden_size" in scale.sizes else ""
    about += [PAPER.format(larger)] if "paper, test" in columns and not ended else []
    parts = [f"![{results['title']}]({stem}.png)"] if is_drawn(results["experiment"], rows) else []
    parts += ["\n".join(table(columns, lines)), "\n".join(about)]
    if any(len(row["tried"]) > 1 for row in rows.values()):
        parts += ["## Settings that were tried", "Validation perplexity, the first seed's; in bold what the row has:"]
        parts += ["\n".join(tried(rows))]
    machines = list(dict.fromkeys(run["made"]["machine"] for row in rows.values() for run in row["runs"])) or [results["machine"]]
    return [*parts, "## Make it", *map(typed, commands(results)), f"{'; '.join(machines)}."]


def commands(results: dict[str, Any]) -> list[str]:
    """Return the commands that make the rows, one for all that have the same options."""
    labels: dict[str, list[str]] = {}
    for label, row in results["rows"].items():
        made, seeds = row["runs"][0]["made"], [str(run["seed"]) for run in row["runs"]]
        options = settings(results, label) + (f" --seeds {' '.join(seeds)}" if seeds != ["1"] else "")
        options += f" --lexicon-path {made['lexicon_path']}" if "lexicon_path" in made else ""
        options += f" --updates {made['updates']}" if made["updates"] != SCALES[results["scale"]].updates else ""
        labels.setdefault(options + (" --in-bf16" if made["in_bf16"] else ""), []).append(shlex.quote(label))
    about = f"{results['experiment']} --dataset {results['dataset']} --scale {results['scale']} --workdir DIR"
    if "ngram" in results:
        labels[""] = [*labels.get("", []), shlex.quote(KNESER_NEY)]
    return [f"python examples/papers/run.py {about} --rows {' '.join(of)}{options}" for options, of in labels.items()]


def settings(results: dict[str, Any], label: str) -> str:
    """Return the option of run.py that tries what a row's settings were chosen from."""
    made = [found["setting"] for found in results["rows"][label]["tried"]]
    if made == SCALES[results["scale"]].grid[: len(made)]:
        return f" --settings {len(made)}"
    return " --setting " + " ".join(",".join(f"{key}={value:g}" for key, value in one.items()) for one in made)


def tried(rows: dict[str, Any]) -> list[str]:
    """Return a table with a row for each setting and a column for each model; the chosen one's figure is in bold."""
    figures: dict[str, dict[str, str]] = {}
    for label, row in rows.items():
        for found in row["tried"]:
            mark = "**" if found["setting"] == row["setting"] else ""
            figures.setdefault(setting(found["setting"]), {})[label] = f"{mark}{found['valid']:.1f}{mark}"
    return table(["", *rows], [[name, *(of.get(label, "") for label in rows)] for name, of in sorted(figures.items())])


def cells(label: str, row: dict[str, Any], runs: list[dict[str, Any]], change: str) -> list[str]:
    """Return the table's cells of a row.

    Args:
        runs: those of its runs that are compared
        change: against the first row
    """
    weights = dict.fromkeys(f"{run['uniform']['weight']:g}" for run in runs)
    figures = [spread([smoothed(run) for run in runs]), change]
    figures += [spread([run[key] for run in runs]) for key in ("test", "valid")]
    paper = f"{row['paper']['test']:g}" if row["paper"]["test"] else ""
    about = [", ".join(weights), paper, str(len(row["tried"])), setting(row["setting"])]
    return [label, f"{runs[0]['parameters'] / 1e6:.2f}", *figures, *about]


def analysis(results: dict[str, Any], stem: str) -> list[str]:
    """Return the picture, the table and the command of what was found out about models."""
    about, name = ANALYSES[results["analysis"]], results["analysis"]
    command = f"python examples/papers/analyses.py {name} --dataset {results['dataset']} --scale {results['scale']} --workdir DIR"
    command += " --in-bf16" if results["in_bf16"] else ""
    of = f" The model is {results['model']}, of {EXPERIMENTS[about.table].title.partition(':')[0]}." if about.table else ""
    parts = [f"![{about.title}]({stem}.png)", "\n".join(FOUND[name](results["found"])), of_scale(results) + of]
    return [*parts, f"Paper: {about.paper}", "## Make it", typed(command)]


def adaptation(results: dict[str, Any], stem: str) -> list[str]:
    """Return the pictures, the tables and the command of models on other domains."""
    domains, rows = results["domains"], results["rows"]
    sizes = [next(found[domain] for found in rows.values() if domain in found) for domain in domains]
    tokens = ["*tokens scored*", *(f"{found['all']['tokens']:,}" for found in sizes)]
    new = ["*share of new words*", *(f"{found['new']['tokens'] / found['all']['tokens']:.1%}" for found in sizes)]
    everywhere = {label: found for label, found in rows.items() if results["trained_on"] in found}  # not finetuned

    def perplexities(of: dict[str, Any], part: str) -> list[list[str]]:
        return [[label, *(of_domain(found, domain, part) for domain in domains)] for label, found in of.items()]

    shown = {label: of for label, of in rows.items() if any("mass of new words" in found for found in of.values())}
    masses = [[label, *(f"{of[d]['mass of new words']:.1%}" if d in of else "" for d in domains)] for label, of in shown.items()]
    learning = {label: of for label, of in rows.items() if any("tokens per second" in found for found in of.values())}
    speed_of = [[label, *(speeds(of[domain]) for domain in domains)] for label, of in learning.items()]
    parts = [f"![perplexities of each domain]({stem}.png)"]
    for title, lines in {
        "Test perplexity over the union vocabulary": [*perplexities(rows, "all"), tokens, new],
        "New words alone: those that the training text lacks": perplexities(everywhere, "new"),
        "The probability that new words get together": [*masses, new],
        "Tokens scored in a second, and by the same model that does not learn": speed_of,
    }.items():
        parts += [f"## {title}", "\n".join(table(["", *domains], lines))] if lines else []
    parts += ["## Finetuning", f"![finetuning]({stem}-finetuning.png)"]
    if "grid" in results:
        title = f"## The local cache's settings, tied, validation text of {results['grid']['domain']}"
        parts += [title, "\n".join(grid(results["grid"]))]
    rates = [f"{model} {valid:.1f} at {rate}" for model, of in results["learning_rates"].items() for rate, valid in of.items()]
    best = "Each model has the best of its learning rates. " if len(rates) > len(results["learning_rates"]) else ""
    chosen = f"{best}Validation perplexity over the words of training: {', '.join(rates)}."
    return [*parts, "## Make it", typed(results["command"]), f"{chosen}\n{results['machine']}.", f"Paper: {TABLE_5}"]


def speeds(found: dict[str, Any]) -> str:
    """Return the tokens a second of dynamic evaluation, and those of static scoring."""
    return f"{found['tokens per second']:,.0f}, {found['static tokens per second']:,.0f}"


def of_domain(found: dict[str, Any], domain: str, part: str) -> str:
    """Return a perplexity as it is printed; nothing where it was not measured, or there are no such tokens."""
    perplexity = found[domain][part]["perplexity"] if domain in found else None
    return "" if perplexity is None else f"{float(perplexity):,.1f}"


KINDS = {"experiment": experiment, "analysis": analysis, "adaptation": adaptation}


if __name__ == "__main__":
    main()
