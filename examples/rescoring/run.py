"""Rescore made-up hypotheses by an n-gram, by models, and by each model with the n-gram beside it: word error rates.

    python examples/rescoring/run.py --lines test.txt --data DATA --train TRAIN --models tied=CHECKPOINT --workdir rescoring

DATA is a folder of binarised text whose vocabulary has all words of the lines; weights of mixtures are tuned on its validation
text. The n-gram counts the training text of the folder TRAIN. Hypotheses are the lines with words replaced by others that are
spelled alike, left out or doubled; their acoustic scores are the distance in characters from what was said, with noise. Weights
of the scores are tuned on every other utterance, error rates are those of the others.
"""

import argparse
import json
import os
import random
import sys
from pathlib import Path

import jiwer
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

sys.path.append(str(Path(__file__).resolve().parents[1] / "adaptation"))

from rows import flags

from fairseq_groc.__main__ import in_process
from fairseq_groc.data.fingerprint import folder_dictionary
from fairseq_groc.evaluation.results import machine, write_json
from fairseq_groc.programs import BIN, MEMORY, check_settings, held

LENGTHS = range(6, 26)  # of utterances, in words
ALIKE = 8  # words that a word may be taken for
ALONE = 0.999  # weight of an n-gram beside which a model says next to nothing
WEIGHTS, UNIFORM = (0.1, 0.3, 0.5, 0.7), (0.01, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, required=True, help="text, tokenised as that of DATA")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=CHECKPOINT")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--hypotheses", type=int, default=10, help="of each, what was said among them")
    parser.add_argument("--noise", type=float, default=8.0, help="standard deviation of an acoustic score, in characters")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    with held(args.workdir):
        check_settings(args.workdir, {name: str(getattr(args, name)) for name in ("data", "train", "models")})
        said, heard = make_list(args)
        results = {"acoustic score alone": errors(said, {name: max(of, key=of.__getitem__) for name, of in heard.items()})}
        results |= {label: rescored(args, said, path, options) for label, path, options in ways(args)}
    about = {"utterances": args.utterances, "hypotheses": args.hypotheses, "noise": args.noise, "seed": args.seed}
    write_json(args.workdir / "rescoring.json", {**about, "machine": machine(), "rows": results})
    for label, rate in results.items():
        print(f"{label}: {rate:.1%}")


def make_list(args) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    """Write the list and the references; return by utterance what was said, and the acoustic score of each hypothesis."""
    draw, dictionary = random.Random(args.seed), folder_dictionary(args.data)
    words = [word for word in dictionary.symbols[dictionary.nspecial :] if word.isalpha()]
    lines = [line for line in args.lines.read_text().splitlines() if len(line.split()) in LENGTHS]
    if len(lines) < args.utterances:
        raise SystemExit(f"{args.lines}: {len(lines)} lines have {LENGTHS[0]} to {LENGTHS[-1]} words, expected {args.utterances}")
    said = {f"u{number}": line for number, line in enumerate(draw.sample(lines, args.utterances))}
    alike: dict[str, list[str]] = {}
    heard: dict[str, dict[str, float]] = {}
    for name, line in said.items():
        hypotheses = {line: None}
        while len(hypotheses) < args.hypotheses:
            hypotheses[misheard(line.split(), words, alike, draw)] = None
        order = draw.sample(list(hypotheses), len(hypotheses))
        heard[name] = {text: round(draw.gauss(0, args.noise) - Levenshtein.distance(line, text), 3) for text in order}
    rows = [f"{name}\t{score:.3f}\t{text}\n" for name, of in heard.items() for text, score in of.items()]
    (args.workdir / "list.tsv").write_text("id\tacoustic\ttext\n" + "".join(rows))
    (args.workdir / "said.tsv").write_text("".join(f"{name}\t{line}\n" for name, line in said.items()))
    (args.workdir / "tuned.txt").write_text("".join(f"{name}\n" for name in list(said)[::2]))
    return said, heard


def misheard(words: list[str], vocabulary: list[str], alike: dict[str, list[str]], draw: random.Random) -> str:
    """Return an utterance with one to three words that are replaced by others spelled alike, left out or doubled.

    Args:
        alike: of words, those that are; more are added
    """
    heard = list(words)
    for _ in range(draw.randint(1, 3)):
        place, way = draw.randrange(len(heard)), draw.random()
        word = heard[place]
        if way < 0.8:
            if word not in alike:
                found = process.extract(word, vocabulary, scorer=Levenshtein.distance, limit=ALIKE + 1)
                alike[word] = [other for other, *_ in found if other != word]
            heard[place] = draw.choice(alike[word])
        elif way < 0.9 and len(heard) > 1:
            del heard[place]
        else:
            heard.insert(place, word)
    return " ".join(heard)


def ways(args) -> list[tuple[str, str, list]]:
    """Return the label of every row, the checkpoint and the adapters' options."""
    folder = args.workdir / "ngram"
    if not folder.exists():
        in_process("ngram", "--data", args.train, "--dest", folder)
    beside = ["--ngram-path", folder]
    models = dict(pair.split("=", 1) for pair in args.models)
    found = [
        ("Kneser-Ney 4-gram", next(iter(models.values())), [*beside, "--ngram-weight", ALONE, "--uniform-weight", UNIFORM[0]])
    ]
    for name, path in models.items():
        found.append((name, path, tuned(args, name, path, ["--cache", "none"])))
        options = ["--cache", "ngram", *beside, "--weights", *WEIGHTS]
        found.append((f"{name} + Kneser-Ney 4-gram", path, [*tuned(args, f"{name}-ngram", path, options), *beside]))
    return found


def tuned(args, name: str, path: str, options: list) -> list:
    """Return the best settings on the validation text as they are typed."""
    out = args.workdir / f"{name.replace(' ', '')}-grid.json"
    common = ["--path", path, "--data", args.data, "--tokens-per-sample", 100, "--no-store", "--out", out]
    if not out.exists():
        in_process("tune", *common, *options, "--uniform", *UNIFORM)
    best = json.loads(out.read_text())["best"]
    return flags({name: value for name, value in best.items() if name != "perplexity"})


def rescored(args, said: dict[str, str], path: str, options: list) -> float:
    """Return the word error rate of the best hypotheses."""
    out = args.workdir / "best.tsv"
    common = ["--path", path, "--data", args.data, "--tune", args.workdir / "said.tsv", "--tune-ids", args.workdir / "tuned.txt"]
    in_process("rescore", args.workdir / "list.tsv", *common, *options, "--out", out)
    return errors(said, dict(line.split("\t") for line in out.read_text().splitlines()))


def errors(said: dict[str, str], chosen: dict[str, str]) -> float:
    """Return the word error rate of the utterances that weights were not tuned on."""
    others = list(said)[1::2]
    rate: float = jiwer.wer([said[name] for name in others], [chosen[name] for name in others])
    return rate


if __name__ == "__main__":
    main()
