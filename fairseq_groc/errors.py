"""Errors of the package: each message says what was received, what was expected and what to do next."""

import importlib
import logging
import math
from typing import Any, NoReturn

logger = logging.getLogger(__name__)
LONGEST = 60  # characters of a word that a message shows


class GrocError(Exception):
    """Base of every error that the package raises on purpose."""


class LexiconError(GrocError):
    """A lexicon is missing, unreadable or malformed."""


class TablesError(GrocError):
    """Lexicon tables are missing or do not belong to the dictionary beside them."""


class DataError(GrocError):
    """Text or binarised data cannot be used as it is."""


class OptionError(GrocError):
    """Options that do not go together, or do not fit the checkpoint."""


class CacheError(GrocError):
    """Remembered text is missing, damaged, or another model's or text's."""


def shown(text: str) -> str:
    """Return what a message shows of a word or another text that was received: quoted, and not all of a long one."""
    return repr(text) if len(text) <= LONGEST else f"{text[:LONGEST]!r}... ({len(text):,} characters)"


def counted(number: int, what: str) -> str:
    """Return a number of things as messages have it: 1 line, 2 lines."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def imported(module: str, otherwise: GrocError) -> Any:
    """Return a module of a package that need not be installed; where it is not, raise what says how to."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise otherwise from None


def refuse(message: str) -> NoReturn:
    """Raise an OptionError that is logged, too: in loading, fairseq-train ends with an error of its own."""
    logger.error(message)
    raise OptionError(message)


def number_in(text: str) -> float:
    """Return the number that a text is; NaN: it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
