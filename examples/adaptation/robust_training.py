"""Do vocabulary dropout and lexicon dropout make a model ready for a far domain's words?

    python examples/adaptation/robust_training.py --data DATA --workdir robust-run

Trains one model a setting on film reviews, scores far domains (science news, rural news, speeches) over the union of the
training text's words and theirs, with several discounts of the new words, and prints the table; science once more over a wide
vocabulary, which has the words of all the corpora below DATA: reviews, abc, speeches, wikitext-2. Finished steps are skipped when
it runs again; the results are in WORKDIR/results.json.
"""

import argparse
import itertools
import json
import logging
import math
import os
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List

from fairseq_groc.cli.programs import BIN, MEMORY, PLUGIN, ROOT, started
from fairseq_groc.cli.score import load
from fairseq_groc.evaluation.scoring import Place
from fairseq_groc.evaluation.tuning import Grid, Pass, read, search
from fairseq_groc.modules.adapters import AdapterSettings
from fairseq_groc.modules.probabilities import perplexity

TRAINING = (
    "--arch groc_lstm_lm_small --batch-size 20 --tokens-per-sample 35 --optimizer adam --lr 0.004 --clip-norm 0.25 "
    "--lr-scheduler polynomial_decay --warmup-updates 50 --sampled-update-fraction 0.1 --encode-in-bf16 "
    "--criterion chunked_cross_entropy --no-epoch-checkpoints --num-workers 0 --log-format simple --log-interval 25 "
    "--disable-validation"
).split()
SETTINGS: Dict[str, List[str]] = {
    "plain": [],
    "vocabulary dropout 0.5": ["--vocabulary-dropout", "0.5"],
    "lexicon dropout 0.3": ["--lexicon-dropout", "0.3"],
    "both": ["--vocabulary-dropout", "0.5", "--lexicon-dropout", "0.3"],
}
# the paper discounts by 0.1; above 1 new words get more
DISCOUNTS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
TRAINING_LINES = 12_000  # of the reviews: 286,000 tokens, 22,000 types
TEST_TOKENS = 40_000  # a domain
STREAMS = 8
TOKEN = re.compile(r"[\w'-]*\w[\w'-]*|[^\w\s]")  # as the reviews are tokenised: don't and well-made are words
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'A-Z])")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with reviews, abc, speeches and wikitext-2")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=350)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    args = parser.parse_args()
    work = args.workdir.resolve()
    domains = prepare(args.data, work)
    rows = []
    for seed in args.seeds:
        for name in args.settings:
            options = [*SETTINGS[name], "--seed", seed]
            save = train(work, f"{name} seed {seed}".replace(" ", "-"), options, args.updates)
            rows += [{"setting": name, "seed": seed, "domain": d, **scores(work / "union" / d, save, d)} for d in domains]
    (work / "results.json").write_text(json.dumps({"updates": args.updates, "rows": rows}, indent=1) + "\n")
    print("\n" + table(rows))


def sentences(paths: List[Path], raw: bool = True) -> Iterator[str]:
    """Yield the sentences of files, lower-cased and tokenised, one by one; those of raw files are split first."""
    for path in paths:
        for paragraph in path.read_text(encoding="utf-8", errors="replace").splitlines():
            for sentence in SENTENCE_END.split(paragraph) if raw else [paragraph]:
                tokens = TOKEN.findall(sentence.lower())
                if tokens:
                    yield " ".join(tokens)


def beginning(lines: Iterator[str], tokens: int) -> Iterator[str]:
    """Yield lines until they have so many tokens."""
    for line in lines:
        if tokens <= 0:
            return
        tokens -= len(line.split()) + 1
        yield line


def prepare(data: Path, work: Path) -> List[str]:
    """Write and preprocess the training text and the domains; return the domains' names."""
    sources = {
        "reviews": [data / "reviews" / "test.txt"],
        "science": [data / "abc" / "science.txt"],
        "rural": [data / "abc" / "rural.txt"],
        "speeches": sorted((data / "speeches").glob("*.txt"), reverse=True),  # the latest first
    }
    text = work / "text"
    text.mkdir(parents=True, exist_ok=True)
    train = itertools.islice(sentences([data / "reviews" / "train.txt"], raw=False), TRAINING_LINES)
    (text / "train.txt").write_text("\n".join(train) + "\n", encoding="utf-8")
    preprocess(work / "source", "--train", text / "train.txt", "--valid", text / "train.txt")
    for name, paths in sources.items():
        lines = list(beginning(sentences(paths, raw=name != "reviews"), TEST_TOKENS))
        (text / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        preprocess(work / "union" / name, "--vocabulary-from", work / "source", "--test", text / f"{name}.txt")
    sources["more"] = [data / "reviews" / "train.txt", data / "wikitext-2" / "train.txt"]
    with open(text / "wide.txt", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for paths in sources.values() for line in sentences(paths, raw=False))
    wide = ["--test", text / "science.txt", "--new-words-from", text / "wide.txt"]
    preprocess(work / "union" / "science-wide", "--vocabulary-from", work / "source", *wide)
    return [*list(sources)[:-1], "science-wide"]


def preprocess(dest: Path, *options) -> None:
    if not (dest / "binarised.json").exists():
        print(f"== preprocessing {dest.name}", flush=True)
        run([ROOT / "scripts" / "preprocess.sh", "--dest", dest, *options], dest.with_name(f"{dest.name}.log"))


def train(work: Path, name: str, options: List, updates: int) -> Path:
    """Train one model, or go on where it was stopped; return its last checkpoint."""
    save = work / "checkpoints" / f"{name}-{updates}"
    log = save.with_name(f"{save.name}.log")
    if not (log.exists() and "done training" in log.read_text()):
        print(f"== training {name}", flush=True)
        command = [BIN / "fairseq-train", work / "source", *PLUGIN, *TRAINING, *options, "--save-dir", save]
        command += ["--max-update", updates, "--total-num-update", updates, "--save-interval-updates", 100]
        run([*command, "--keep-interval-updates", 1], log)
    return save / "checkpoint_last.pt"


def scores(data: Path, checkpoint: Path, domain: str) -> dict:
    """Return perplexities of a domain with every discount, and what the model gives new words; kept beside the checkpoint."""
    kept = checkpoint.with_name(f"{domain}.json")
    if kept.exists():
        return json.loads(kept.read_text())
    print(f"== scoring {domain} with {checkpoint.parent.name}", flush=True)
    hub = load(str(checkpoint), str(data))
    model, task = hub.models[0], hub.task
    task.load_dataset("test")
    grid = Grid("none", discounts=DISCOUNTS)
    adapter = task.adapter_for(model.decoder, AdapterSettings(new_word_discount=DISCOUNTS[0]))
    found = read(model, task.dataset("test"), Place(STREAMS, task.block_length()), adapter, grid)
    result = summary(found, grid)
    kept.write_text(json.dumps(result) + "\n")
    return result


def summary(found: Pass, grid: Grid) -> dict:
    """Return a domain's figures from one pass of the model."""
    new = found.new_words[found.targets]
    return {
        "tokens": len(found.targets),
        "share_new": new.double().mean().item(),
        "mass_new": found.new.double().exp().mean().item(),
        "overall": {f"{settings.new_word_discount:g}": ppl for settings, ppl in search(found, grid)},
        "known": perplexity(float(-found.lprobs[~new].double().sum()), int((~new).sum())),
        "new": perplexity(float(-found.lprobs[new].double().sum()), int(new.sum())) if bool(new.any()) else math.nan,
    }


def table(rows: List[dict]) -> str:
    """Return the results as text; the best discount of each row has a star."""
    names = "".join(f"{'x ' + d:>11}" for d in rows[0]["overall"])
    lines = [f"{'domain':<14}{'setting':<24}{'seed':>5}{'new tokens':>12}{'p(new)':>8}{'known':>8}{'new':>10}{names}"]
    for row in sorted(rows, key=lambda row: [r["domain"] for r in rows].index(row["domain"])):
        best = min(row["overall"].values())
        values = "".join(f"{v:>10,.1f}{'*' if v == best else ' '}" for v in row["overall"].values())
        shares = f"{row['share_new']:>12.1%}{row['mass_new']:>8.1%}{row['known']:>8,.1f}{row['new']:>10,.0f}"
        lines.append(f"{row['domain']:<14}{row['setting']:<24}{row['seed']:>5}{shares}{values}")
    lines.append(
        "perplexities; overall by --new-word-discount, * the best of a row; p(new): what the model gives new words in all"
    )
    return "\n".join(lines)


def run(command, log: Path) -> None:
    """Run a command with its output in *log*."""
    environment = {**os.environ, **MEMORY, "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}"}
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as file:
        with started(command, stdout=file, env=environment) as process:
            process.wait()
    if process.returncode:
        sys.exit(f"failed: {' '.join(str(c) for c in command)}\nthe end of {log}:\n" + log.read_text()[-2000:])


if __name__ == "__main__":
    logging.disable(logging.INFO)  # fairseq's, in scoring
    main()
