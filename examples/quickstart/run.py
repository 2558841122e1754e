"""The main job in one command: train GroC and the tied baseline, then score a new domain with an open vocabulary.

Everything runs through fairseq's own commands; this file only calls them, and adds up what fairseq-eval-lm prints.
Finished steps are skipped when it runs again.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from corpus import write_corpus
from report import draw, table

from fairseq_groc.cli.programs import BIN, MEMORY, PLUGIN, ROOT, started
from fairseq_groc.presets import PRESETS

TRAINING = (
    "--arch groc_lstm_lm_small --dropout 0.3 --dropout-in 0.3 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 "
    "--lr-scheduler polynomial_decay --warmup-updates 100 --no-epoch-checkpoints --num-workers 0 --log-format simple "
    "--log-interval 50 --disable-validation"
).split()
# Each model as it does best in its time: tied likes many small steps, and gets a grid of learning rates and of uniform
# weights on validation text; GroC encodes all words at every step, so larger steps pay.
SETTINGS = {
    "tied": "--batch-size 16",
    "compositional_output": "--batch-size 32 --highway-layers 0 --char-filters [16,32,48,64,64,32]",
}
GRID = {"tied": (0.003, 0.004), "compositional_output": (0.008,)}
UPDATES = {"tied": 1000, "compositional_output": 450}
UNIFORM = (0.1, 0.03, 0.2)  # the learning rate is chosen with the first
WORD_PROBS = re.compile(r"fairseq_cli.eval_lm\W+\d+ (.+\])$", re.MULTILINE)
TOKEN = re.compile(r"(\S+) \[(-?[\d.e+]+|-?inf)\]")
Scores = List[Tuple[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--updates-factor", type=float, default=1.0, help="train so many times as long")
    args = parser.parse_args()
    begin, work = time.time(), args.workdir.resolve()
    counts = prepare(work)
    runs = {
        head: [train(work, head, lr, max(2, int(UPDATES[head] * args.updates_factor))) for lr in rates]
        for head, rates in GRID.items()
    }
    rows = [evaluate(work, head, checkpoints) for head, checkpoints in runs.items()]
    results = {"tokens": counts, "rows": rows, "curves": {str(c.name): curve(c) for cs in runs.values() for c in cs}}
    (work / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print("\n" + table(rows))
    draw(results, work / "results.png")
    print(f"\npicture: {work / 'results.png'}   figures: {work / 'results.json'}   ({time.time() - begin:.0f} s)")


def prepare(work: Path) -> Dict[str, int]:
    """Write and preprocess both domains: the source, and source tests and new domain with the union vocabulary."""
    text = work / "text"
    say("1/4 corpus: WordNet's usage examples, nouns, adjectives and adverbs against verbs")
    counts = write_corpus(text)
    print("    tokens: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    say("2/4 preprocessing")
    preprocess(work / "source", "--train", text / "train.txt", "--valid", text / "valid.txt")
    preprocess(
        work / "union",
        *("--vocabulary-from", work / "source", "--valid", text / "valid.txt", "--test", text / "test.txt"),
        *("--test", text / "new.txt"),
    )
    return counts


def preprocess(dest: Path, *options) -> None:
    if (dest / "binarised.json").exists():  # it is written last
        return print(f"    {dest.name}: done before")
    run([ROOT / "scripts" / "preprocess.sh", "--dest", dest, *options], dest.with_suffix(".log"), show="^dictionary")


def train(work: Path, head: str, lr: float, updates: int) -> Path:
    """Train one model; return the folder of its checkpoints."""
    save = work / f"{head}-lr{lr:g}"
    options = [*TRAINING, *SETTINGS[head].split()]
    settings = f"{updates} updates {' '.join(options)} {PRESETS['groc_lstm_lm_small'].options}\n"
    if (save / "done").exists() and (save / "done").read_text() == settings:
        print(f"    {save.name}: done before")
        return save
    shutil.rmtree(save, ignore_errors=True)
    say(f"3/4 training {head}, learning rate {lr:g}, {updates} updates")
    save.mkdir(parents=True, exist_ok=True)
    command = [BIN / "fairseq-train", work / "source", *PLUGIN, *options, "--output-head", head, "--lr", lr]
    command += ["--max-update", updates, "--total-num-update", updates, "--save-dir", save]
    run(command, save / "train.log", show="train_inner", environment=MEMORY)
    (save / "done").write_text(settings)
    return save


def curve(save: Path) -> List[Tuple[int, float]]:
    """Return (updates, training perplexity) as fairseq-train printed them."""
    log = (save / "train.log").read_text()
    found = re.findall(r"\| train_inner \|.* ppl=([\d.]+),.* num_updates=(\d+)", log)
    return [(int(updates), float(perplexity)) for perplexity, updates in found]


def evaluate(work: Path, head: str, checkpoints: List[Path]) -> dict:
    """Choose learning rate (and, for tied, uniform weight) on validation text; score both tests."""
    say(f"4/4 scoring with {head}")
    tried: Dict[Tuple[Path, float], float] = {}

    def best(settings) -> Tuple[Path, float]:
        for checkpoint, weight in settings:
            if (checkpoint, weight) not in tried:
                tried[checkpoint, weight] = value = perplexity(score(work, checkpoint, "valid", weight))
                print(f"    {checkpoint.name}, uniform weight {weight:g}: validation perplexity {value:,.1f}", flush=True)
        return min(tried, key=lambda setting: tried[setting])

    weights = UNIFORM if head == "tied" else (0.0,)
    checkpoint, _ = best((c, weights[0]) for c in checkpoints)
    checkpoint, weight = best((checkpoint, w) for w in weights)
    known = set((work / "text" / "train.txt").read_text(encoding="utf-8").split()) | {"</s>"}
    row = {"head": head, "checkpoint": checkpoint.name, "uniform_weight": weight, "validation": tried[checkpoint, weight]}
    row["parameters"] = int(re.findall(r"num. model params: ([\d,]+)", last_log(work))[0].replace(",", ""))
    for domain, split in (("in-domain", "test"), ("new domain", "test1")):
        scores = score(work, checkpoint, split, weight)
        row[domain] = {
            "tokens": len(scores),
            "overall": perplexity(scores),
            "known": perplexity([s for s in scores if s[0] in known]),
            "new": perplexity([s for s in scores if s[0] not in known]),
            "share_new": sum(s[0] not in known for s in scores) / len(scores),
        }
    return row


def last_log(work: Path) -> str:
    return (work / "eval.log").read_text()


def score(work: Path, save: Path, split: str, weight: float) -> Scores:
    """Return every word of a split with its log-probability, as fairseq-eval-lm prints them.

    Raises:
        RuntimeError: fairseq-eval-lm scored another number of tokens than it printed.
    """
    command = [BIN / "fairseq-eval-lm", work / "union", *PLUGIN, "--path", save / "checkpoint_last.pt"]
    command += ["--gen-subset", split, "--batch-size", 16, "--output-word-probs", "--num-workers", 0]
    run([*command, "--uniform-weight", weight, "--no-progress-bar"], work / "eval.log")
    log = last_log(work)
    lines = WORD_PROBS.findall(log)
    scores = [(word, float(value)) for line in lines for word, value in TOKEN.findall(line)]
    evaluated = int(re.findall(r"Evaluated ([\d,]+) tokens", log)[0].replace(",", ""))
    if evaluated != len(scores):
        raise RuntimeError(f"{split}: {evaluated} tokens evaluated, {len(scores)} printed")
    return scores


def perplexity(scores: Scores) -> float:
    return math.exp(min(700.0, -sum(value for _, value in scores) / max(len(scores), 1)))


def run(command, log: Path, show: str = "", environment: Optional[Dict[str, str]] = None) -> None:
    """Run a command with its output in *log*, printing the lines that match *show* as they come."""
    paths = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}"}
    environment = {**os.environ, **paths, **(environment or {})}
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(log, "w") as file,
        started(command, stdout=subprocess.PIPE, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            if show and re.search(show, line):
                print("    " + line.rstrip().split(" | ", 3)[-1][:150], flush=True)
        process.wait()
    if process.returncode:
        sys.exit(f"failed: {' '.join(str(part) for part in command)}\nthe end of {log}:\n" + log.read_text()[-2000:])


def say(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    main()
