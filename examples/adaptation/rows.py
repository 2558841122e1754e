"""The rows of models as they were trained: the settings that are tried, tuning and scoring, and the table."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_groc.__main__ import in_process

UNIFORM = (0.01, 0.03, 0.1, 0.2)  # weights
DISCOUNTS = (0.1, 0.3, 1, 3)  # of new words
SCORED_SIZE = 10_000  # of the local cache; the paper tunes with 5,000 (appendix C.4)
CACHES = ("none", "unigram", "local", "unbounded")
DYNAMIC = {"dynamic": "none", "dynamic+local": "local"}  # dynamic evaluation with these caches: a pass over the text a setting
NGRAM, KNESER_NEY, ORDER = "ngram", "Kneser-Ney 4-gram", 4  # beside the model, and alone
PASSES = "--dynamic-rates 3e-5 1e-4".split()  # tune goes on beyond them; the decay is left at its default


def ways(model: str, caches: Sequence[str], sizes: str) -> dict[str, tuple[str, list]]:
    """Return by cache the rows of a model as it was trained, and the options that they are tuned with."""
    rows = {}
    if "none" in caches:
        if not model.startswith("tied"):  # which gives new words nothing
            rows[""] = model, ["--cache", "none", "--uniform", 0, "--discounts", 1, "--no-extend"]
        rows["none"] = f"{model} + uniform", ["--cache", "none", *mass(model), *sizes.split()]
    for cache in caches:
        if cache != "none":
            options = ["--cache", DYNAMIC.get(cache, cache), *mass(model), *sizes.split(), *(PASSES if cache in DYNAMIC else [])]
            rows[cache] = f"{model} + {cache.replace('+', ' + ')}", options
    return rows


def mass(model: str) -> list:
    """Return the settings that are tried of what new words get; without the uniform distribution tied has nothing for them."""
    return ["--uniform", *UNIFORM] if model.startswith("tied") else ["--uniform", 0, *UNIFORM, "--discounts", *DISCOUNTS]


def statistics(work: Path, base: Path, model: str, checkpoint: Path, learning: list) -> Path:
    """Return the folder of a model's gradient statistics on its training text, which are made for what learns."""
    folder = work / "statistics" / slug(model)
    if not list(folder.glob(f"*-{learning[-1]}.safetensors")):
        in_process("gradient-statistics", "--path", checkpoint, "--data", base, *learning, "--dest", folder)
    return folder


def ngram(work: Path, base: Path) -> Path:
    """Return the folder of the training text's n-gram, which is made."""
    if not (work / "ngram" / "ngram.safetensors").exists():
        in_process("ngram", "--data", base, "--order", ORDER, "--dest", work / "ngram")
    return work / "ngram"


def ngram_alone(work: Path, base: Path, data: Path) -> dict[str, Any]:
    """Return the figures of the test text by the n-gram alone."""
    report = work / "scores" / slug(KNESER_NEY) / f"{data.name}.json"
    if not report.exists():
        report.parent.mkdir(parents=True, exist_ok=True)
        in_process("ngram", "--data", base, "--order", ORDER, "--dest", work / "ngram", "--score", data, "--out", report)
    found = json.loads(report.read_text())["texts"]
    return found[str(data / "test")]


def score(
    work: Path, data: Path, checkpoint: Path, options: list, learning: Sequence = (), beside: Sequence = ()
) -> dict[str, Any]:
    """Tune with some options on the validation text; return the figures of the test text with the best settings, and these.

    Args:
        learning: what learns, and the statistics for it; then the text is scored with and without, one after the other, for the
            time that it takes
        beside: options of what is mixed in
    """
    report, grid, static = (work / f"{data.name}{name}.json" for name in ("", "-grid", "-static"))
    if not report.exists():
        work.mkdir(parents=True, exist_ok=True)
        common, block = ["--path", checkpoint, "--data", data], ["--tokens-per-sample", 100]
        in_process("tune", *common, *block, *options, *learning, *beside, "--no-store", "--out", grid)
        common += ["--verify-normalization", 10]
        chosen = settings_of(grid)
        common += beside if chosen.get("ngram_weight") else []
        if learning:
            without = {key: value for key, value in chosen.items() if not key.startswith("dynamic_")}
            in_process("evaluate", *common, *block, *flags(without), "--out", static)
            chosen["dynamic_statistics"], block = learning[-1], []
        in_process("evaluate", *common, *block, *flags(chosen), "--out", report)
    found = json.loads(report.read_text())
    assert found["tokens_scored"] == found["tokens_in_text"]
    parts = {part: {key: found[part][key] for key in ("tokens", "perplexity")} for part in ("all", "known", "new")}
    speeds = {}
    if learning:
        speeds = {"tokens per second": speed(found), "static tokens per second": speed(json.loads(static.read_text()))}
    return {**parts, "settings": settings_of(grid), "mass of new words": found["new_mass"], **speeds}


def flags(settings: dict[str, Any]) -> list:
    """Return settings as they are typed."""
    return [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", value)]


def speed(report: dict[str, Any]) -> float:
    """Return the tokens that were scored in a second."""
    return report["tokens_scored"] / report["seconds_of_scoring"]


def settings_of(grid: Path) -> dict[str, float]:
    """Return the best settings of those that were tried, and the size of the cache to score with."""
    best = json.loads(grid.read_text())["best"]
    size = {"cache_size": SCORED_SIZE} if "cache_size" in best else {}
    return {**{key: value for key, value in best.items() if key != "perplexity"}, **size}


def slug(name: str) -> str:
    """Return a name of a domain or a row as that of a file."""
    return "-".join(re.findall(r"[^\s+,/]+", name))


def table(rows: dict[str, dict[str, Any]], domains: list[str]) -> str:
    """Return a table in Markdown: perplexity of each model and adapter on each domain's test text, and speeds of what learns."""
    speeds = ("tokens per second", "static tokens per second")
    columns = [*domains, *(speeds if any(speeds[0] in of for found in rows.values() for of in found.values()) else ())]
    lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for row, found in rows.items():
        numbers = [f"{float(found[d]['all']['perplexity']):,.1f}" if d in found else "" for d in domains]
        for name in columns[len(domains) :]:
            measured = [of[name] for of in found.values() if name in of]
            numbers.append(f"{sum(measured) / len(measured):,.0f}" if measured else "")
        lines.append(f"| {row} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)
