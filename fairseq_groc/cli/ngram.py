"""Make an n-gram of a training text, with modified Kneser-Ney smoothing, to mix in beside a model (--ngram-weight)."""

import logging
import re
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_groc.adapters.arpa import END, save_arpa
from fairseq_groc.adapters.ngram_file import FILE, save_ngrams
from fairseq_groc.arguments import add_out, positive
from fairseq_groc.data.fingerprint import folder_dictionary
from fairseq_groc.data.stream_dataset import StreamDataset, open_text
from fairseq_groc.dictionary import real_words
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.report import NAMES, parts_of, perplexities
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.files import check_place, digest
from fairseq_groc.modules.kneser_ney import FALLBACK, NGrams, train

logger = logging.getLogger(__name__)
MOST = 10  # words of an n-gram


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder of binarised text")
    parser.add_argument("--split", default="train", help="text of --data that is counted")
    parser.add_argument("--order", type=positive, default=4, help=f"the most words of an n-gram, up to {MOST}")
    parser.add_argument("--dest", type=Path, required=True, help="folder to write to")
    parser.add_argument("--arpa", type=Path, metavar="FILE", help="also write an ARPA file")
    parser.add_argument("--score", nargs="+", default=[], metavar="DATA", help="folders whose texts it scores, too")
    add_out(parser, "JSON file for what it makes of each text", drawn=False)


def run(args: Namespace) -> None:
    if args.order > MOST:
        raise OptionError(f"--order {args.order}: expected 1 to {MOST}")
    if args.arpa:
        check_place("--arpa", args.arpa)
    folder = Path(args.data)
    dictionary = folder_dictionary(folder)
    text = read_text(folder, args.split, dictionary)
    dictionaries = {folder: dictionary, **{Path(other): folder_dictionary(Path(other)) for other in args.score}}
    places = [(of, split) for of in dictionaries for split in splits(of) if (of, split) != (folder, args.split)]
    texts = {place: read_text(*place, dictionaries[place[0]]) for place in places}
    args.dest.mkdir(parents=True, exist_ok=True)
    check_place("--dest", args.dest / FILE)
    began = time.perf_counter()
    entries, numbers = np.unique(text, return_inverse=True)
    words = [dictionary[entry] for entry in entries.tolist()]
    ngrams, rough = train(numbers, len(words), words.index(END), args.order)
    seconds = time.perf_counter() - began
    about = {"text": digest(folder / f"{args.split}.bin"), "tokens": len(text), "order": args.order}
    size = save_ngrams(args.dest, ngrams, words, about)
    if args.arpa:
        save_arpa(args.arpa, ngrams, words)
    if rough:
        lengths = ", ".join(map(str, rough))
        logger.warning(f"too few n-grams of {lengths} words to estimate their discounts: they have {FALLBACK}")
    of_text = f"{len(text):,} tokens, {sum(real_words(words)):,} words"
    print(f"{args.dest}: order {args.order}, {of_text}, {size:,} bytes, {seconds:.1f} seconds")
    found = {}
    for (of, split), other in texts.items():
        name = split if of == folder else str(of / split)
        made = found[name] = report(ngrams, words, other, dictionaries[of])
        whole = f"{made['all']['tokens']:,} tokens, perplexity {made['all']['perplexity']:,.2f} over {made['words']:,} words"
        new = f"{made['new']['tokens']:,} tokens are of words that it has not read, which share the uniform distribution"
        print(f"{name}: {whole}; {new}")
    if args.out:
        write_json(args.out, {**about, "texts": found})


def splits(folder: Path) -> list[str]:
    """Return the texts of a folder for validation and tests."""
    return sorted(path.stem for path in folder.glob("*.bin") if re.fullmatch(r"(valid|test)\d*", path.stem))


def read_text(folder: Path, split: str, dictionary: Any) -> NDArray[np.int64]:
    """Return the tokens of a text.

    Raises:
        DataError: missing or damaged.
    """
    lines = open_text(folder / split)
    return StreamDataset(lines, split, dictionary, independent_lines=False).text.astype(np.int64)


def report(ngrams: NGrams, words: list[str], text: NDArray[np.int64], dictionary: Any) -> dict[str, Any]:
    """Return perplexities of a text by the n-gram alone, over all words of a dictionary: of all tokens, known words and new ones.

    Words that it has not read share the uniform distribution.
    """
    index = {word: number for number, word in enumerate(words)}
    numbers = np.array([index.get(word, -1) for word in dictionary.symbols])
    possible = np.array(real_words(dictionary.symbols)) | (numbers >= 0)
    possible[text] = possible[dictionary.eos()] = True  # <unk>, if it is in a text
    spread, targets, end = int(possible.sum()), numbers[text], numbers[dictionary.eos()]
    histories = ngrams.histories(np.concatenate([[end], targets[:-1]]), np.full(ngrams.order - 1, -1))
    scores = torch.from_numpy(np.log(ngrams.probabilities(histories, targets, spread)))
    parts = parts_of(torch.from_numpy(text), torch.from_numpy(numbers >= 0))
    made = perplexities(scores, scores, parts, None)
    return {"words": spread, **{part: {key: made[part][key] for key in ("tokens", "perplexity")} for part in NAMES}}
