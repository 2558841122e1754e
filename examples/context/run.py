"""FactorCell's experiments: models that know the context of a line, beside those that do not.

    python examples/context/run.py models --texts FOLDER --workdir WORK [--seeds 1 2 3] [--rows FactorCell]

FOLDER is from examples/context/texts.py. Every row is trained by fairseq-train, scored by ``evaluate``, and asked by ``classify``
which value of the variable each line has. What is done is skipped; WORK/EXPERIMENT-TEXT.json has what tables are made from.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from context_tables import markdown

from fairseq_groc.__main__ import in_process
from fairseq_groc.contexts.table import read_table
from fairseq_groc.evaluation.results import machine, write_json
from fairseq_groc.evaluation.training_log import read_curves, read_parameters
from fairseq_groc.programs import BIN, PLUGIN, ROOT, held, run


class Text(NamedTuple):
    """How a text is prepared and read.

    Args:
        variable: that lines are classified by; None: none
        preprocess: options
        sizes: of the models
        contexts: options of those that read contexts
        updates: of a training
        beside: a number that would tell the variable's value: each value is guessed with the median of its lines
    """

    variable: str | None
    preprocess: str
    sizes: str
    contexts: str
    updates: int
    beside: str | None = None


_WORDS = "--decoder-embed-dim 150 --decoder-output-dim 110 --recurrent-dropout 0.5"
_CHARACTERS = "--decoder-embed-dim 40 --decoder-output-dim 250"
TEXTS = {
    "agnews": Text("topic", "--threshold 3", _WORDS, "--context-dim 2", 600),
    "dbpedia": Text("category", "--threshold 2", _WORDS, "--context-dim 12", 300),
    "domains": Text("domain", "--threshold 3", _WORDS, "--context-dim 4", 600),
    "speeches": Text("president", "--threshold 3 --context-numeric year", _WORDS, "--context-dim 8", 600, "year"),
    "characters": Text("domain", "", _CHARACTERS, "--context-dim 4", 600),
    "yelp": Text("stars", "--threshold 3", _WORDS, "--context-dim 5", 600),
    "tripadvisor": Text("stars", "--threshold 3", _WORDS, "--context-dim 12 --context-threshold 50", 600),
    "eurotwitter": Text("language", "", _CHARACTERS, "--context-dim 5", 600),
    "geotwitter": Text(None, "--context-numeric lat,lon", _CHARACTERS, "--context-dim 10", 600),
}
_ADAPTED = {
    "Unadapted": "",
    "SoftmaxBias": "--context-adaptation none --context-bias {bias}",
    "ConcatCell": "--context-adaptation concat --context-bias {bias}",
    "FactorCell": "--context-adaptation factor --context-rank 12 --context-bias {bias}",
}
_TIED = "--output-head tied"
_GROC = (
    "--output-head compositional_output --corrections both --highway-layers 0 --char-filters [16,32,48,64,64,32] "
    "--composed-lr-scale 0.3 --sampled-update-fraction 0.05 --output-query linear"
)


def _rows(head: str, bias: str) -> dict[str, str]:
    return {name: f"{head} {options.format(bias=bias)}" for name, options in _ADAPTED.items()}


EXPERIMENTS = {
    "models": _rows(_TIED, "rows"),
    "one-hot": {name: row for name, row in _rows(_TIED, "one-hot").items() if name != "Unadapted"},
    "ranks": {
        f"rank {rank}": f"{_TIED} --context-adaptation factor --context-rank {rank} --context-bias rows"
        for rank in (0, 2, 6, 12, 20)
    },
    "heads": {
        f"{label}, {name}": f"{row} --autocast-bf16"
        for label, head in (("tied", _TIED), ("GroC + corrections", _GROC))
        for name, row in _rows(head, "shift").items()
    },
}
TRAINING = (
    "--arch groc_lstm_lm --prefix-encoder factor_cell --decoder-layers 1 --dropout 0 --dropout-in 0.2 --dropout-out 0.2 "
    "--init-range 0.2 --optimizer adam --lr 0.004 --clip-norm 0.5 --lr-scheduler polynomial_decay --warmup-updates 50 "
    "--total-num-update {updates} --max-update {updates} --validate-interval-updates {interval} --batch-size 50 "
    "--batch-size-valid 50 --sample-break-mode eos --tokens-per-sample 400 --criterion chunked_cross_entropy "
    "--no-epoch-checkpoints --num-workers 0 --log-format simple --distributed-world-size 1"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--texts", type=Path, required=True, help="folder with train.txt, train.tsv, ...; its name is the text's")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument(
        "--like", choices=TEXTS, help="set whose columns these have: sizes and options; default: the folder's name"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rows", nargs="+", help="only these")
    parser.add_argument("--updates", type=int, help="of each training, in place of the text's")
    args = parser.parse_args()
    rows, name = EXPERIMENTS[args.experiment], args.texts.name
    like = args.like or name
    if like not in TEXTS:
        parser.error(f"--texts {args.texts}: no set is called so: give --like {', '.join(TEXTS)}")
    if unknown := set(args.rows or []) - rows.keys():
        parser.error(f"--rows {' '.join(sorted(unknown))}: expected some of {', '.join(rows)}")
    text = TEXTS[like]._replace(updates=args.updates or TEXTS[like].updates)
    data = prepared(args, text, open_vocabulary=args.experiment == "heads")
    results, counted = args.workdir / f"{args.experiment}-{name}.json", ngram(args.workdir / data.name, data)
    for label in args.rows or rows:
        for seed in args.seeds:
            figures = made(args, data, text, label, seed)
            with held(results):
                found = json.loads(results.read_text())["rows"] if results.exists() else {}
                found.setdefault(label, {})[str(seed)] = figures
                ordered = {row: found[row] for row in rows if row in found}
                about = {
                    "experiment": args.experiment,
                    "text": name,
                    "updates": text.updates,
                    "machine": machine(),
                    "ngram": counted,
                }
                write_json(results, {**about, "rows": ordered})
        print(line(label, found[label]), flush=True)
    print("\n".join(markdown(ordered, counted)))


def prepared(args: argparse.Namespace, text: Text, open_vocabulary: bool) -> Path:
    """Binarise the text and its contexts, with a vocabulary of all of its words if it is to be open."""
    data = args.workdir / "data" / (args.texts.name + ("-open" if open_vocabulary else ""))
    with held(data):
        if not (data / "binarised.json").exists():
            given = [
                part
                for split in ("train", "valid", *tests_of(args.texts))
                for kind, suffix in (("", "txt"), ("context-", "tsv"))
                for part in (f"--{kind}{split.rstrip('1')}", args.texts / f"{split}.{suffix}")
            ]
            options = shlex.split(text.preprocess)
            if open_vocabulary:
                options = [part for part in options if part != "--threshold" and not part.isdecimal()]
                options += [part for split in ("valid", "test") for part in ("--new-words-from", args.texts / f"{split}.txt")]
            run(ROOT / "scripts" / "preprocess.sh", *given, *options, "--dest", data)
    return data


def tests_of(texts: Path) -> list[str]:
    """Return the texts that models are scored on: test1 has values of which training has nothing."""
    return [split for split in ("test", "test1") if (texts / f"{split}.txt").exists()]


def made(args: argparse.Namespace, data: Path, text: Text, label: str, seed: int) -> dict[str, Any]:
    """Train, score and classify; return the figures."""
    save = args.workdir / data.name / f"{args.experiment} {label} {text.updates} {seed}".replace(" ", "-").replace(",", "")
    with held(save):
        train(save, data, text, EXPERIMENTS[args.experiment][label], seed)
        options = ("--sample-break-mode", "eos", "--uniform-weight", 0.01)
        scored = {
            split: report(save, f"{split}.json", "evaluate", data, "--split", split, *options) for split in tests_of(args.texts)
        }
        figures = {
            "perplexity": scored["test"]["all"]["perplexity"],
            "known": scored["test"]["known"]["perplexity"],
            "new": scored["test"]["new"]["perplexity"],
            **({"unseen": scored["test1"]["all"]["perplexity"]} if "test1" in scored else {}),
            "parameters": read_parameters((save / "train.log").read_text()),
            "valid": min(perplexity for _, perplexity in read_curves(save / "train.log", "ppl")["valid"]),
            "seconds": json.loads((save / "cost.json").read_text())["seconds"],
            "checkpoint": str((save / "checkpoint_best.pt").relative_to(args.workdir)),
        }
        if text.variable and reads_contexts(EXPERIMENTS[args.experiment][label]):
            options = ("--variable", text.variable, "--baseline", *candidates(args, text))
            classified = report(save, "classified.json", "classify", data, *options)
            figures["accuracy"] = classified["accuracy"]
            figures["baselines"] = classified["baselines"]
    return figures


def candidates(args: argparse.Namespace, text: Text) -> tuple[Any, ...]:
    """Return options of ``classify`` that give each value of the variable its own contexts, none if it says all."""
    if text.beside is None:
        return ()
    table, path = read_table(str(args.texts / "train.tsv")), args.workdir / f"candidates-{args.texts.name}.tsv"
    variable, numbers = table.column(text.variable), table.numbers(text.beside)
    rows = [(value, median(numbers[variable.codes == code])) for code, value in enumerate(variable.values)]
    path.write_text("".join(f"{value}\t{number}\n" for value, number in [(text.variable, text.beside), *rows]))
    return ("--candidates", path)


def ngram(work: Path, data: Path) -> dict[str, Any]:
    """Return the figures of a Kneser-Ney 4-gram of the training text, which reads no contexts."""
    out = work / "ngram.json"
    if not out.exists():
        work.mkdir(parents=True, exist_ok=True)
        in_process("ngram", "--data", data, "--dest", work / "ngram", "--out", out)
    texts = json.loads(out.read_text())["texts"]
    figures = {part: texts["test"][of]["perplexity"] for part, of in (("perplexity", "all"), ("known", "known"), ("new", "new"))}
    return {**figures, **({"unseen": texts["test1"]["all"]["perplexity"]} if "test1" in texts else {})}


def train(save: Path, data: Path, text: Text, options: str, seed: int) -> None:
    log, cost = save / "train.log", save / "cost.json"
    if not cost.exists():
        save.mkdir(parents=True, exist_ok=True)
        recipe = TRAINING.format(updates=text.updates, interval=max(1, text.updates // 6))
        words = shlex.split(f"{recipe} {options_of(text, options)}")
        begin = time.time()
        run(BIN / "fairseq-train", data, *PLUGIN, *words, "--seed", seed, "--save-dir", save, log=log)
        write_json(cost, {"seconds": time.time() - begin, "options": shlex.join(words)})


def options_of(text: Text, row: str) -> str:
    """Return the options of a row's model on a text."""
    return f"{text.sizes} {text.contexts if reads_contexts(row) else ''} {row}"


def reads_contexts(row: str) -> bool:
    return "--context-adaptation" in row


def report(save: Path, name: str, command: str, data: Path, *options: Any) -> dict[str, Any]:
    """Run a command of the package that writes a report, unless it is there; return it."""
    out = save / name
    if not out.exists():
        in_process(command, "--path", save / "checkpoint_best.pt", "--data", data, *options, "--out", out)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def line(label: str, runs: dict[str, Any]) -> str:
    return f"{label}: " + ", ".join(f"{found['perplexity']:.1f}" for found in runs.values())


if __name__ == "__main__":
    sys.exit(main())
