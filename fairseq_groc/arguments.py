"""Options that several commands have, and the numbers that ``type=`` takes."""

import argparse
import math
from pathlib import Path
from typing import Any

from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS
from fairseq_groc.registry import flag
from fairseq_groc.tasks.config import adapter_fields


def positive(text: str) -> int:
    """Return a whole number above 0."""
    return whole(text, 1)


def natural(text: str) -> int:
    """Return a whole number, 0 or more."""
    return whole(text, 0)


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 0 to 1")
    return value


def whole(text: str, least: int) -> int:
    """Return a whole number of a least size."""
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, {least} or more")
    return int(text)


def add_adapter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task's options of adapters."""
    group = parser.add_argument_group("adapters, as in the task")
    for option in adapter_fields():
        switch = option.type is bool
        kind: dict[str, Any] = {"action": "store_true"} if switch else {"type": str if option.default is None else option.type}
        group.add_argument(flag(option.name), default=option.default, help=option.metadata["help"], **kind)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add what says which checkpoint is loaded over which vocabulary: ``loading.load`` takes it."""
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the vocabulary, and the text if the command reads one")
    parser.add_argument("--any-lexicon", action="store_true", help="the data's lexicon may be another than the checkpoint's")
    parser.add_argument(
        "--context", metavar="NAME=VALUE,...", help="of all lines, in place of what the data say; missing: unknown"
    )


def add_text(parser: argparse.ArgumentParser, split: str = "test") -> None:
    """Add what says which checkpoint reads which text: ``loading.open_split`` takes it."""
    add_model(parser)
    parser.add_argument("--split", default=split, help="which text of it")
    parser.add_argument("--tokens-per-sample", type=natural, default=0, help="block length; 0: the checkpoint's")


def add_out(parser: argparse.ArgumentParser, what: str = "JSON file to write; a picture is drawn beside it") -> None:
    """Add the file of the results: ``results.check_out`` looks at its place before the work."""
    parser.add_argument("--out", type=Path, help=what)


def add_break_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sample-break-mode", choices=("none", "eos"), default="none", help="eos: every line by itself")


def add_lexicon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which lexicon is read, and how much of it: ``lexicon_of`` and ``tables_of`` read them."""
    add_lexicon_path(parser, "this machine's WordNet")
    parser.add_argument("--max-relations", type=natural, default=MAX_RELATIONS, help="related words a word at most (%(default)s)")
    parser.add_argument("--max-definition", type=natural, default=MAX_DEFINITION, help="words of its gloss at most (%(default)s)")
    parser.add_argument("--keep-entries", type=share, default=1, metavar="SHARE", help="of relations, and of definitions")
    parser.add_argument("--forms-from", metavar="DICT", help="leave out relations and gloss words that this dict.txt has not")


def add_lexicon_path(parser: argparse.ArgumentParser | argparse._ArgumentGroup, default: str) -> None:
    """Add ``--lexicon-path``, a list; *default* says what is read where it is None."""
    parser.add_argument(
        "--lexicon-path",
        action="append",
        metavar="LEXICON",
        help="a .tsv or .jsonl lexicon, a WordNet folder, 'wordnet' (this machine's), omw:FILE.tab, wn:NAME, "
        "lemmas:LEXICON, 'none', or NAME or NAME:TEXT of another that is registered; may be repeated: the first that has a word "
        f"wins (default: {default})",
    )
