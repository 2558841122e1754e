"""What a text costs a model, in bits: of words that the training text has, of new words, and of line ends.

    python examples/subwords/bits.py --path CHECKPOINT --data DATA --raw FILE --known TRAIN --out JSON [--pieces]

FILE has the lines of the split test as words, TRAIN the training text. With --pieces the data are pieces of these words, whose
bits add up to the word's. With --open-vocabulary words that DATA lacks enter the vocabulary when they are met.
The text is read as one, at the size of blocks of --tokens-per-sample. All options of adapters may be given.
"""

import argparse
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fairseq_groc.arguments import add_adapter_arguments, add_model
from fairseq_groc.dictionary import EOS
from fairseq_groc.evaluation.loading import data_lexicon, load_as, open_split
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.open_vocabulary.masses import ADAPTIVE, mass_of
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer
from fairseq_groc.pieces import BEGINS

Costs = list[tuple[list[float], float]]  # of each line: nats of its words, and of its end


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_model(parser)
    parser.add_argument("--raw", type=Path, required=True, help="the lines as words")
    parser.add_argument("--known", type=Path, required=True, help="training text: its words are known")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens-per-sample", type=int, default=100)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--pieces", action="store_true", help="the data are pieces of the words")
    how.add_argument("--open-vocabulary", action="store_true", help="words enter the vocabulary when they are met")
    add_adapter_arguments(parser)
    args = parser.parse_args(arguments)
    lines = args.raw.read_text(encoding="utf-8").splitlines()
    costs, tokens, seconds = in_open_vocabulary(args, lines) if args.open_vocabulary else of_data(args, lines)
    report = summed(lines, costs, set(args.known.read_text(encoding="utf-8").split()))
    write_json(args.out, report | {"tokens": tokens, "words_per_second": report["events"] / seconds})


def of_data(args: argparse.Namespace, lines: list[str]) -> tuple[Costs, int, float]:
    """Return the costs of the split test as it was binarised, its tokens, and the seconds of scoring."""
    args.split = "test"
    hub, dataset = open_split(args)
    began = time.perf_counter()
    found = score(hub.models[0], dataset, Place(1, args.tokens_per_sample))
    seconds = time.perf_counter() - began
    targets, nats = found.targets.tolist(), (-found.adapted).double().tolist()
    symbols = hub.task.dictionary.symbols
    costs: Costs = []
    for line, (tokens, paid) in zip(lines, by_lines(targets, nats), strict=True):
        pieces = [symbols[token] for token in tokens]
        places = words_of(pieces) if args.pieces else ([place] for place in range(len(pieces)))
        words = [math.fsum(paid[place] for place in word) for word in places]
        if len(words) != len(line.split()) or hub.task.dictionary.unk() in tokens:
            raise SystemExit(f"{args.raw}: {line!r} is not the line {' '.join(pieces)!r} of {args.data}, or has <unk>")
        costs.append((words, paid[-1]))
    return costs, len(targets), seconds


def words_of(pieces: Iterable[str]) -> Iterator[list[int]]:
    """Yield, for each word of a line, the places of its pieces."""
    word: list[int] = []
    for place, piece in enumerate(pieces):
        if piece.startswith(BEGINS) and word:
            yield word
            word = []
        word.append(place)
    if word:
        yield word


def by_lines(targets: list[int], nats: list[float]) -> Iterator[tuple[list[int], list[float]]]:
    """Yield the tokens of each line without its end, and what they and the end cost."""
    begin = 0
    for place, token in enumerate(targets):
        if token == EOS:
            yield targets[begin:place], nats[begin : place + 1]
            begin = place + 1


def in_open_vocabulary(args: argparse.Namespace, lines: list[str]) -> tuple[Costs, int, float]:
    """Return the costs of lines whose words enter the vocabulary as they come, the tokens, and the seconds of scoring."""
    hub = load_as(args)
    model = hub.models[0]
    mass = mass_of(ADAPTIVE, model.decoder.dictionary, Path(args.data))
    lexicon = data_lexicon(model.decoder.origin, None)
    began = time.perf_counter()
    scorer = OpenVocabularyScorer(model, mass, lexicon, running=True, block=args.tokens_per_sample)
    paid = [[-nats for nats in scorer.score_tokens(line)] for line in lines]
    return [(line[:-1], line[-1]) for line in paid], sum(map(len, paid)), time.perf_counter() - began


def summed(lines: Iterable[str], costs: Costs, known: set[str]) -> dict[str, Any]:
    """Return the bits of all bytes, and of a known word, a new word and a line end each, with how many these are."""
    size, parts = 0, {"known": [0, 0.0], "new": [0, 0.0], "line end": [0, 0.0]}
    for line, (words, end) in zip(lines, costs, strict=True):
        size += len(line.encode()) + 1
        for name, nats in [
            *(("known" if w in known else "new", n) for w, n in zip(line.split(), words, strict=True)),
            ("line end", end),
        ]:
            parts[name][0] += 1
            parts[name][1] += nats
    bits = math.fsum(nats for _, nats in parts.values()) / math.log(2)
    report: dict[str, Any] = {"bytes": size, "bits_per_byte": bits / size, "events": sum(count for count, _ in parts.values())}
    for name, (count, nats) in parts.items():
        report[name] = {"count": count, "bits": nats / math.log(2) / count if count else None}
    return report


if __name__ == "__main__":
    main()
