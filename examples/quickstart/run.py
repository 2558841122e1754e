"""The main job in one command: train GroC with corrections and the tied baseline, then score a new domain with all its words.

Everything is done by commands of fairseq and of the package. Finished steps are skipped when it runs again.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from corpus import write_corpus
from quickstart_table import draw, table

from fairseq_groc.__main__ import in_process
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.evaluation.training_log import read_parameters
from fairseq_groc.programs import BIN, MEMORY, PLUGIN, ROOT, started


class Model(NamedTuple):
    """A model of the comparison.

    Args:
        label: in table and picture
        options: of fairseq-train
        rates: learning rates that are tried; validation text chooses
    """

    label: str
    options: str
    rates: tuple[float, ...]


SAMPLED = "--sampled-update-fraction 0.05 --refresh-interval 20"
MODELS = {
    "tied": Model("tied + uniform", "--arch groc_lstm_lm_small --output-head tied", (0.003, 0.006)),
    "groc": Model("GroC + corrections", f"--arch groc_lstm_lm_small_corrected {SAMPLED}", (0.004,)),
}
TRAINING = (
    "--dropout 0.3 --dropout-in 0.3 --batch-size 16 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 "
    "--lr-scheduler polynomial_decay --warmup-updates 100 --criterion chunked_cross_entropy --disable-validation "
    "--no-epoch-checkpoints --num-workers 0 --log-format simple --log-interval 50"
).split()
UPDATES = 1000
UNIFORM = (0.0, 0.03, 0.1, 0.2)  # weights of the uniform distribution, for both models; the grid grows by itself at its edges
DOMAINS = {"in-domain": "test", "new domain": "test1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--updates-factor", type=float, default=1.0, help="train so many times as long")
    args = parser.parse_args()
    begin, work = time.time(), args.workdir.resolve()
    updates = max(2, int(UPDATES * args.updates_factor))
    counts = prepare(work)
    rows = [row_of(work, name, model, updates) for name, model in MODELS.items()]
    write_json(work / "results.json", {"tokens": counts, "updates": updates, "rows": rows})
    print("\n" + table(rows))
    draw(rows, work / "results.png")
    print(f"\npicture: {work / 'results.png'}   figures: {work / 'results.json'}   ({time.time() - begin:.0f} s)")


def prepare(work: Path) -> dict[str, int]:
    """Write and preprocess both domains: the source, and its tests and the new domain with the union vocabulary."""
    text = work / "text"
    say("1/4 corpus: WordNet's usage examples, nouns, adjectives and adverbs against verbs")
    counts = write_corpus(text)
    print("    tokens: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    say("2/4 preprocessing")
    preprocess(work / "source", "--train", text / "train.txt", "--valid", text / "valid.txt")
    union = ("--valid", text / "valid.txt", "--test", text / "test.txt", "--test", text / "new.txt")
    preprocess(work / "union", "--vocabulary-from", work / "source", *union)
    return counts


def preprocess(dest: Path, *options) -> None:
    if (dest / "binarised.json").exists():  # it is written last
        return print(f"    {dest.name}: done before")
    run([ROOT / "scripts" / "preprocess.sh", "--dest", dest, *options], dest.with_suffix(".log"), show="^dictionary")


def row_of(work: Path, name: str, model: Model, updates: int) -> dict[str, Any]:
    """Train with every rate, choose rate and uniform weight on validation text, score both tests; return all figures."""
    runs = [train(work, name, model, rate, updates) for rate in model.rates]
    say(f"4/4 scoring with {model.label}")
    tuned = [tune(work, save) for save in runs]
    chosen = min(range(len(runs)), key=lambda place: tuned[place]["perplexity"])
    save, log = runs[chosen], (runs[chosen] / "train.log").read_text()
    row = {"model": name, "label": model.label, "rate": model.rates[chosen], "uniform_weight": tuned[chosen]["uniform_weight"]}
    speeds = [float(speed) for speed in re.findall(r"\bups[= ]([\d.]+)", log)]
    row |= {"parameters": read_parameters(log), "seconds": updates / statistics.median(speeds)}  # whatever ran beside it
    row["validation"] = tuned[chosen]["perplexity"]
    return row | {domain: evaluate(work, save, split) for domain, split in DOMAINS.items()}


def train(work: Path, name: str, model: Model, rate: float, updates: int) -> Path:
    """Train one model; return the folder of its checkpoint."""
    save = work / f"{name}-lr{rate:g}"
    options = [*model.options.split(), *TRAINING, "--lr", rate, "--max-update", updates, "--total-num-update", updates]
    settings, done = " ".join(map(str, options)), save / "done.json"
    if done.exists() and json.loads(done.read_text())["settings"] == settings:
        print(f"    {save.name}: done before")
        return save
    say(f"3/4 training {model.label}, learning rate {rate:g}, {updates} updates")
    save.mkdir(parents=True, exist_ok=True)
    for old in (*save.glob("*.json"), *save.glob("*.pt")):
        old.unlink()
    run([BIN / "fairseq-train", work / "source", *PLUGIN, *options, "--save-dir", save], save / "train.log", show="train_inner")
    write_json(done, {"settings": settings})
    return save


def tune(work: Path, save: Path) -> dict[str, Any]:
    """Choose the uniform weight on validation text; return it and the perplexity."""
    out = save / "tuned.json"
    if not out.exists():
        model = ["--path", save / "checkpoint_last.pt", "--data", work / "union"]
        in_process("tune", *model, "--cache", "none", "--uniform", *UNIFORM, "--streams", 16, "--out", out)
    return json.loads(out.read_text())["best"]


def evaluate(work: Path, save: Path, split: str) -> dict[str, Any]:
    """Score a text with what validation text chose; return perplexities of all words, known and new, and the share of new."""
    out = save / f"{split}.json"
    if not out.exists():
        model = ["--path", save / "checkpoint_last.pt", "--data", work / "union"]
        in_process("evaluate", *model, "--split", split, "--streams", 16, "--out", out)
    report = json.loads(out.read_text())
    found = {part: report[part]["perplexity"] for part in ("all", "known", "new")}
    perplexities = {part: None if value is None else float(value) for part, value in found.items()}  # "inf" is a number
    return {**perplexities, "tokens": report["tokens_scored"], "share_new": report["new"]["share"]}


def run(command: list, log: Path, show: str) -> None:
    """Run a command with its output in *log*, printing the lines that match *show* as they come."""
    paths = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}"}
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(log, "w") as file,
        started(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **MEMORY, **paths}) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            if re.search(show, line):
                print("    " + line.rstrip().split(" | ", 3)[-1][:150], flush=True)
        process.wait()
    if process.returncode:
        sys.exit(f"failed: {' '.join(str(part) for part in command)}\nthe end of {log}:\n" + log.read_text()[-2000:])


def say(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    main()
