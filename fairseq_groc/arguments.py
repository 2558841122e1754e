"""Options that several commands have, and the numbers that ``type=`` takes."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairseq_groc.errors import OptionError, number_in, shown
from fairseq_groc.evaluation.results import out_file
from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS
from fairseq_groc.registry import flag, shown_value
from fairseq_groc.tasks.config import adapter_fields


class DefaultsFormatter(argparse.HelpFormatter):
    """Help in which the text of every option ends with its default, where it has one that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = shown_default(action)
        return f"{action.help} (default: {default.replace('%', '%%')})" if default else action.help


def shown_default(action: argparse.Action) -> str:
    """Return an option's default as it is typed; nothing: there is none, or it is off or empty."""
    default = action.default
    if not action.option_strings or default is None or default is False or default == argparse.SUPPRESS:
        return ""
    values = default if isinstance(default, (list, tuple, dict)) else [default]
    return " ".join(map(shown_value, values))


def positive(text: str) -> int:
    """Return a whole number above 0."""
    return whole(text, 1)


def natural(text: str) -> int:
    """Return a whole number, 0 or more."""
    return whole(text, 0)


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    value = number_in(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number from 0 to 1")
    return value


def whole(text: str, least: int) -> int:
    """Return a whole number of a least size."""
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, {least} or more")
    return int(text)


def fields_of_context(text: str) -> dict[str, str]:
    """Return the field that each variable of the context is in, from NAME=FIELD,NAME=FIELD."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, field = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not field or name in found:
            raise argparse.ArgumentTypeError(f"{text}: expected NAME=FIELD,NAME=FIELD, each name once")
        found[name] = field
    return found


def add_adapter_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the task's options of adapters."""
    group = parser.add_argument_group("adapters, as in the task")
    for option in adapter_fields():
        switch = option.type is bool
        kind: dict[str, Any] = {"action": "store_true"} if switch else {"type": str if option.default is None else option.type}
        group.add_argument(flag(option.name), default=option.default, help=option.metadata["help"], **kind)


def add_model(parser: argparse.ArgumentParser, context: bool = True) -> None:
    """Add what says which checkpoint is loaded over which vocabulary: ``loading.load_as`` takes it.

    Args:
        context: whether the command reads lines, whose context can be said
    """
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the vocabulary, and the text if the command reads one")
    parser.add_argument("--any-lexicon", action="store_true", help="the data's lexicon may be another than the checkpoint's")
    parser.add_argument("--draw-new-rows", action="store_true", help="give words without a row one drawn like the trained rows")
    parser.add_argument("--cpu", action="store_true", help="compute on the CPU even if there is a GPU")
    if context:
        what = "context of all lines, in place of the data's; missing: nothing is known"
        parser.add_argument("--context", metavar="NAME=VALUE,...", help=what)


def add_text(parser: argparse.ArgumentParser, split: str = "test") -> None:
    """Add what says which checkpoint reads which text: ``loading.open_split`` takes it."""
    _add_texts(parser, default=split, help="text of --data, such as valid or test")


def add_texts(parser: argparse.ArgumentParser, split: str = "test") -> None:
    """Add what says which checkpoint reads which texts: ``named_texts`` and ``loading.open_model`` take it."""
    several = "text of --data, such as valid or test; several, by name, are read one after the other, and words are encoded once"
    _add_texts(parser, default=[split], nargs="+", metavar="[NAME=]SPLIT", help=several)


def named_texts(splits: Sequence[str]) -> dict[str, str]:
    """Return the splits of ``--split`` by name; one alone that was given none has none (""), nor have its results.

    Raises:
        OptionError: a name that two have, or that no file can have.
    """
    expected = "SPLIT or NAME=SPLIT, as news=test1"
    found = named("--split", splits, expected, lambda split: Path(split).name)
    for name, split in found.items():
        if "/" in name or "," in split:
            raise OptionError(f"--split {name}={split}: expected {expected}, and a blank between two")
    return found if len(splits) > 1 or "=" in splits[0] else {"": splits[0]}


def named(option: str, given: Sequence[str], expected: str, name_of: Callable[[str], str] = lambda value: "") -> dict[str, str]:
    """Return what is given as NAME=VALUE, by name.

    Args:
        name_of: the name of a value that is given without one

    Raises:
        OptionError: without a name or a value, or with a name that two have.
    """
    found: dict[str, str] = {}
    for one in given:
        name, value = one.split("=", 1) if "=" in one else (name_of(one), one)
        if not name or not value.strip() or name in found:
            reason = f"{shown(name)} is the name of two" if name in found else f"expected {expected}"
            raise OptionError(f"{option} {one}: {reason}")
        found[name] = value
    return found


def beside(path: Path, name: str) -> Path:
    """Return the file for the text of a name where *path* is that of one text: the name stands before the suffix."""
    return path.with_name(f"{path.stem}.{name}{path.suffix}") if name else path


def _add_texts(parser: argparse.ArgumentParser, **split: Any) -> None:
    add_model(parser)
    parser.add_argument("--split", **split)
    parser.add_argument("--tokens-per-sample", type=natural, default=0, help="block length; 0: the checkpoint's")


def add_out(parser: argparse.ArgumentParser, what: str = "JSON file to write", drawn: bool = True) -> None:
    """Add the file of the results, whose place is looked at before the work; where it is drawn, a picture comes beside it."""
    what += "; a picture is drawn beside it" if drawn else ""
    parser.add_argument("--out", type=lambda text: out_file(text, drawn), help=what)


def add_cleaning(parser: argparse.ArgumentParser) -> None:
    """Add what makes tokens of raw lines: ``data.text.cleaner`` takes it."""
    parser.add_argument("--tokenize", metavar="LANG", help="with sacremoses, for this language, as in en")
    parser.add_argument("--lower", action="store_true", help="lower-case")


def add_break_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample-break-mode", choices=("none", "eos"), default="none", help="none: running text; eos: every line by itself"
    )


def add_lexicon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which lexicon is read, and how much of it: ``make_tables`` reads them."""
    add_lexicon_path(parser, "this machine's WordNet")
    parser.add_argument("--max-relations", type=natural, default=MAX_RELATIONS, help="related words a word at most")
    parser.add_argument("--max-definition", type=natural, default=MAX_DEFINITION, help="words of its gloss at most")
    parser.add_argument(
        "--keep-entries", type=share, default=1, metavar="SHARE", help="of relations, and of definitions, to keep"
    )
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
