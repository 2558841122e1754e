"""Words that are composed against byte pairs: train both for the same time, and compare what a text costs in bits per byte.

    python examples/subwords/run.py --texts FOLDER --domain NAME=PATH ... --workdir DIR

FOLDER has train.txt, valid.txt and test.txt, tokenised and lower-cased; each PATH is another such folder, a raw text, or a folder
of raw texts. Everything is done by commands of fairseq and of the package; what is done is skipped when it runs again.
WORKDIR/results.json has the figures.
"""

import argparse
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES / "adaptation"))

from models import BLOCK, TRAINING, WORDS, Model, models  # noqa: E402
from pieces import cut, learn, write_dictionary  # noqa: E402
from rows import flags, slug  # noqa: E402
from subword_tables import markdown  # noqa: E402
from texts import domain_texts  # noqa: E402

from fairseq_groc.__main__ import in_process  # noqa: E402
from fairseq_groc.evaluation.results import machine, write_json  # noqa: E402
from fairseq_groc.evaluation.training_log import read_curves, read_parameters  # noqa: E402
from fairseq_groc.pieces import BEGINS  # noqa: E402
from fairseq_groc.programs import BIN, MEMORY, PLUGIN, ROOT, check_settings, held, run  # noqa: E402

UNIFORM = ("0.01", "0.03", "0.1", "0.2")  # weights that are tried; the grid grows at its edges
DISCOUNTS = ("0.1", "0.3", "1", "3")  # of new words, where the vocabulary has them
SCORED_BLOCK = 100
START = 5  # updates that are no part of what an update is measured to cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True, help="where the models are trained")
    parser.add_argument("--domain", action="append", default=[], metavar="NAME=PATH", help="another text, may be repeated")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300, help="of a core that each training takes (%(default)s)")
    parser.add_argument("--measured-updates", type=int, default=100, help="that say what one costs (%(default)s)")
    parser.add_argument("--pieces", type=int, nargs="+", default=[2_000, 10_000], help="sizes of vocabularies (%(default)s)")
    parser.add_argument("--transformer", action="store_true", help="fairseq's transformer_lm on pieces, too")
    parser.add_argument("--learning-rates", nargs="+", metavar="RATE", help="in place of each model's two")
    parser.add_argument("--train-tokens", type=int, default=400_000, help="words of the training text; 0: all")
    parser.add_argument("--valid-tokens", type=int, default=10_000, help="of every domain; 0: all")
    parser.add_argument("--test-tokens", type=int, default=20_000, help="of every domain; 0: all")
    args = parser.parse_args()
    # one thread: then the time of a core is that of the program, whatever runs beside it
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"})
    with held(args.workdir):
        others = ("workdir", "transformer", "pieces")  # by which models may be added
        check_settings(args.workdir, {name: str(value) for name, value in sorted(vars(args).items()) if name not in others})
        results = experiment(args)
    write_json(args.workdir / "results.json", results)
    print(markdown(results))


def experiment(args) -> dict[str, Any]:
    """Make the data, train all models, score all texts; return the figures."""
    texts = domain_texts(args)
    trained: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}
    for model in models(args.pieces, args.transformer):
        folders, ratio = data_of(args.workdir, model.vocabulary, texts)
        trained[model.label] = found = training(args, model, folders["training"], ratio)
        for domain, parts in texts.items():
            for way in ("union", "open") if model.vocabulary == WORDS else ("",):
                row = f"{model.label}, {way} vocabulary" if way else model.label
                rows.setdefault(row, {})[domain] = score(
                    args.workdir, model, found["checkpoint"], folders, domain, parts, texts, way
                )
    for found in trained.values():
        del found["checkpoint"]
    about = {"machine": machine(), "command": command_of(args), "seconds": args.seconds, "domains": list(texts)}
    return about | {"models": trained, "rows": rows}


def command_of(args) -> str:
    """Return the command with the names of files and folders in place of where they are."""
    domains = [pair.split("=", 1) for pair in args.domain]
    options = ["--texts TEXTS", *(f"--domain {name}={Path(path).name}" for name, path in domains)]
    options += [f"--seconds {args.seconds:g}", "--pieces " + " ".join(map(str, args.pieces))]
    options += ["--transformer"] if args.transformer else []
    options += ["--learning-rates " + " ".join(args.learning_rates)] if args.learning_rates else []
    options += [f"--{name}-tokens {getattr(args, f'{name}_tokens')}" for name in ("train", "valid", "test")]
    return " ".join(["python examples/subwords/run.py", *options, "--workdir DIR"])


# -- data --------------------------------------------------------------------------------------------------------------------


def data_of(workdir: Path, vocabulary: str, texts: dict[str, dict[str, Path]]) -> tuple[dict[str, Path], float]:
    """Return the folders of binarised texts, "training" and those of the domains, and how many tokens a word of training is."""
    work, first = workdir / "data" / vocabulary, next(iter(texts))
    own, options = texts, []
    if vocabulary != WORDS:
        own = in_pieces(work, int(vocabulary), texts)
        options = ["--vocabulary", work / "dict.txt", "--piece-marks", BEGINS]
    folders = {"training": binarise(work / "training", [*options, "--train", own[first]["train"]], own[first])}
    for domain, parts in own.items():
        folders[domain] = binarise(work / domain, ["--vocabulary-from", folders["training"]], parts)
    sizes = [
        sum(len(line.split()) for line in open(path, encoding="utf-8")) for path in (own[first]["train"], texts[first]["train"])
    ]
    return folders, sizes[0] / sizes[1]


def in_pieces(work: Path, size: int, texts: dict[str, dict[str, Path]]) -> dict[str, dict[str, Path]]:
    """Return the texts cut into so many pieces, which are learned from the training text."""
    first, model = next(iter(texts)), work / "bpe.model"
    own = {name: {split: work / "text" / f"{name}.{split}" for split in parts} for name, parts in texts.items()}
    if not (work / "dict.txt").exists():  # it is written last
        work.mkdir(parents=True, exist_ok=True)
        learn(texts[first]["train"], model, size)
        cut(model, ((texts[name][split], path) for name, parts in own.items() for split, path in parts.items()))
        write_dictionary(model, own[first]["train"], work / "dict.txt")
    return own


def binarise(dest: Path, options: list, parts: dict[str, Path]) -> Path:
    if not (dest / "binarised.json").exists():
        run(ROOT / "scripts" / "preprocess.sh", *options, "--valid", parts["valid"], "--test", parts["test"], "--dest", dest)
    return dest


# -- training ----------------------------------------------------------------------------------------------------------------


def training(args, model: Model, data: Path, ratio: float) -> dict[str, Any]:
    """Train a model at every rate for the same time; return the best's checkpoint and what it took."""
    work = args.workdir / "models" / slug(model.label)
    block = model.block or round(BLOCK * ratio)
    options = [*model.options.split(), "--tokens-per-sample", block]
    cost = cost_of_update(args, work, data, [*options, "--lr", model.rates[0]])
    updates = max(1, round(args.seconds / cost))
    runs = {
        rate: train(work / f"lr{rate}", data, [*options, "--lr", rate], updates) for rate in args.learning_rates or model.rates
    }
    perplexities = {rate: min(p for _, p in read_curves(run / "train.log")["valid"]) for rate, run in runs.items()}
    best = runs[min(perplexities, key=lambda rate: perplexities[rate])]
    about = {"checkpoint": best / "checkpoint_best.pt", "parameters": read_parameters((best / "train.log").read_text())}
    about |= {"updates": updates, "seconds an update": cost, "tokens a word": ratio, "tokens in a block": block}
    return about | {"validation perplexities": perplexities, "peak_gib": json.loads((best / "done.json").read_text())["peak_gib"]}


def cost_of_update(args, work: Path, data: Path, options: list) -> float:
    """Return the seconds of a core that an update takes: those of many updates more, beginning and saving not counted."""
    file = work / "measured.json"
    if not file.exists():
        spent = []
        for updates in (START, START + args.measured_updates):
            before = children_seconds()
            train(work / f"measured-{updates}", data, options, updates, "--disable-validation", "--no-save")
            spent.append(children_seconds() - before)
        if spent[1] <= spent[0]:
            sys.exit(f"{args.measured_updates} updates took no more time than none: give more --measured-updates")
        write_json(file, {"seconds": (spent[1] - spent[0]) / args.measured_updates, "updates": args.measured_updates})
    return json.loads(file.read_text())["seconds"]


def children_seconds() -> float:
    """Return the time of a core that the programs have taken which this one has run."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(save: Path, data: Path, options: list, updates: int, *more: str) -> Path:
    """Train a model; a run that was interrupted goes on. Return its folder."""
    if not (save / "done.json").exists():
        save.mkdir(parents=True, exist_ok=True)
        schedule = ["--max-update", updates, "--total-num-update", updates, "--warmup-updates", min(50, updates // 4)]
        schedule += ["--validate-interval-updates", max(1, updates // 6), "--save-dir", save, "--log-file", save / "train.log"]
        peak = run("fairseq-train", data, *PLUGIN, *TRAINING.split(), *options, *schedule, *more)
        write_json(save / "done.json", {"peak_gib": peak})
    return save


# -- scoring -----------------------------------------------------------------------------------------------------------------


def score(workdir: Path, model: Model, checkpoint: Path, folders, domain: str, parts, texts, way: str) -> dict[str, Any]:
    """Return what a domain's test text costs a model, with what its validation text has chosen.

    Args:
        way: of words, "union": the vocabulary has the text's words beforehand; "open": words enter it when they are met
    """
    work = workdir / "scores" / slug(model.label)
    grid, report = work / f"{domain}-grid.json", work / f"{domain}{way}.json"
    block = model.block or SCORED_BLOCK
    common = ["--path", checkpoint, "--tokens-per-sample", block]
    work.mkdir(parents=True, exist_ok=True)
    if not grid.exists():
        tried = ["--uniform", *UNIFORM] if model.vocabulary == WORDS and model.head == "tied" else ["--uniform", 0, *UNIFORM]
        tried += ["--discounts", *DISCOUNTS] if model.vocabulary == WORDS and model.head != "tied" else []
        in_process("tune", *common, "--data", folders[domain], "--cache", "none", *tried, "--no-store", "--out", grid)
    best = {name: value for name, value in json.loads(grid.read_text())["best"].items() if name != "perplexity"}
    if way == "open":  # words that have been met are no longer new
        best = {"uniform_weight": best["uniform_weight"]}
    if not report.exists():
        how = {"open": ["--open-vocabulary"], "union": [], "": ["--pieces"]}[way]
        data = folders["training" if way == "open" else domain]
        known = next(iter(texts.values()))["train"]
        script = [sys.executable, Path(__file__).with_name("bits.py"), *common, "--data", data, *how, *flags(best)]
        peak = run(*script, "--raw", parts["test"], "--known", known, "--out", report.with_suffix(".part"))
        found = json.loads(report.with_suffix(".part").read_text())
        write_json(report, {**found, "peak_gib": peak, "settings": best})
        report.with_suffix(".part").unlink()
    return json.loads(report.read_text())


if __name__ == "__main__":
    main()
