"""Contexts as a user types them: ``topic=sports,year=1990``."""

import functools
import logging
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairseq_groc.contexts.table import NAME, number_of
from fairseq_groc.errors import OptionError, shown

MISSING = "missing"  # of --context: nothing is known
logger = logging.getLogger(__name__)


def assignments(text: str) -> dict[str, str]:
    """Return names with values; a value may have commas, but none before a name and =. ``missing`` names nothing.

    Raises:
        OptionError: something else, or a name with two values.
    """
    if text.strip() == MISSING:
        return {}
    found: dict[str, str] = {}
    for part in re.split(rf",(?=\s*{NAME}\s*=)", text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise OptionError(f"context {shown(text)}: expected NAME=VALUE,NAME=VALUE, or {MISSING}")
        if name in found:
            raise OptionError(f"context {shown(text)}: {name} has two values: give one")
        found[name] = value
    return found


def plain(value: Any) -> str:
    """Return a value as it is typed; None: a missing one."""
    return "" if value is None else str(value).strip()


def number_of_value(name: str, value: str, numbers: Mapping[str, int]) -> int:
    """Return the number of a category's value, from 1; 0: it is missing, or unknown, which is warned of once.

    Args:
        name: of the variable
        numbers: of the values that the model knows
    """
    if value and value not in numbers:
        _warn_once(f"warning: context {name}={shown(value)}: the model does not know this value, and takes it as missing")
    return numbers.get(value, 0)


def typed_number(name: str, value: str) -> float:
    """Return a number; NaN: it is missing.

    Args:
        name: of the variable

    Raises:
        OptionError: it is no finite number.
    """
    number = number_of(value) if value else np.nan
    if number is None:
        raise OptionError(f"context {name}={shown(value)}: expected a finite number")
    return number


@functools.lru_cache(maxsize=1_000)  # a file may have as many unknown values as lines
def _warn_once(message: str) -> None:
    logger.warning(message)
