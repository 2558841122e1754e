"""Raw text to a fairseq data folder with lexicon tables: check, tokenise, count, binarise, look up; print counts."""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary

from fairseq_groc.arguments import add_cleaning, add_lexicon_options, positive
from fairseq_groc.contexts.arrays import earlier_contexts, open_contexts, write_contexts
from fairseq_groc.contexts.learned import both
from fairseq_groc.contexts.schema import Schema
from fairseq_groc.contexts.splits import check_rows, described, read_contexts
from fairseq_groc.contexts.table import NAME, number_of
from fairseq_groc.contexts.variables import SplitContexts, Variable
from fairseq_groc.data.archives import DATASETS, fetch, read_archive
from fairseq_groc.data.cross_domain import SOURCES, cut, sizes_of
from fairseq_groc.data.fingerprint import check_mark, folder_dictionary, known_words, mark_of, note_folder
from fairseq_groc.data.folder import check_target, replacing
from fairseq_groc.data.lexicon_tables import make_tables
from fairseq_groc.data.numbering import Numbering, Text
from fairseq_groc.data.stream_dataset import open_text
from fairseq_groc.data.text import Unseparated, checked, cleaner, cleaning, decoded, read_lines, warn_of_cleaning
from fairseq_groc.data.word_list import listed_dictionary
from fairseq_groc.dictionary import load_dictionary, real_words
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.results import aligned
from fairseq_groc.lexicon import sources_of
from fairseq_groc.lexicon.tables import LexiconTables
from fairseq_groc.pieces import MARKS

SPLITS = ("train", "valid", "test")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dest", required=True, metavar="DIR", help="folder to write; a text that is in it is replaced")
    parser.add_argument("--train", metavar="FILE", help="training text; its words, by falling count, are the vocabulary")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--valid", **repeated, metavar="FILE", help="may be repeated: valid, valid1, ...")
    parser.add_argument("--test", **repeated, metavar="FILE", help="may be repeated: test, test1, ...")
    parser.add_argument("--threshold", type=positive, metavar="N", help="leave out words seen less than N times in the training")
    union = "union vocabulary: that folder's dictionary, then the new words of these texts"
    parser.add_argument("--vocabulary-from", metavar="DIR", help=union)
    parser.add_argument("--vocabulary", metavar="FILE", help="use this dict.txt as it is, or this list of words, one a line")
    more = "append the words of another text to the vocabulary; may be repeated"
    parser.add_argument("--new-words-from", **repeated, metavar="FILE", help=more)
    known = "data folder of an earlier training: the words of its text are not new either; may be repeated"
    parser.add_argument("--known", **repeated, metavar="DIR", help=known)
    contexts = "tab-separated table of what is known of each line: names of columns, then a row a line; nothing: it is missing"
    parser.add_argument("--context-train", metavar="FILE", help=contexts)
    parser.add_argument("--context-valid", **repeated, metavar="FILE", help="may be repeated, in the order of --valid")
    parser.add_argument("--context-test", **repeated, metavar="FILE", help="may be repeated, in the order of --test")
    numeric = "columns of numbers, as in year,latitude; the others are categories"
    parser.add_argument("--context-numeric", type=_columns, default=[], metavar="NAMES", help=numeric)
    cyclic = "columns of numbers that come back to 0, with their periods, as in hour:24,month:12"
    parser.add_argument("--context-cyclic", type=_periods, default={}, metavar="NAME:PERIOD", help=cyclic)
    add_cleaning(parser)
    pieces = "the texts are cut into pieces of words with this mark, which is no letter; default: what --vocabulary-from has"
    parser.add_argument("--piece-marks", choices=MARKS, help=pieces)
    add_lexicon_options(parser)
    parser.add_argument(
        "--dataset",
        metavar="NAME",
        help="ptb or wikitext-2: train.txt, valid.txt, test.txt of --from FOLDER, else downloaded; news-2007 to news-2011, web "
        "or wiki, GroC's cross-domain set: the published file in --from FOLDER, else downloaded; tokenised and lower-cased "
        "(docs/cross_domain.md)",
    )
    parser.add_argument("--from", dest="source", metavar="FOLDER", help="with the texts, or the file, of --dataset")
    parser.add_argument("--splits", metavar="LIST", help="those of the dataset to take (default train,valid,test)")
    parser.add_argument("--tokens", metavar="N,N,N", help="of the cross-domain set's splits (default 2000000,2000000,10000000)")


def run(args: Namespace) -> None:
    dest, splits = check(args)
    contexts = given_contexts(args, splits)
    dictionary, earlier, mark = first_entries(args), earlier_words(args), mark_of(args.piece_marks, args.vocabulary_from)
    with replacing(dest) as scratch:
        numbering, texts = Numbering(dictionary.eos_word), {}
        for name, lines in _lines(args, scratch, splits):
            texts[name] = numbering.write(scratch / name, lines)
            if name in contexts:
                check_rows(contexts[name], len(texts[name].lengths), splits[name])
        texts = {name: text for name, text in texts.items() if name in splits}
        if not args.vocabulary:
            add_words(dictionary, args, texts)
        check_mark(mark, dictionary.symbols)
        made = scratch / "made"
        dictionary.save(str(made / "dict.txt"))
        for name, text in texts.items():
            numbering.binarise(text, made / name, dictionary)
        tables = make_tables(made, args, mark)
        trained = trained_on(texts, dictionary, earlier)
        mask = None if trained is None else np.array([word in trained for word in dictionary.symbols])
        note_folder(made, dictionary.symbols, mask, mark, cleaning(args.tokenize, args.lower))
        for name, arrays in contexts.items():
            write_contexts(made / name, arrays, np.asarray(texts[name].lengths))
    report(texts, dictionary, trained, tables)
    if contexts:
        print(described(contexts), flush=True)


# -- what is asked for -------------------------------------------------------------------------------------------------------


def check(args: Namespace) -> tuple[Path, dict[str, str]]:
    """Return the folder to write and the splits, each with its file.

    Raises:
        GrocError: options that do not go together; from here on it takes long.
    """
    dest = check_target(args.dest, args.vocabulary_from, args.vocabulary, args.forms_from, *args.known)
    splits = _of_dataset(args) if args.dataset else _named(args.train, args.valid, args.test)
    if not args.dataset and (args.source or args.splits):
        raise OptionError("--from and --splits go with --dataset")
    if args.tokens and args.dataset not in SOURCES:
        raise OptionError("--tokens goes with --dataset news-2007 to news-2011, web and wiki")
    sizes_of(args.tokens)
    sources_of(args.lexicon_path)
    if args.forms_from:
        load_dictionary(args.forms_from)
    given = args.vocabulary or args.vocabulary_from
    if "train" not in splits and not given:
        raise OptionError("without --train, give --vocabulary FILE or --vocabulary-from DIR")
    if not splits:
        raise OptionError("no text given: --train, --valid or --test")
    if args.vocabulary and args.vocabulary_from:
        raise OptionError("--vocabulary and --vocabulary-from: give one")
    if args.threshold is not None and given:
        raise OptionError("--threshold has no meaning where a vocabulary is given")
    if args.vocabulary and args.new_words_from:
        raise OptionError("--new-words-from would change --vocabulary FILE: give --vocabulary-from DIR")
    if given and not args.dataset:
        folder = args.vocabulary_from or Path(args.vocabulary).parent
        warn_of_cleaning(next(iter(splits.values())), folder, args.tokenize, args.lower)
    return dest, splits


def _named(train: str | None, valid: Iterable[str], test: Iterable[str]) -> dict[str, str]:
    """Return the files by the names that fairseq gives them."""
    named = {"train": train} if train else {}
    for split, files in (("valid", valid), ("test", test)):
        named |= {f"{split}{i or ''}": file for i, file in enumerate(files)}
    return named


def _of_dataset(args: Namespace) -> dict[str, str]:
    if args.dataset not in (*DATASETS, *SOURCES):
        raise OptionError(f"--dataset {args.dataset}: expected ptb or wikitext-2, or news-2007 to news-2011, web or wiki")
    if args.train or args.valid or args.test:
        raise OptionError("--train, --valid and --test do not go with --dataset, which has its own")
    if args.dataset in SOURCES and (args.tokenize or args.lower):
        raise OptionError(f"{args.dataset} is tokenised and lower-cased already: leave out --tokenize and --lower")
    chosen = (args.splits or ",".join(SPLITS)).split(",")
    if not set(chosen) <= set(SPLITS):
        raise OptionError(f"--splits {args.splits}: expected some of train,valid,test")
    return {split: str(Path(args.source or "", f"{split}.txt")) for split in SPLITS if split in chosen}


def given_contexts(args: Namespace, splits: dict[str, str]) -> dict[str, SplitContexts]:
    """Read the contexts of the splits, by split; empty: none are given.

    Raises:
        GrocError: a table cannot be used, or has no text, or options do not go together.
    """
    files = _named(args.context_train, args.context_valid, args.context_test)
    for split, path in files.items():
        if split not in splits:
            option = split.rstrip("0123456789")
            raise OptionError(
                f"--context-{option} {path}: no text is left for it: expected a --{option} for each --context-{option}"
            )
    if files and "train" in splits and "train" not in files:
        raise OptionError("the training text has no contexts, and others have: give --context-train FILE")
    if not files and (args.context_numeric or args.context_cyclic):
        raise OptionError("--context-numeric and --context-cyclic go with --context-train, --context-valid and --context-test")
    return read_contexts(files, args.context_numeric, args.context_cyclic, known_contexts(args)) if files else {}


def known_contexts(args: Namespace) -> tuple[Variable, ...]:
    """Return what the training texts of --vocabulary-from and --known know of contexts."""
    found: dict[str, Variable] = {}
    for folder in map(Path, filter(None, (args.vocabulary_from, *args.known))):
        variables = earlier_contexts(folder)
        if (folder / "train.idx").exists():
            lines = open_text(folder / "train")
            arrays = open_contexts(folder / "train", lines.sizes)
            variables = variables if arrays is None else Schema.of_training(arrays, 1).variables
        for one in variables:
            found[one.name] = both(found[one.name], one, str(folder)) if one.name in found else one
    return tuple(found.values())


def _columns(text: str) -> list[str]:
    """Return names of columns from a list of them."""
    if not re.fullmatch(f"{NAME}(,{NAME})*", text):
        raise ArgumentTypeError(f"{text}: expected names of columns, as in year,latitude")
    return text.split(",")


def _periods(text: str) -> dict[str, float]:
    """Return periods by the names of columns."""
    found = {}
    for name, _, period in (part.partition(":") for part in text.split(",")):
        number = number_of(period)
        if not re.fullmatch(NAME, name) or number is None or number <= 0 or name in found:
            raise ArgumentTypeError(f"{text}: expected names of columns with their periods, above 0, as in hour:24,month:12")
        found[name] = number
    return found


# -- texts -------------------------------------------------------------------------------------------------------------------


def _lines(args: Namespace, scratch: Path, splits: dict[str, str]) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each split with its lines as they are counted and binarised, to be read before the next; it may be one too many."""
    if args.dataset in SOURCES:
        source = SOURCES[args.dataset].published
        folder = Path(args.source) if args.source else fetch(source, scratch / "downloaded", source.file).parent
        yield from cut(args.dataset, folder, sizes_of(args.tokens))
        return
    clean = cleaner(args.tokenize, args.lower)
    for split, path in splits.items():
        if args.dataset and not args.source:
            published = DATASETS[args.dataset][split]
            file = fetch(published, scratch / "downloaded", "train.txt, valid.txt and test.txt")
            path = published.text or published.file
            lines = decoded(read_archive(file, published.text), path)
        else:
            lines = read_lines(Path(path), progress=True)
        marks = Unseparated()
        yield split, checked(map(marks.saw, map(clean, lines)), path)
        marks.warn(path)


def first_entries(args: Namespace) -> Dictionary:
    """Return the vocabulary that is given, or where the words of the texts are to be appended."""
    if args.vocabulary_from:
        return folder_dictionary(Path(args.vocabulary_from))
    return listed_dictionary(Path(args.vocabulary), args.lower) if args.vocabulary else Dictionary()


def add_words(dictionary: Dictionary, args: Namespace, texts: dict[str, Text]) -> None:
    """Append the words of the training text, or in a union vocabulary those of all texts, and those of ``--new-words-from``.

    Raises:
        DataError: there are none.
    """
    clean = cleaner(args.tokenize, args.lower)
    for name, text in texts.items():
        if name == "train" or args.vocabulary_from:
            _add(dictionary, text.counts, args.threshold or 1)
    for path in args.new_words_from:
        lines = checked(map(clean, read_lines(Path(path), progress=True)), path)
        _add(dictionary, Counter(word for line in lines for word in line.split()))
    if len(dictionary) == dictionary.nspecial:
        most = max(texts["train"].counts.values(), default=0)
        why = f"no word is left, the most frequent one of the training text is there {most:,} times"
        raise DataError(f"--threshold {args.threshold or 1}: {why}")


def _add(dictionary: Dictionary, counts: Counter[str], threshold: int = 1) -> None:
    for word, count in counts.most_common():
        if word not in dictionary.indices and count >= threshold:
            dictionary.add_symbol(word, n=count)


# -- what is known of the texts ----------------------------------------------------------------------------------------------


def earlier_words(args: Namespace) -> set[str] | None:
    """Return the words of the training texts that this one goes on from; None: there are none."""
    found = [known_words(Path(folder)) for folder in (args.vocabulary_from, *args.known) if folder]
    return set().union(*found) if found else None


def trained_on(texts: dict[str, Text], dictionary: Dictionary, earlier: set[str] | None) -> set[str] | None:
    """Return the words of the training text, of this folder and of those that it goes on from; None: there is none.

    ``</s>`` is one of them, and ``<unk>`` if the training text has it or words that the dictionary lacks.
    """
    if "train" not in texts and earlier is None:
        return None
    words = {dictionary.eos_word, *(earlier or ())}
    if "train" in texts:
        words |= {word if word in dictionary.indices else dictionary.unk_word for word in texts["train"].counts}
    return words


def report(texts: dict[str, Text], dictionary: Dictionary, trained: set[str] | None, tables: LexiconTables) -> None:
    """Print sentences, tokens, types, share of new words, and the lexicon's coverage."""
    rows = []
    for split, (_, lengths, counts) in texts.items():
        tokens = sum(lengths)
        missing = sum(n for w, n in counts.items() if w not in dictionary.indices) / tokens
        new = "unknown" if trained is None else f"{sum(n for w, n in counts.items() if w not in trained) / tokens:.2%}"
        rows.append([split, f"{len(lengths):,}", f"{tokens:,}", f"{len(counts):,}", f"{missing:.2%}", new])
    print(aligned(["split", "sentences", "tokens", "types", "not in dict", "new words"], rows))
    entries = sum(real_words(dictionary.symbols))
    covered = tables.coverage()
    print(
        f"dictionary {entries:,} words, {tables.num_forms:,} forms; with relations {covered['relations'] / entries:.1%}, "
        f"with a definition {covered['definitions'] / entries:.1%}"
    )
    sys.stdout.flush()
