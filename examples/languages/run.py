"""Train tied and GroC on a text in any language; score it and others with the union vocabulary, with and without a local cache.

    python examples/languages/run.py --train FILE --valid FILE --test FILE --lexicon LEXICON --workdir DIR

GroC has its spellings alone, in bytes and in characters, or relations and definitions of the lexicon besides. Texts are raw, in
the language that --tokenize says, or tokens. Of each text of --other the first half is for tuning, the second is scored.
Everything is done by commands of fairseq and of the package; what is done is skipped when it runs again. DIR/results.json has
the figures.
"""

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "examples" / "adaptation"))

from language_tables import table  # noqa: E402
from lexicon_coverage import clean  # noqa: E402
from rows import score, slug, ways  # noqa: E402
from texts import head, write  # noqa: E402

from fairseq_groc.dictionary import load_dictionary, real_words  # noqa: E402
from fairseq_groc.evaluation.results import machine, write_json  # noqa: E402
from fairseq_groc.evaluation.training_log import read_parameters  # noqa: E402
from fairseq_groc.lexicon.tables_file import load_tables  # noqa: E402
from fairseq_groc.programs import BIN, MEMORY, PLUGIN, check_settings, held, run  # noqa: E402

SAMPLED = "--sampled-update-fraction 0.05 --refresh-interval 20"
TIED = "--arch groc_lstm_lm_small --output-head tied"
GROC = f"--arch groc_lstm_lm_small_corrected {SAMPLED} --lexicon-parts"
TRAINING = (
    "--dropout 0.3 --dropout-in 0.3 --batch-size 16 --tokens-per-sample 35 --optimizer adam --clip-norm 0.25 "
    "--lr-scheduler polynomial_decay --warmup-updates 100 --criterion chunked_cross_entropy --disable-validation "
    "--no-epoch-checkpoints --num-workers 0 --log-format simple --log-interval 50"
).split()
RATES = {"tied": ("0.003", "0.006"), "GroC": ("0.004",)}  # tuning chooses
SIZES = "--weights 0.03 0.1 0.2 0.3 0.5 --thetas 0 0.3 1 3 --sizes 5000"  # of the local cache


class Model(NamedTuple):
    """A model of the comparison.

    Args:
        options: of fairseq-train
        lexicon: of the data that it is trained on
    """

    options: str
    lexicon: str = "none"

    @property
    def rates(self) -> tuple[str, ...]:
        return RATES["tied" if self.options == TIED else "GroC"]


def models_of(lexicon: str, glosses: bool) -> dict[str, Model]:
    """Return the models by name.

    Args:
        lexicon: as ``--lexicon-path`` has it
        glosses: whether it has definitions
    """
    models = {
        "tied": Model(TIED),
        "GroC, spellings": Model(f"{GROC} none"),
        "GroC, spellings in characters": Model(f"{GROC} none --spelling-units characters"),
        "GroC, relations": Model(f"{GROC} relations", lexicon),
    }
    if glosses:
        models["GroC, relations and definitions"] = Model(f"{GROC} both", lexicon)
    if lexicon.startswith(("omw:", "wn:")):
        models["GroC, relations by dictionary forms"] = Model(f"{GROC} relations", f"lemmas:{lexicon}")
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for split in ("train", "valid", "test"):
        parser.add_argument(f"--{split}", type=Path, required=True, metavar="FILE")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=FILE", help="another text; may be repeated")
    parser.add_argument("--tokenize", metavar="LANG", help="all texts are raw: tokenise and lower-case them")
    parser.add_argument("--tokenize-others", metavar="LANG", help="those of --other alone are")
    parser.add_argument("--lexicon", required=True, help="as --lexicon-path has it")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=1200, help="of each model (%(default)s)")
    parser.add_argument("--train-tokens", type=int, default=400_000, help="0: all (%(default)s)")
    parser.add_argument("--valid-tokens", type=int, default=15_000, help="of every text; 0: all (%(default)s)")
    parser.add_argument("--test-tokens", type=int, default=30_000, help="of every text; 0: all (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of training (%(default)s)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="of these alone; default: all")
    args = parser.parse_args()
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    with held(args.workdir):
        kept = {name: str(value) for name, value in sorted(vars(args).items()) if name not in ("workdir", "models")}
        check_settings(args.workdir, {**kept, "recipe": str([TIED, GROC, TRAINING, RATES, SIZES])})
        print(table(experiment(args)), flush=True)


def experiment(args: argparse.Namespace) -> dict[str, Any]:
    """Train and score what is not done yet; return and write all figures."""
    texts = texts_of(args)
    source = source_of(args, args.lexicon, texts)
    models = models_of(args.lexicon, covered(source)["types with definitions"] > 0)
    if unknown := set(args.models or ()) - models.keys():
        sys.exit(f"error: --models {', '.join(sorted(unknown))}: expected some of {', '.join(models)}")
    results: dict[str, Any] = {
        "updates": args.updates,
        "seed": args.seed,
        "lexicon": Path(args.lexicon).name,
        "machine": machine(),
    }
    results |= {"coverage": {}, "rates": {}, "parameters": {}, "rows": {}}
    for name in args.models or models:
        rows_of(args, name, models[name], texts, results)
        write_json(args.workdir / "results.json", results)
    return results


def source_of(args: argparse.Namespace, lexicon: str, texts: dict[str, dict[str, Path]]) -> Path:
    """Return the folder of the training text with a lexicon's tables, which is made where it is missing."""
    source = args.workdir / "data" / re.sub(r"\W+", "-", lexicon) / "source"
    preprocess(source, lexicon, *(part for split, path in texts["in-domain"].items() for part in (f"--{split}", path)))
    return source


def texts_of(args: argparse.Namespace) -> dict[str, dict[str, Path]]:
    """Return the texts of every domain as tokens: train, valid, test; the first is where models are trained."""
    limits = {"train": args.train_tokens, "valid": args.valid_tokens, "test": args.test_tokens}

    def written(name: str, split: str, lines: list[str], language: str | None) -> Path:
        path = args.workdir / "texts" / f"{slug(name)}.{split}"
        if path.exists():
            return path
        return write(path, head(list(filter(str.strip, map(clean(language), lines))), limits[split]))

    def lines(path: Path) -> list[str]:
        return path.read_text(encoding="utf-8").splitlines()

    found = {"in-domain": {split: written("in-domain", split, lines(getattr(args, split)), args.tokenize) for split in limits}}
    for pair in args.other:
        name, _, path = pair.partition("=")
        text, language = lines(Path(path)), args.tokenize or args.tokenize_others
        halves = {"valid": text[: len(text) // 2], "test": text[len(text) // 2 :]}
        found[name] = {split: written(name, split, half, language) for split, half in halves.items()}
    return found


def rows_of(
    args: argparse.Namespace, name: str, model: Model, texts: dict[str, dict[str, Path]], results: dict[str, Any]
) -> None:
    """Train a model at every rate, score all texts in every way with the best one, and add the figures."""
    source = source_of(args, model.lexicon, texts)
    unions = {text: source.parent / f"union-{slug(text)}" for text in texts}
    for text, union in unions.items():
        splits = ["--valid", texts[text]["valid"], "--test", texts[text]["test"]]
        preprocess(union, model.lexicon, "--vocabulary-from", source, *splits)
    if model.lexicon != "none":
        known = len(load_dictionary(source / "dict.txt"))
        new = {f"new words, {text}": covered(union, known) for text, union in unions.items()}
        results["coverage"][name] = {"training text": covered(source), **new}
    tuned = ways("tied" if model.options == TIED else name, ("none", "local"), SIZES)
    scored = args.workdir / "scores" / slug(name)
    saves, tried = {rate: train(args, source, name, model, rate) for rate in model.rates}, {}
    for rate, save in saves.items():
        score(scored / f"lr{rate}", unions["in-domain"], save / "checkpoint_last.pt", tuned["none"][1])
        grid = json.loads((scored / f"lr{rate}" / f"{unions['in-domain'].name}-grid.json").read_text())
        tried[rate] = grid["best"]["perplexity"]
    best = min(tried, key=lambda rate: tried[rate])
    results["rates"][name] = tried
    results["parameters"][name] = read_parameters((saves[best] / "train.log").read_text())
    checkpoint = saves[best] / "checkpoint_last.pt"
    results["rows"][name] = {
        cache: {text: score(scored / f"lr{best}-{cache}", union, checkpoint, tuned[cache][1]) for text, union in unions.items()}
        for cache in ("none", "local")
    }


def preprocess(dest: Path, lexicon: str, *options: Any) -> None:
    if not (dest / "binarised.json").exists():  # it is written last
        run(ROOT / "scripts" / "preprocess.sh", *options, "--lexicon-path", lexicon, "--dest", dest)


def covered(data: Path, first: int = 0) -> dict[str, float]:
    """Return how many words a folder's dictionary has, and the shares of types and tokens that its tables have parts of.

    Args:
        first: entry of the dictionary from which on they are counted
    """
    dictionary = load_dictionary(data / "dict.txt")
    tables, counts = load_tables(data, dictionary.symbols), np.array(dictionary.count)
    words = [place for place, is_word in enumerate(real_words(dictionary.symbols)) if is_word and place >= first]
    found: dict[str, float] = {"types": len(words)}
    for part, offsets in (("relations", tables.relation_offsets), ("definitions", tables.definition_offsets)):
        has = np.diff(offsets)[words] > 0
        found[f"types with {part}"] = float(has.mean()) if words else 0.0
        found[f"tokens with {part}"] = float(counts[words] @ has / max(1, counts[words].sum()))
    return found


def train(args: argparse.Namespace, data: Path, name: str, model: Model, rate: str) -> Path:
    """Train a model, unless it is done; return the folder of its checkpoint."""
    save = args.workdir / "models" / f"{slug(name)}-lr{rate}"
    if not (save / "done").exists():
        shutil.rmtree(save, ignore_errors=True)
        save.mkdir(parents=True)
        updates = ["--max-update", args.updates, "--total-num-update", args.updates, "--lr", rate, "--seed", args.seed]
        where = ["--save-dir", save, "--log-file", save / "train.log"]
        run("fairseq-train", data, *PLUGIN, *model.options.split(), *TRAINING, *updates, *where)
        (save / "done").touch()
    return save


if __name__ == "__main__":
    main()
