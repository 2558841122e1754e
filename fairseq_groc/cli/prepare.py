"""Cut, check, tokenise and count raw text: the part of scripts/preprocess.sh that is not fairseq-preprocess."""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, Optional, Set, Tuple

import numpy as np
from fairseq.data import Dictionary

from fairseq_groc.cli.tables import add_lexicon_options, tables_of
from fairseq_groc.data.cross_domain import SIZES, SOURCES, count_tokens, cut, read_source
from fairseq_groc.data.fingerprint import load_dictionary, note_dictionary, trained_words
from fairseq_groc.errors import DataError
from fairseq_groc.modules.probabilities import is_filler

RESERVED = ("<s>", "<pad>", "</s>")


def add_arguments(parser) -> None:
    steps = parser.add_subparsers(dest="step", required=True)
    text = steps.add_parser("text", help="check raw files, tokenise and lower-case them if asked, write dict.txt")
    text.add_argument("files", nargs="+", metavar="TARGET=SOURCE")
    text.add_argument("--tokenize", metavar="LANG", help="with sacremoses, for this language")
    text.add_argument("--lower", action="store_true")
    text.add_argument("--dictionary", metavar="FILE", help="write this dict.txt")
    text.add_argument("--train", metavar="TARGET", help="count the words of this text for it")
    text.add_argument("--threshold", type=int, default=1, help="leave out rarer words")
    text.add_argument("--vocabulary-from", help="begin it with the dictionary of this data folder")
    text.add_argument("--add", nargs="*", default=[], metavar="TARGET", help="append the words of these texts to it")
    slices = steps.add_parser("slice", help="cut train.txt, valid.txt and test.txt of a cross-domain set of GroC")
    slices.add_argument("set", choices=sorted(SOURCES))
    slices.add_argument("sources", type=Path, help="folder with the published files")
    slices.add_argument("target", type=Path, help="folder to write")
    slices.add_argument("--tokens", type=_sizes, default=SIZES, metavar="N,N,N", help="of train, valid and test (2M, 2M, 10M)")
    slices.add_argument("--seed", type=int, default=1, help="of the shuffling (web)")
    tables = steps.add_parser("tables", help="make the tables of freshly binarised data, note its dictionary, print counts")
    tables.add_argument("data", help="folder with dict.txt")
    add_lexicon_options(tables)
    tables.add_argument("--texts", nargs="*", default=[], metavar="SPLIT=FILE")
    tables.add_argument("--known", help="data folder: words that its training text lacks are new")


def run(args) -> None:
    {"text": _text, "slice": _slice, "tables": _tables}[args.step](args)


def _sizes(text: str) -> Dict[str, int]:
    numbers = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if len(numbers) != len(SIZES) or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected tokens of train, valid and test, as in 2000000,2000000,10000000")
    return dict(zip(SIZES, numbers))


def read_lines(path: Path, text_of: Callable[[str, int], str] = lambda line, number: line) -> Iterator[str]:
    """Yield the lines of a text.

    Args:
        path: of the file
        text_of: from a line and its number, what of it is text

    Raises:
        DataError: missing, empty, not UTF-8, or with a reserved symbol as a word; says where.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: nothing to train or score on")
    with open(path, "rb") as file:
        yield from check_lines(file, str(path), text_of)


def check_lines(file: Iterable[bytes], name: str, text_of: Callable[[str, int], str]) -> Iterator[str]:
    """Yield the lines of an open file as they come, as ``read_lines`` does.

    Raises:
        DataError: not UTF-8, or a reserved symbol as a word; says where.
    """
    for number, raw in enumerate(file, start=1):
        try:
            line = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}:{number}: not UTF-8 ({error.reason}). Convert the file: iconv -t UTF-8") from None
        words = text_of(line, number).split()
        for symbol in RESERVED:
            if symbol in words:
                raise DataError(f"{name}:{number}: contains {symbol}, which fairseq reserves. Remove or respell it.")
        yield line


def _text(args) -> None:
    cleaned = _cleaner(args.tokenize, args.lower)
    for pair in args.files:
        target, source = pair.split("=", 1)
        print(f"reading {source}", file=sys.stderr)
        with open(target, "w", encoding="utf-8") as file:
            for line in read_lines(source):
                file.write(cleaned(line) + "\n")
    if args.dictionary:
        _dictionary(args).save(args.dictionary)


def _cleaner(language: Optional[str], lower: bool) -> Callable[[str], str]:
    """Return a function that tokenises a line for a language, if one is given, and lower-cases it."""
    tokenize = _tokenizer(language) if language else lambda line: line

    def cleaned(line: str) -> str:
        line = tokenize(line)
        # fairseq splits at blanks of any kind; one kind keeps its line count and ours equal
        return " ".join((line.lower() if lower else line).split())

    return cleaned


def _tokenizer(language: str) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return lambda line: tokenizer.tokenize(line, return_str=True, escape=False)


def _slice(args) -> None:
    """Print the tokens and lines of each split; write nothing unless there is something for all of them."""
    source = SOURCES[args.set]
    path = args.sources / source.file
    if not path.is_file():
        raise DataError(f"{path}: no such file. docs/cross_domain.md says where it is published.")
    if args.target.exists() and not args.target.is_dir():
        raise DataError(f"{args.target} is a file: give a folder to write")
    print(f"cutting {args.set} from {path}, tokenised and lower-cased", file=sys.stderr)
    cleaned = _cleaner("en", lower=True)

    def text_of(name: str) -> Iterator[str]:
        # the tokeniser takes < and > apart: no reserved symbol is left to be looked for
        return map(cleaned, check_lines(read_source(path, name), name or str(path), lambda line, number: ""))

    args.target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.target, prefix=".unfinished-") as scratch:
        for split, lines in cut(source, text_of, args.tokens, args.seed):
            count, tokens = _write(Path(scratch, f"{split}.txt"), lines)
            if not count:
                raise DataError(f"{path} ends before {split} begins: give smaller --tokens (train, valid, test)")
            print(f"{args.set} {split}: {tokens:,} tokens, {count:,} lines", file=sys.stderr)
            if tokens < args.tokens[split]:
                wanted = f"should have {args.tokens[split]:,} tokens, but {path} has no more"
                print(f"warning: {args.set} {split} {wanted}", file=sys.stderr)
        for split in args.tokens:
            Path(scratch, f"{split}.txt").replace(args.target / f"{split}.txt")


def _write(path: Path, lines: Iterable[str]) -> Tuple[int, int]:
    """Write lines; return how many these are, and their tokens."""
    count = tokens = 0
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(line + "\n")
            count, tokens = count + 1, tokens + count_tokens(line)
    return count, tokens


def count_words(path: Path) -> Counter:
    """Count the words of a text; equal counts keep the order of first appearance."""
    return _counted(path)[1]


def _dictionary(args) -> Dictionary:
    dictionary = Dictionary()
    if args.vocabulary_from:
        source = Path(args.vocabulary_from) / "dict.txt"
        if not source.is_file():
            raise DataError(f"{source} not found: --vocabulary-from wants a folder of binarised data")
        dictionary = load_dictionary(source)
    if args.train:
        counts = count_words(args.train).most_common()
        _add(dictionary, ((w, n) for w, n in counts if n >= args.threshold))
    for path in args.add:
        _add(dictionary, count_words(path).most_common())
    return dictionary


def _add(dictionary: Dictionary, counts: Iterable) -> None:
    for word, count in counts:
        if word not in dictionary.indices:
            dictionary.add_symbol(word, n=count)


def _tables(args) -> None:
    """Print sentences, tokens, types, share of new words, and the lexicon's coverage."""
    tables = tables_of(Path(args.data), args)
    dictionary = load_dictionary(Path(args.data) / "dict.txt")
    texts = {split: _counted(Path(path)) for split, path in (text.split("=", 1) for text in args.texts)}
    train = texts["train"][1] if "train" in texts else None
    trained = _trained_words(train, args.known, dictionary)
    mask = None if trained is None else np.array([word in trained for word in dictionary.symbols])
    note_dictionary(Path(args.data), dictionary.symbols, mask)
    print(f"{'split':<8}{'sentences':>11}{'tokens':>13}{'types':>10}{'not in dict':>13}{'new words':>11}")
    for split, (lines, counts) in texts.items():
        print(_split_row(split, lines, counts, dictionary, trained))
    entries = [w for i, w in enumerate(dictionary.symbols) if i >= dictionary.nspecial and not is_filler(w)]
    covered, size = tables.coverage(), max(len(entries), 1)
    print(
        f"dictionary {len(entries):,} words, {tables.num_forms:,} forms; with relations "
        f"{covered['relations'] / size:.1%}, with a definition {covered['definitions'] / size:.1%}"
    )
    sys.stdout.flush()


def _counted(path: Path) -> Tuple[int, Counter]:
    """Return the number of lines of a text and the counts of its words."""
    lines = 0
    counts: Counter = Counter()
    for line in read_lines(path):
        lines += 1
        counts.update(line.split())
    return lines, counts


def _trained_words(train: Optional[Iterable[str]], known: Optional[str], dictionary: Dictionary) -> Optional[Set[str]]:
    """Return the words of the training text, of this folder and of the one that it goes on from; None: there is neither.

    ``</s>`` is one of them, and ``<unk>`` if the training text has it or words that the dictionary lacks.
    """
    if train is None and known is None:
        return None
    words: Set[str] = {dictionary.eos_word}
    if train is not None:
        words |= {word if word in dictionary.indices else dictionary.unk_word for word in train}
    if known is not None:
        earlier = load_dictionary(Path(known) / "dict.txt")
        mask = trained_words(Path(known), len(earlier))
        words |= {word for i, word in enumerate(earlier.symbols) if mask is None or mask[i]}
    return words


def _split_row(split: str, lines: int, counts: Counter, dictionary: Dictionary, trained: Optional[Set[str]]) -> str:
    tokens = sum(counts.values()) + lines  # one </s> a line
    missing = sum(n for w, n in counts.items() if w not in dictionary.indices) / tokens
    new = "unknown" if trained is None else f"{sum(n for w, n in counts.items() if w not in trained) / tokens:.2%}"
    return f"{split:<8}{lines:>11,}{tokens:>13,}{len(counts):>10,}{missing:>13.2%}{new:>11}"
