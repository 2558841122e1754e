"""The tables of docs/results.md, from the JSON of examples/papers/results."""

import json
import statistics
from pathlib import Path
from typing import Any

from cells import compared, less, seeds_of, smoothed, spread, table, test_of
from experiments import KNESER_NEY
from pictures import ways_of
from run import line

OURS, GROC, EQUAL_TIME = "GroC + corrections", "GroC", "tied at equal time"
SIZES = {
    "ptb-cpu": "all of it, 5 epochs",
    "ptb-quarter": "a quarter, 6 epochs",
    "ptb-quarter-long": "a quarter, 12 epochs",
    "wikitext2-quarter": "WikiText-2, a quarter, 2.7 epochs",
}
PARTS = {"spelling alone": "surface", "with relations": "no definitions", "with definitions": "no relations", "with both": ""}
WAYS = ("as trained", "local cache", "finetuned")
RATE = 0.003  # at which both ranges were tried
RANGES = (0.05, 0.2)


def loaded(folder: Path, name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return results


def first_run(folder: Path) -> str:
    """Return what run.py prints of tied and of GroC with corrections, one seed, and how long both took."""
    rows = {label: row for label, row in loaded(folder, "table-2-ptb-quarter")["rows"].items() if label in ("tied", OURS)}
    firsts = {label: {**row, "runs": row["runs"][:1]} for label, row in rows.items()}
    costs = [[run["cost"] for run in row["runs"] if run["cost"]] for row in rows.values()]  # of some it was not recorded
    minutes = sum(statistics.mean(cost["seconds"] for cost in of) for of in costs) / 60
    printed = "\n".join(line(label, row) for label, row in firsts.items())
    return f"```text\n{printed}\n```\n\nBoth together took {minutes:.0f} minutes on one CPU core."


def heads(folder: Path) -> str:
    """Return what the heads and the n-gram have on every text of small models, how far ahead the first is, and the seeds."""
    found = {name: loaded(folder, f"table-2-{text}") for text, name in SIZES.items()}
    tables, ngrams = ({name: results[part] for name, results in found.items()} for part in ("rows", "ngram"))
    labels = dict.fromkeys(label for rows in tables.values() for label in rows)
    lines = []
    for label in labels:
        parameters = next(rows[label]["runs"][0]["parameters"] for rows in tables.values() if label in rows)
        lines.append([label, f"{parameters / 1e6:.2f}M", *(bold(figure(rows, label), label) for rows in tables.values())])
    lines.append([KNESER_NEY, "", *(f"{ngram['test']:.1f}" for ngram in ngrams.values())])
    sized = SIZES["ptb-quarter"]
    lines.sort(key=lambda line: {**test_of(tables[sized]), KNESER_NEY: ngrams[sized]["test"]}[line[0]])
    ahead = ["*lead over the next head*", "", *(lead(test_of(rows)) for rows in tables.values())]
    seeds = ["*seeds*", "", *(str(seeds_of(rows)) for rows in tables.values())]
    return "\n".join(table(["", "parameters", *tables], [*lines, ahead, seeds]))


def figure(rows: dict[str, Any], label: str) -> str:
    """Return a row's test perplexity as it is printed; nothing where it was not run."""
    return spread([smoothed(run) for run in compared(rows, rows[label])]) if label in rows else ""


def bold(cell: str, label: str) -> str:
    return f"**{cell}**" if cell and label == OURS else cell


def lead(perplexities: dict[str, float]) -> str:
    """Return how far GroC with corrections is below the best other model."""
    return less(perplexities[OURS], min(value for label, value in perplexities.items() if label not in (OURS, GROC)))


def lexicon(folder: Path) -> str:
    """Return what relations and definitions bring, with an output network and without, here and in the paper."""
    rows = loaded(folder, "table-3-ptb-quarter")["rows"]
    ours, paper = test_of(rows), {label: row["paper"]["test"] for label, row in rows.items()}
    lines = []
    for name, ablation in PARTS.items():
        line = [name]
        for model in (GROC, "GroC + out"):
            label, surface = (f"{model}, {part}" if part else model for part in (ablation, "surface"))
            gains = [f"{1 - of[label] / of[surface]:.1%}" if label != surface else "" for of in (ours, paper)]
            line += [f"{ours[label]:.1f}", *gains]
        lines.append(line)
    columns = [f"{model}{about}" for model in ("GroC", "with output network") for about in ("", ": gain", ": gain in the paper")]
    return "\n".join(table(["", *columns], lines))


def domains(folder: Path) -> str:
    """Return the perplexities of four models on every domain: as they were trained, with the local cache, and finetuned."""
    results = loaded(folder, "table-5-domains-cpu")
    lines = []
    for domain in results["domains"]:
        found = {model: ways_of(results["rows"], model, domain) for model in ("tied", EQUAL_TIME, GROC, OURS)}
        for way in WAYS:
            values = [of[way] for of in found.values() if way in of]
            if len(values) == len(found):
                counted = f"{results['rows'][KNESER_NEY][domain]['all']['perplexity']:.0f}" if way == next(iter(WAYS)) else ""
                lines.append([domain, way, counted, *(f"{value:.0f}" for value in values), less(values[-1], values[1])])
    return "\n".join(table(["domain", "", "4-gram", "tied", EQUAL_TIME, GROC, OURS, "its lead at equal time"], lines))


def beginnings(folder: Path) -> str:
    """Return validation perplexities at one rate from two ranges of the weights at the beginning."""
    rows = loaded(folder, "table-2-ptb-quarter")["rows"]
    lines = []
    for label, row in rows.items():
        tried = {run["setting"]["init_range"]: run["valid"] for run in row["tried"] if tried_at(run["setting"])}
        if set(RANGES) <= set(tried):
            lines.append([label, *(f"{tried[reach]:.0f}" for reach in RANGES), less(tried[RANGES[1]], tried[RANGES[0]])])
    return "\n".join(table(["", *(f"within {reach:g}" for reach in RANGES), "gain"], lines))


def tried_at(setting: dict[str, float]) -> bool:
    return setting["lr"] == RATE and not setting["output_dropout"]
