"""Train a compositional and a tied model on one domain, score others with the union vocabulary and every adapter, finetune both.

    python examples/adaptation/run.py --texts FOLDER --domain NAME=PATH ... [--temporal FOLDER] --workdir DIR

FOLDER has train.txt, valid.txt and test.txt, tokenised and lower-cased; each PATH is another such folder, a raw text, or a folder
of raw texts. The files of --temporal begin with a year: those up to 1985 train, the later ones are scored. Everything is done by
commands of fairseq and of the package; what is done is skipped when it runs again.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

from fairseq_groc.cli.programs import BIN, MEMORY, PLUGIN, ROOT, in_process, run

TRAINING = (
    "--batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam --no-epoch-checkpoints --num-workers 0 "
    "--log-format simple --log-interval 25 --criterion chunked_cross_entropy"
).split()


class Scale(NamedTuple):
    """Options of fairseq-train; {updates} is the number of updates and {interval} that between validations.

    Args:
        models: by name
        training: of all models
        finetuning: in place of what is in *training*
    """

    models: Dict[str, str]
    training: str
    finetuning: str


_DECAY = (
    "--clip-norm 0.25 --lr-scheduler polynomial_decay --warmup-updates 50 --max-update {updates} --total-num-update {updates} "
    "--validate-interval-updates {interval}"
)
SCALES = {
    "cpu": Scale(
        {
            "tied": "--arch groc_lstm_lm_small --output-head tied --lr 0.003",
            "GroC": "--arch groc_lstm_lm_small --output-head compositional_output --lr 0.004 --sampled-update-fraction 0.1",
        },
        training=_DECAY,
        finetuning=f"{_DECAY} --lr 0.001",
    ),
    # GroC, appendix B.1; the paper does not say which of its two sets of dropouts and depths these models have, nor at what rate
    # they are finetuned
    "paper": Scale(
        {"tied": "--arch groc_lstm_lm_ptb_tied", "GroC": "--arch groc_lstm_lm_ptb"},
        training="--lr 0.001 --clip-norm 0.1 --lr-scheduler resumable_reduce_lr_on_plateau --lr-patience 3 --lr-shrink 0.1 "
        "--patience 8 --max-epoch 100",
        finetuning="--lr 0.001 --clip-norm 0.1 --max-epoch 3",
    ),
}
UNIFORM = (0.01, 0.03, 0.1, 0.2)  # weights, for tied
DISCOUNTS = (3, 1, 0.3, 0.1)  # of new words, for GroC; a finetuned one knows the domain's
CACHES = ("none", "unigram", "local", "unbounded")
LAST_YEAR = 1985


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--domain", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--temporal", type=Path)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--updates", type=int, default=2000, help="of GroC; tied makes half as many more (scale cpu)")
    parser.add_argument("--finetune-updates", type=int, default=300, help="scale cpu")
    parser.add_argument("--train-tokens", type=int, default=0, help="of the training text; 0: all of it")
    parser.add_argument("--valid-tokens", type=int, default=15_000)
    parser.add_argument("--test-tokens", type=int, default=30_000)
    parser.add_argument("--caches", nargs="+", choices=CACHES, default=CACHES)
    parser.add_argument("--in-bf16", action="store_true", help="GroC's products in bfloat16, on CPUs that have it")
    args = parser.parse_args()
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    check_workdir(args)
    tables = [experiment(args, "domains", domain_texts(args))]
    if args.temporal:
        tables.append(experiment(args, "temporal", temporal_texts(args)))
    for table in tables:
        print(table)
    (args.workdir / "tables.txt").write_text("\n\n".join(tables) + "\n")


def check_workdir(args) -> None:
    """Refuse a folder that was made with other settings: what is done is skipped."""
    kept = {name: str(value) for name, value in sorted(vars(args).items()) if name not in ("workdir", "caches", "temporal")}
    path = args.workdir / "settings.json"
    if path.exists() and json.loads(path.read_text()) != kept:
        sys.exit(f"{args.workdir} was made with other settings ({path}): give another --workdir")
    args.workdir.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")


# -- texts -------------------------------------------------------------------------------------------------------------


def domain_texts(args) -> Dict[str, Dict[str, Path]]:
    """Return the raw texts of every domain: train, valid, test. The first is where the models are trained."""
    work = args.workdir / "domains" / "raw"
    limits = {"train": 0, "valid": args.valid_tokens, "test": args.test_tokens}

    def text(name: str, parts: Dict[str, List[str]], limits: Dict[str, int]) -> Dict[str, Path]:
        return {split: write(work / f"{name}.{split}", head(lines, limits[split])) for split, lines in parts.items()}

    found = {"in-domain": text("in-domain", splits_in(args.texts), {**limits, "train": args.train_tokens})}
    for pair in args.domain:
        name, path = pair.split("=", 1)
        if Path(path, "train.txt").exists():
            parts = splits_in(Path(path))
        else:
            lines = tokenized(Path(path), work / f"{name}.all")
            parts = {"train": lines[: len(lines) // 2], "valid": lines[len(lines) // 2 : len(lines) * 3 // 4]}
            parts["test"] = lines[len(lines) * 3 // 4 :]
        found[name] = text(name, parts, limits)
    return found


def splits_in(folder: Path) -> Dict[str, List[str]]:
    return {split: (folder / f"{split}.txt").read_text().splitlines() for split in ("train", "valid", "test")}


def temporal_texts(args) -> Dict[str, Dict[str, Path]]:
    """Return the texts of the years up to 1985, the last two of which validate, and of those after."""
    work = args.workdir / "temporal" / "raw"
    files = sorted(path for path in args.temporal.iterdir() if path.name[:4].isdigit())
    years = {path: int(path.name[:4]) for path in files}

    def text(name, chosen):
        return tokenized([path for path in files if chosen(years[path])], work / f"{name}.all")

    before, held = text("before", lambda y: y < LAST_YEAR - 1), text("held", lambda y: LAST_YEAR - 1 <= y <= LAST_YEAR)
    after = text("after", lambda y: y > LAST_YEAR)
    half = len(held) // 2
    first = {"train": before, "valid": held[:half], "test": held[half:]}
    third = len(after) // 3
    later = {"train": after[:third], "valid": after[third : third * 4 // 3], "test": after[third * 4 // 3 :]}
    domains = {f"up to {LAST_YEAR}": first, f"from {LAST_YEAR + 1}": later}
    return {
        name: {split: write(work / f"{i}.{split}", lines) for split, lines in parts.items()}
        for i, (name, parts) in enumerate(domains.items())
    }


def tokenized(source, target: Path) -> List[str]:
    """Return the lines of raw files, tokenised and lower-cased; empty ones are left out."""
    if not target.exists():
        files = source if isinstance(source, list) else sorted(source.iterdir()) if source.is_dir() else [source]
        raw = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
        write(target.with_suffix(".raw"), [line for line in raw.splitlines() if line.strip()])
        run(
            sys.executable,
            "-m",
            "fairseq_groc",
            "prepare",
            "text",
            f"{target}={target.with_suffix('.raw')}",
            "--tokenize",
            "en",
            "--lower",
        )
    return target.read_text().splitlines()


def head(lines: List[str], tokens: int) -> List[str]:
    """Return the first lines with so many tokens; 0: all."""
    kept, count = [], 0
    for line in lines:
        if tokens and count >= tokens:
            break
        kept.append(line)
        count += len(line.split()) + 1
    return kept


def write(path: Path, lines: List[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("\n".join(lines) + "\n")
    return path


# -- one experiment ------------------------------------------------------------------------------------------------------


def experiment(args, name: str, texts: Dict[str, Dict[str, Path]]) -> str:
    """Train on the first domain, score all of them; return the table."""
    work = args.workdir / name
    first, *others = texts
    base = binarise(work / "data" / slug(first), texts[first], ["--train", texts[first]["train"]])
    scale = SCALES[args.scale]
    checkpoints = {model: train(args, base, work / model, scale.training.split(), model) for model in scale.models}
    results: Dict[str, Dict[str, float]] = {}
    for domain in texts:
        data = base
        if domain != first:  # the union vocabulary: the words of the domain after those of training
            union = ["--vocabulary-from", base, "--new-words-from", texts[domain]["train"]]
            data = binarise(work / "data" / slug(domain), texts[domain], union)
        for model, checkpoint in checkpoints.items():
            for cache in args.caches:
                row = f"{model} + {cache}" if cache != "none" else {"tied": "tied + uniform"}.get(model, model)
                results.setdefault(row, {})[domain] = score(work / "scores", data, checkpoint, model, cache)
    for domain in others:
        tuned = work / "data" / f"{slug(domain)}-finetune"
        union = ["--vocabulary", work / "data" / slug(domain) / "dict.txt", "--train", texts[domain]["train"]]
        binarise(tuned, texts[domain], union, texts[first]["valid"])
        logs = []
        for model, checkpoint in checkpoints.items():
            options = [*scale.finetuning.split(), "--finetune-from-model", checkpoint, "--valid-subset", "valid,valid1"]
            again = train(args, tuned, work / f"{slug(domain)}-{model}", options, model, args.finetune_updates)
            logs.append(again.parent / "train.log")
            results.setdefault(f"{model}, finetuned", {})[domain] = score(work / "scores", tuned, again, model, "none", [1])
        picture = work / f"finetuning-{slug(domain)}.png"
        if not picture.exists():
            in_process("curves", *logs, "--names", f"valid={domain}", f"valid1={first}", "--out", picture)
    (work / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    return table(results, list(texts))


def slug(domain: str) -> str:
    return domain.replace(" ", "-")


def binarise(dest: Path, texts: Dict[str, Path], options: List, *more_valid: Path) -> Path:
    if not (dest / "binarised.json").exists():
        valid = [part for path in (texts["valid"], *more_valid) for part in ("--valid", path)]
        run(ROOT / "scripts" / "preprocess.sh", *options, *valid, "--test", texts["test"], "--dest", dest)
    return dest


def train(args, data: Path, save: Path, options: List[str], model: str, updates: int = 0) -> Path:
    """Train a model; a run that was interrupted goes on."""
    updates = updates or (args.updates if model == "GroC" else args.updates * 3 // 2)
    if not (save / "done").exists():
        precision = ["--encode-in-bf16"] * (args.in_bf16 and model == "GroC")
        chosen = [*SCALES[args.scale].models[model].split(), *options]
        numbers = {"updates": updates, "interval": max(1, updates // 6)}
        chosen = [part.format(**numbers) if isinstance(part, str) else part for part in chosen]
        save.mkdir(parents=True, exist_ok=True)
        where = ["--save-dir", save, "--log-file", save / "train.log"]
        run("fairseq-train", data, *PLUGIN, *TRAINING, *chosen, *precision, *where)
        (save / "done").touch()
    return save / "checkpoint_best.pt"


def score(work: Path, data: Path, checkpoint: Path, model: str, cache: str, discounts=DISCOUNTS) -> float:
    """Tune a cache on the validation text and return the perplexity of the test text with the best settings."""
    name = f"{checkpoint.parent.name}-{data.name}-{cache}"
    report, grid = work / f"{name}.json", work / f"{name}-grid.json"
    if not report.exists():
        work.mkdir(parents=True, exist_ok=True)
        common = ["--path", checkpoint, "--data", data, "--tokens-per-sample", 100]
        fixed = ["--cache", cache, "--no-store", "--out", grid]
        fixed += ["--uniform", *UNIFORM] if model == "tied" else ["--discounts", *discounts]
        sizes = ["--weights", *"0.03 0.1 0.2 0.3 0.5".split(), "--thetas", *"0 0.3 1 3 10".split(), "--sizes", "5000"]
        in_process("tune", *common, *fixed, *sizes, "--neighbors", 100, 1000)
        best = min(json.loads(grid.read_text())["grid"], key=lambda row: float(row["perplexity"]))
        flags = [part for key, value in best.items() if key != "perplexity" for part in (f"--{key.replace('_', '-')}", value)]
        in_process("evaluate", *common, *flags, "--out", report)
    found = json.loads(report.read_text())
    assert found["tokens_scored"] == found["tokens_in_text"]
    return float(found["all"]["perplexity"])


def table(results: Dict[str, Dict[str, float]], domains: List[str]) -> str:
    """Return a table in Markdown: perplexity of each model and adapter on each domain's test text."""
    lines = ["| | " + " | ".join(domains) + " |", "| --- |" + " --- |" * len(domains)]
    for row, found in results.items():
        numbers = [f"{found[d]:,.1f}" if d in found else "" for d in domains]
        lines.append(f"| {row} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
