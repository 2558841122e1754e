"""Train tied, GroC and GroC with corrections on one domain, score others with the union vocabulary and every adapter, finetune.

    python examples/adaptation/run.py --texts FOLDER --domain NAME=PATH ... [--temporal FOLDER] --workdir DIR

FOLDER has train.txt, valid.txt and test.txt, tokenised and lower-cased; each PATH is another such folder, a raw text, or a folder
of raw texts. The files of --temporal begin with a year: those up to 1985 train, the later ones are scored; without --domain
that is all. Everything is done by commands of fairseq and of the package; what is done is skipped when it runs again.
WORKDIR/table-5-domains-SCALE.json and table-5-temporal-SCALE.json have what examples/papers/report.py makes pages from; with
dynamic evaluation it is table-5-domains-dynamic-SCALE.json.
"""

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from rows import CACHES, DYNAMIC, KNESER_NEY, NGRAM, mass, ngram, ngram_alone, score, slug, statistics, table, ways
from texts import domain_texts, temporal_texts

from fairseq_groc.__main__ import in_process
from fairseq_groc.adapters import OPTIONS
from fairseq_groc.evaluation.results import machine, write_json
from fairseq_groc.evaluation.training_log import read_curves
from fairseq_groc.presets import PRESETS
from fairseq_groc.programs import BIN, MEMORY, PLUGIN, ROOT, check_settings, held, run

TRAINING = (
    "--batch-size 20 --tokens-per-sample 35 --batch-size-valid 20 --optimizer adam --no-epoch-checkpoints --num-workers 0 "
    "--log-format simple --log-interval 25 --criterion chunked_cross_entropy"
).split()


class Model(NamedTuple):
    """A model that is compared.

    Args:
        options: of fairseq-train
        updates: how many it makes while the others make one
        finetuned: in which ways, by name: options of fairseq-train
    """

    options: str
    updates: float = 1
    finetuned: dict[str, str] = {"": ""}


class Scale(NamedTuple):
    """Options of fairseq-train; {updates} is the number of updates and {interval} that between validations.

    Args:
        models: by name; those of ``MAIN`` are trained if nothing else is said
        learning_rates: each model is trained with all of them, and the one that is best on validation text is taken
        training: of all models
        finetuning: in place of what is in *training*
        caches: settings that are tried, options of the command ``tune``
        valid_tokens, test_tokens: of every domain's texts; 0: all
    """

    models: dict[str, Model]
    learning_rates: tuple[str, ...]
    training: str
    finetuning: str
    caches: str
    valid_tokens: int = 0
    test_tokens: int = 0


_DECAY = (
    "--clip-norm 0.25 --lr-scheduler polynomial_decay --warmup-updates 50 --max-update {updates} --total-num-update {updates} "
    "--validate-interval-updates {interval}"
)
# the paper begins the rows of new words at random; from rows like the trained ones tied does not have to unlearn noise first
_TIED = {"": "", ", drawn rows": "--draw-new-rows"}
_CORRECTED = "--arch groc_lstm_lm_small_corrected --sampled-update-fraction 0.05"
MAIN = ("tied", "GroC", "GroC + corrections")
BRIEF = ("none", "local", NGRAM)  # caches of the others
SCALES = {
    # caches gain much at this size, so their weights go far
    "cpu": Scale(
        {
            "tied": Model("--arch groc_lstm_lm_small --output-head tied", finetuned=_TIED),
            "GroC": Model("--arch groc_lstm_lm_small --output-head compositional_output --sampled-update-fraction 0.1"),
            "GroC + corrections": Model(_CORRECTED),
            # a step with corrections takes 1.3 to 1.4 times as long
            "tied at equal time": Model("--arch groc_lstm_lm_small --output-head tied", 1.4, {"": "--draw-new-rows"}),
            "corrections always there": Model(f"{_CORRECTED} --correction-dropout 0"),
            "corrections half the time": Model(f"{_CORRECTED} --correction-dropout 0.5"),
        },
        learning_rates=("0.006", "0.003"),
        training=_DECAY,
        finetuning=f"{_DECAY} --lr 0.001",
        caches="--weights 0.03 0.1 0.2 0.3 0.5 0.7 --thetas 0 0.3 1 3 10 --sizes 5000 --neighbors 100 1000",
        valid_tokens=15_000,
        test_tokens=30_000,
    ),
    # GroC, appendix B.1; the paper does not say which of its two sets of dropouts and depths these models have, nor at what rate
    # they are finetuned
    "paper": Scale(
        {"tied": Model("--arch groc_lstm_lm_ptb_tied", finetuned=_TIED), "GroC": Model("--arch groc_lstm_lm_ptb")},
        learning_rates=("0.001",),
        training="--clip-norm 0.1 --lr-scheduler resumable_reduce_lr_on_plateau --lr-patience 3 --lr-shrink 0.1 "
        "--patience 8 --max-epoch 100",
        finetuning="--lr 0.001 --clip-norm 0.1 --max-epoch 3",
        # appendix C.4; it chooses one setting, of the tied model on one text, and takes it for all
        caches="--weights 0.034 0.067 0.1 0.133 0.167 --thetas 0 0.25 0.5 0.75 1 --sizes 5000 --neighbors 1024",
    ),
}
CHECKPOINT = "checkpoint_best.pt"
TITLES = {
    "domains": "GroC, Table 5 and Figures 4 to 6: other domains",
    "temporal": "GroC, Table 5 and Figures 4 to 6, along time: later speeches",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="with --domain: where the models are trained")
    parser.add_argument("--domain", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--temporal", type=Path)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--updates", type=int, default=2000, help="of each model (scale cpu)")
    parser.add_argument("--finetune-updates", type=int, default=300, help="scale cpu")
    parser.add_argument("--train-tokens", type=int, default=0, help="of the training text; 0: all of it")
    parser.add_argument("--valid-tokens", type=int, help="of every domain; 0: all (scale paper), else 15,000 (cpu)")
    parser.add_argument("--test-tokens", type=int, help="of every domain; 0: all (scale paper), else 30,000 (cpu)")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help=f"of the scale's; default: {', '.join(MAIN)}")
    parser.add_argument("--learning-rates", nargs="+", metavar="RATE", help="tried for each model, in place of the scale's")
    parser.add_argument("--caches", nargs="+", choices=(*CACHES, NGRAM, *DYNAMIC), default=CACHES)
    learning = OPTIONS["dynamic_parameters"]
    parser.add_argument("--dynamic-parameters", choices=learning.kind, default=learning.default, help="what learns, if anything")
    parser.add_argument("--in-bf16", action="store_true", help="matrix products in bfloat16, on CPUs that have it")
    args = parser.parse_args()
    if not (args.domain or args.temporal):
        parser.error("give --domain NAME=PATH, or --temporal FOLDER, or both")
    if args.domain and not args.texts:
        parser.error("--domain goes with --texts FOLDER, where the models are trained")
    for name in ("valid_tokens", "test_tokens"):
        if getattr(args, name) is None:
            setattr(args, name, getattr(SCALES[args.scale], name))
    models = SCALES[args.scale].models
    args.models = args.models or [model for model in MAIN if model in models]
    if unknown := set(args.models) - set(models):
        parser.error(f"--models {' '.join(unknown)}: --scale {args.scale} has {', '.join(models)}")
    args.learning_rates = args.learning_rates or SCALES[args.scale].learning_rates
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    with held(args.workdir):
        check_settings(args.workdir, settings_of_folder(args))
        if args.domain:
            print(experiment(args, "domains", domain_texts(args)), flush=True)
        if args.temporal:
            print(experiment(args, "temporal", temporal_texts(args)), flush=True)


def settings_of_folder(args) -> dict[str, str]:
    """Return what everything in the folder depends on."""
    others = ("workdir", "models", "caches", "dynamic_parameters", "temporal")
    kept = {name: str(value) for name, value in sorted(vars(args).items()) if name not in others}
    return kept | {"preset": str(PRESETS["groc_lstm_lm_small"].options), "recipe": str(SCALES[args.scale])}


def experiment(args, name: str, texts: dict[str, dict[str, Path]]) -> str:
    """Train on the first domain, score all of them, finetune on the others; write the figures, return them as a table."""
    work = args.workdir / name
    first, *others = texts
    base = binarise(work / "data" / f"{slug(first)}-training", texts[first], ["--train", texts[first]["train"]])
    scale = SCALES[args.scale]
    learning_rates = {model: validated(args, base, work, model) for model in args.models}
    checkpoints = {model: work / run_name(model, best(found)) / CHECKPOINT for model, found in learning_rates.items()}
    rows: dict[str, dict[str, Any]] = {KNESER_NEY: {}} if NGRAM in args.caches else {}
    for domain in texts:
        # the union vocabulary: the words of the domain after those of training, of finetuning as well, to compare with it
        union = ["--vocabulary-from", base, "--new-words-from", texts[domain]["train"]]
        data = binarise(work / "data" / slug(domain), texts[domain], union)
        for model, checkpoint in checkpoints.items():
            caches = args.caches if model in MAIN else [cache for cache in args.caches if cache in BRIEF]
            for cache, (row, options) in ways(model, caches, scale.caches).items():
                folder, learning = work / "scores" / slug(row), []
                if cache in DYNAMIC:
                    folder = folder / args.dynamic_parameters
                    learning = ["--dynamic-parameters", args.dynamic_parameters]
                    learning += ["--dynamic-statistics", statistics(work, base, model, checkpoint, learning)]
                beside = ["--ngram-path", ngram(work, base)] if cache == NGRAM else []
                rows.setdefault(row, {})[domain] = score(folder, data, checkpoint, options, learning, beside)
        if NGRAM in args.caches:
            rows[KNESER_NEY][domain] = ngram_alone(work, base, data)
    for domain in others:
        data = work / "data" / slug(domain)  # all rows are scored here, so that known words and new ones are the same
        tuned = work / "data" / f"{slug(domain)}-finetune"
        union = ["--vocabulary", data / "dict.txt", "--known", base, "--train", texts[domain]["train"]]
        binarise(tuned, texts[domain], union, texts[first]["valid"])
        logs = []
        ways_of_models = ((model, *way) for model in args.models for way in scale.models[model].finetuned.items())
        for model, variant, more in ways_of_models:
            way = f"{model}{variant}"
            options = [*scale.finetuning.split(), *more.split(), "--valid-subset", "valid,valid1"]
            options += ["--finetune-from-model", checkpoints[model]]
            again = train(args, tuned, work / f"{slug(domain)}-{slug(way)}", options, model, args.finetune_updates)
            logs.append(again.parent / "train.log")
            row = f"{way}, finetuned"
            scored = score(work / "scores" / slug(row), data, again, ["--cache", "none", *mass(model)])
            rows.setdefault(row, {})[domain] = scored
        picture = work / f"finetuning-{slug(domain)}.png"
        if not picture.with_suffix(".json").exists():  # written after the picture
            in_process("curves", *logs, "--names", f"valid={domain}", f"valid1={first}", "--out", picture)
    learns = bool(DYNAMIC.keys() & {*args.caches})  # a page of its own: it takes hours, so fewer models and domains have it
    title, name = (f"{TITLES[name]}, with dynamic evaluation", f"{name}-dynamic") if learns else (TITLES[name], name)
    results = {"adaptation": name, "title": title, "scale": args.scale, "machine": machine(), "command": command_of(args)}
    results |= {"trained_on": first, "learning_rates": learning_rates, "domains": list(texts), "rows": rows}
    results["finetuning"] = {domain: curves_of(work, domain) for domain in others}
    out = args.workdir / f"table-5-{name}-{args.scale}.json"
    if "local" in args.caches:  # Figure 6 is tied's, on the first other domain
        grid = work / "scores" / slug("tied + local") / f"{slug(others[0])}-grid.json"
        results["grid"] = {"domain": others[0], "grid": json.loads(grid.read_text())["grid"]}
    write_json(out, results)
    return table(rows, list(texts))


def command_of(args) -> str:
    """Return the command with the names of files and folders in place of where they are."""
    domains = [pair.split("=", 1) for pair in args.domain]
    options = ["--texts TEXTS"] if domains else []
    options += ["--domain " + shlex.quote(f"{name}={Path(path).name}") for name, path in domains]
    options += ["--temporal " + shlex.quote(args.temporal.name)] if args.temporal else []
    options += [f"--scale {args.scale} --train-tokens {args.train_tokens}"]
    options += [f"--updates {args.updates} --finetune-updates {args.finetune_updates}"] if args.scale == "cpu" else []
    options += [f"--valid-tokens {args.valid_tokens} --test-tokens {args.test_tokens}"]
    rates = args.learning_rates
    options += ["--learning-rates " + " ".join(rates)] if rates != SCALES[args.scale].learning_rates else []
    main = [model for model in MAIN if model in SCALES[args.scale].models]
    options += [f"--models {shlex.join(args.models)}"] if args.models != main else []
    options += ["--caches " + " ".join(args.caches)] if tuple(args.caches) != CACHES else []
    if DYNAMIC.keys() & {*args.caches} and args.dynamic_parameters != OPTIONS["dynamic_parameters"].default:
        options += [f"--dynamic-parameters {args.dynamic_parameters}"]
    options += ["--in-bf16"] if args.in_bf16 else []
    return " ".join(["python examples/adaptation/run.py", *options, "--workdir DIR"])


def curves_of(work: Path, domain: str) -> list[dict[str, Any]]:
    """Return the curves of finetuning, of each model and text."""
    curves = json.loads((work / f"finetuning-{slug(domain)}.json").read_text())["curves"]
    return [{key: curve[key] for key in ("run", "subset", "points")} for curve in curves]


def binarise(dest: Path, texts: dict[str, Path], options: list, *more_valid: Path) -> Path:
    if not (dest / "binarised.json").exists():
        valid = [part for path in (texts["valid"], *more_valid) for part in ("--valid", path)]
        run(ROOT / "scripts" / "preprocess.sh", *options, *valid, "--test", texts["test"], "--dest", dest)
    return dest


def validated(args, data: Path, work: Path, model: str) -> dict[str, float]:
    """Train a model at every rate; return the best validation perplexity of each."""
    found = {}
    for rate in args.learning_rates:
        save = work / run_name(model, rate)
        train(args, data, save, [*SCALES[args.scale].training.split(), "--lr", rate], model)
        found[rate] = min(perplexity for _, perplexity in read_curves(save / "train.log")["valid"])
    return found


def run_name(model: str, rate: str) -> str:
    return f"{slug(model)}-lr{rate}"


def best(found: dict[str, float]) -> str:
    """Return the rate with the lowest perplexity."""
    return min(found, key=lambda rate: found[rate])


def train(args, data: Path, save: Path, options: list[str], model: str, updates: int = 0) -> Path:
    """Train a model; a run that was interrupted goes on."""
    kind = SCALES[args.scale].models[model]
    updates = round((updates or args.updates) * kind.updates)
    if not (save / "done").exists():
        precision = ["--autocast-bf16"] * args.in_bf16
        chosen = [*kind.options.split(), *options]
        numbers = {"updates": updates, "interval": max(1, updates // 6)}
        chosen = [part.format(**numbers) if isinstance(part, str) else part for part in chosen]
        save.mkdir(parents=True, exist_ok=True)
        where = ["--save-dir", save, "--log-file", save / "train.log"]
        run("fairseq-train", data, *PLUGIN, *TRAINING, *chosen, *precision, *where)
        (save / "done").touch()
    return save / CHECKPOINT


if __name__ == "__main__":
    main()
