"""Numbers on the command line: what ``type=`` takes."""

import argparse
import math


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
