"""Check, tokenise and count raw text: the part of scripts/preprocess.sh that is not fairseq-preprocess."""

import sys
from collections import Counter
from pathlib import Path
from typing import Callable, Iterable, Iterator, List, Optional, Set

import numpy as np
from fairseq.data import Dictionary

from fairseq_groc.cli.tables import add_lexicon_arguments, make_tables, open_chosen
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
    tables = steps.add_parser("tables", help="make the tables of freshly binarised data, note its dictionary, print counts")
    tables.add_argument("data", help="folder with dict.txt")
    add_lexicon_arguments(tables)
    tables.add_argument("--texts", nargs="*", default=[], metavar="SPLIT=FILE")
    tables.add_argument("--known", help="data folder: words that its training text lacks are new")


def run(args) -> None:
    {"text": _text, "tables": _tables}[args.step](args)


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
    tokenize = _tokenizer(args.tokenize) if args.tokenize else None
    for pair in args.files:
        target, source = pair.split("=", 1)
        print(f"reading {source}", file=sys.stderr)
        with open(target, "w", encoding="utf-8") as file:
            for line in read_lines(source):
                line = tokenize(line) if tokenize else line
                # fairseq splits at blanks of any kind; one kind keeps its line count and ours equal
                file.write(" ".join((line.lower() if args.lower else line).split()) + "\n")
    if args.dictionary:
        _dictionary(args).save(args.dictionary)


def _tokenizer(language: str):
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    return lambda line: tokenizer.tokenize(line, return_str=True, escape=False)


def count_words(path: Path) -> Counter:
    """Count the words of a text; equal counts keep the order of first appearance."""
    return Counter(word for line in read_lines(path) for word in line.split())


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
    tables = make_tables(Path(args.data), open_chosen(args), args.max_relations, args.max_definition)
    dictionary = load_dictionary(Path(args.data) / "dict.txt")
    texts = {split: list(read_lines(Path(path))) for split, path in (text.split("=", 1) for text in args.texts)}
    trained = _trained_words(texts.get("train"), args.known, dictionary)
    mask = None if trained is None else np.array([word in trained for word in dictionary.symbols])
    note_dictionary(Path(args.data), dictionary.symbols, mask)
    print(f"{'split':<8}{'sentences':>11}{'tokens':>13}{'types':>10}{'not in dict':>13}{'new words':>11}")
    for split, lines in texts.items():
        print(_split_row(split, lines, dictionary, trained))
    entries = [w for i, w in enumerate(dictionary.symbols) if i >= dictionary.nspecial and not is_filler(w)]
    covered, size = tables.coverage(), max(len(entries), 1)
    print(
        f"dictionary {len(entries):,} words, {tables.num_forms:,} forms; with relations "
        f"{covered['relations'] / size:.1%}, with a definition {covered['definitions'] / size:.1%}"
    )
    sys.stdout.flush()


def _trained_words(train: Optional[List[str]], known: Optional[str], dictionary: Dictionary) -> Optional[Set[str]]:
    """Return the words of the training text, of this folder and of the one that it goes on from; None: there is neither.

    ``</s>`` is one of them, and ``<unk>`` if the training text has it or words that the dictionary lacks.
    """
    if train is None and known is None:
        return None
    words: Set[str] = {dictionary.eos_word}
    if train is not None:
        words |= {word if word in dictionary.indices else dictionary.unk_word for line in train for word in line.split()}
    if known is not None:
        earlier = load_dictionary(Path(known) / "dict.txt")
        mask = trained_words(Path(known), len(earlier))
        words |= {word for i, word in enumerate(earlier.symbols) if mask is None or mask[i]}
    return words


def _split_row(split: str, lines: List[str], dictionary: Dictionary, trained: Optional[Set[str]]) -> str:
    words = [word for line in lines for word in line.split()]
    tokens = len(words) + len(lines)  # one </s> a line
    missing = sum(w not in dictionary.indices for w in words) / tokens
    new = "unknown" if trained is None else f"{sum(w not in trained for w in words) / tokens:.2%}"
    return f"{split:<8}{len(lines):>11,}{tokens:>13,}{len(set(words)):>10,}{missing:>13.2%}{new:>11}"
