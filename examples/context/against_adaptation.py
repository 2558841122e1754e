"""To know a text's source, or to adapt to it: the models of ``run.py heads`` on texts of several sources, one of them at a time.

    python examples/context/against_adaptation.py --texts TEXTS/domains --workdir context --sources science rural --seeds 1 2 3

Validation lines of the source choose every setting, and its test lines are read as one running text. What is done is skipped;
WORKDIR/against-adaptation.json has what the table is made from.
"""

import argparse
import itertools
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

from context_tables import against_adaptation
from run import EXPERIMENTS, TEXTS, TRAINING, options_of

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.append(str(EXAMPLES / "adaptation"))

from rows import mass, score, slug  # noqa: E402

from fairseq_groc.__main__ import in_process  # noqa: E402
from fairseq_groc.data.text import read_lines  # noqa: E402
from fairseq_groc.evaluation.results import machine, write_json  # noqa: E402
from fairseq_groc.programs import BIN, PLUGIN, ROOT, held, run  # noqa: E402

HEAD = "GroC + corrections"
NONE = ["--cache", "none", *mass(HEAD)]
LOCAL = ["--cache", "local", *mass(HEAD), *"--weights 0.03 0.1 0.2 0.3 --thetas 0 1 3 --sizes 5000".split()]
FINETUNING = "--lr 0.001 --warmup-updates 10 --draw-new-rows"


class Way(NamedTuple):
    """A way to read a text.

    Args:
        model: a row of ``run.py heads``, without its head
        options: that are tuned
        learning: what learns while it reads, and at which rates; the rest of the model stays
        known: whether the model is told the source
        finetuned: whether it was trained on lines of the source before
    """

    model: str
    options: list[Any]
    learning: tuple[str, str] | None = None
    known: bool = True
    finetuned: bool = False


WAYS = {
    "as trained": Way("Unadapted", NONE),
    "local cache": Way("Unadapted", LOCAL),
    "dynamic evaluation": Way("Unadapted", NONE, ("all", "3e-5 1e-4")),
    "finetuned": Way("Unadapted", NONE, finetuned=True),
    "told its source": Way("FactorCell", NONE),
    "told its source, local cache": Way("FactorCell", LOCAL),
    "not told it": Way("FactorCell", NONE, known=False),
    "not told it, learns the context's vector": Way("FactorCell", NONE, ("context", "0.003 0.01"), known=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="from texts.py domains")
    parser.add_argument("--workdir", type=Path, required=True, help="that of run.py heads")
    parser.add_argument("--sources", nargs="+", required=True, help="of --texts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the models")
    parser.add_argument("--updates", type=int, default=TEXTS["domains"].updates, help="of run.py heads (%(default)s)")
    parser.add_argument("--finetune-updates", type=int, default=100)
    args = parser.parse_args()
    missing = [path for way in WAYS.values() for seed in args.seeds if not (path := checkpoint(args, way.model, seed)).exists()]
    if missing:
        parser.error(f"{missing[0]} is not there: run run.py heads --texts {args.texts} --workdir {args.workdir} first")
    rows: dict[str, dict[str, Any]] = {}
    for seed, source, (name, way) in itertools.product(args.seeds, args.sources, WAYS.items()):
        found = rows.setdefault(name, {}).setdefault(source, {})
        found[str(seed)] = figures(args, source, name, way, seed)
        print(f"seed {seed}, {source}, {name}: {found[str(seed)]['all']['perplexity']:.1f}", flush=True)
    write_json(args.workdir / "against-adaptation.json", {"machine": machine(), "rows": rows})
    print("\n".join(against_adaptation(rows)))


def checkpoint(args: argparse.Namespace, model: str, seed: int) -> Path:
    folder = f"heads {HEAD}, {model} {args.updates} {seed}".replace(" ", "-").replace(",", "")
    return args.workdir / "domains-open" / folder / "checkpoint_best.pt"


def figures(args: argparse.Namespace, source: str, name: str, way: Way, seed: int) -> dict[str, Any]:
    """Return what a source's test lines cost a model of a seed, read in a way."""
    work, path = args.workdir / "against-adaptation" / f"seed-{seed}", checkpoint(args, way.model, seed)
    data = data_of(args, source, ("valid", "test"), source if way.known else "")
    if way.finetuned:
        lines = data_of(args, source, ("train", "valid"), None)
        path = finetune(args, work / f"{source}-finetuned", lines, path, way.model, seed)
    learning = [] if way.learning is None else learning_of(args, path, work / "statistics" / way.model, *way.learning)
    return score(work / slug(name), data, path, way.options, learning)


def learning_of(args: argparse.Namespace, path: Path, made: Path, part: str, rates: str) -> list[Any]:
    """Return the options of dynamic evaluation; the statistics that it needs are made."""
    learns = ["--dynamic-parameters", part]
    if not list(made.glob(f"*-{part}.safetensors")):
        words = args.workdir / "data" / "domains-open"
        in_process("gradient-statistics", "--path", path, "--data", words, *learns, "--dest", made)
    return ["--dynamic-rates", *rates.split(), *learns, "--dynamic-statistics", made]


def data_of(args: argparse.Namespace, source: str, splits: tuple[str, ...], told: str | None) -> Path:
    """Binarise the lines of a source, over the vocabulary of all.

    Args:
        told: the context of each line; None: the data have none
    """
    dest = args.workdir / "against-adaptation" / "data" / slug(f"{source} {' '.join(splits)} {told}")
    words = args.workdir / "data" / "domains-open"
    with held(dest):
        if not (dest / "binarised.json").exists():
            given: list[Any] = []
            for split in splits:
                text, values = (args.texts / f"{split}.{suffix}" for suffix in ("txt", "tsv"))
                header, *sources = read_lines(values)
                lines = [line for line, own in zip(read_lines(text), sources, strict=True) if own == source]
                if not lines:
                    sys.exit(f"{values} has no {source}")
                text, values = (dest.parent / "text" / f"{dest.name}-{split}.{suffix}" for suffix in ("txt", "tsv"))
                text.parent.mkdir(parents=True, exist_ok=True)
                text.write_text("".join(f"{line}\n" for line in lines))
                values.write_text("\n".join([header, *[told or ""] * len(lines)]) + "\n")
                given += [f"--{split}", text, *([] if told is None else [f"--context-{split}", values])]
            run(ROOT / "scripts" / "preprocess.sh", *given, "--vocabulary", words / "dict.txt", "--known", words, "--dest", dest)
    return dest


def finetune(args: argparse.Namespace, save: Path, data: Path, path: Path, model: str, seed: int) -> Path:
    """Train a model on lines of the source."""
    if not (save / "done").exists():
        save.mkdir(parents=True, exist_ok=True)
        recipe = TRAINING.format(updates=args.finetune_updates, interval=max(1, args.finetune_updates // 5))
        row = options_of(TEXTS["domains"], EXPERIMENTS["heads"][f"{HEAD}, {model}"])
        options = shlex.split(f"{recipe} {row} {FINETUNING}")
        more = ["--finetune-from-model", path, "--seed", seed, "--save-dir", save]
        run(BIN / "fairseq-train", data, *PLUGIN, *options, *more, log=save / "train.log")
        (save / "done").touch()
    return save / "checkpoint_best.pt"


if __name__ == "__main__":
    main()
