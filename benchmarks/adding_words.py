"""What does it cost to add words to a GroC model in use, against encoding all of its words?

    python benchmarks/adding_words.py [--sizes 10000 100000]

The small preset's sizes, random parameters, made-up words of 3 to 12 letters without lexicon entries; one process.
"""

import argparse
import random
import statistics
import time
from argparse import Namespace

import torch
from fairseq.data import Dictionary

from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.evaluation.results import machine
from fairseq_groc.models.attaching import attach_head
from fairseq_groc.models.building import ngram_widths
from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder
from fairseq_groc.options import SHARED_OPTIONS, HeadConfig, head_settings
from fairseq_groc.presets import PRESETS

ADDED = (1, 10, 100, 1000)
ROUNDS = 5


def made_up(count: int, random_: random.Random) -> list:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(random_.choices(letters, k=random_.randint(3, 12))) + str(i) for i in range(count)]


def decoder_of(words: list):
    options = PRESETS["groc_lstm_lm_small"].options
    settings = head_settings(HeadConfig(**{key: value for key, value in options.items() if key in SHARED_OPTIONS}))
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    decoder = GrocLSTMDecoder(dictionary, Namespace(**options))
    attach_head(decoder, settings, Vocabulary.of_words(dictionary.symbols, ngram_widths(settings)), options["init_range"])
    return decoder.eval()


def milliseconds(function, *arguments) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return (time.perf_counter() - begin) * 1000


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    args = parser.parse_args()
    print(f"{machine()}; ms, median of {ROUNDS}")
    print(f"{'V':>8} {'all words':>10}" + "".join(f"{f'add {count:,}':>12}" for count in ADDED))
    for size in args.sizes:
        random_ = random.Random(1)
        decoder = decoder_of(made_up(size, random_))
        whole = milliseconds(decoder.matrices)
        decoder.add_words(made_up(8, random_))  # the first addition makes room
        cells = []
        for count in ADDED:
            times = [milliseconds(decoder.add_words, made_up(count, random.Random(size + count + i))) for i in range(ROUNDS)]
            cells.append(statistics.median(times))
        print(f"{size:>8,} {whole:>10,.0f}" + "".join(f"{cell:>12,.1f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
