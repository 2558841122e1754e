"""Options that take numbers: which there are, by the commands' own parsers, and which numbers make sense."""

import argparse
import math
from collections.abc import Callable

from fuzz_recipes import RECIPES, Recipe

from fairseq_groc.__main__ import _parser

WHOLE = {
    "--field": 1,
    "--streams": 1,
    "--workers": 1,
    "--count": 1,
    "--updates": 3,
    "--rounds": 1,
    "--threshold": 1,
    "--order": 1,
}
SHARES = ("--keep-entries", "--shares")  # 0 to 1
POSITIVE = ("--discounts", "--new-word-discount")
WEIGHTS = (
    "--uniform",
    "--uniform-weight",
    "--unigram-weight",
    "--local-weight",
    "--unbounded-weight",
    "--ngram-weight",
)  # 0 to below 1
INSIDE = ("--weights", "--new-word-mass")  # above 0, below 1
DROPOUTS = ("--dropout", "--dropout-in", "--dropout-out", "--output-dropout", "--correction-dropout")
FRACTIONS = ("--full-update-prob", "--sampled-update-fraction")  # above 0, at most 1
ANY = ("--thetas", "--cache-theta", "--seed")
LARGE = ("1e18", "1000000000")
VALUES = ("-1", "0", "-0.5", "0.5", "1", "1.5", "2", "7", "1e18", "1000000000", "1e400", "nan", "inf", "-inf", "x", "", " ", "½")
RANGES: dict[str, Callable[[float], bool]] = {
    **{name: lambda n, least=least: n >= least for name, least in WHOLE.items()},  # type: ignore[misc]
    **dict.fromkeys(SHARES, lambda n: 0 <= n <= 1),
    **dict.fromkeys(POSITIVE, lambda n: n > 0),
    **dict.fromkeys((*WEIGHTS, *DROPOUTS), lambda n: 0 <= n < 1),
    **dict.fromkeys(INSIDE, lambda n: 0 < n < 1),
    **dict.fromkeys(FRACTIONS, lambda n: 0 < n <= 1),
    **dict.fromkeys(ANY, lambda n: True),
}
COUNTS = ("--sizes", "--neighbors", "--cache-size", "--cache-neighbors", "--encoding-chunk", "--refresh-interval")
RANGES |= dict.fromkeys(COUNTS, lambda n: n >= 1)
LAYERS = ("--decoder-embed-dim", "--decoder-hidden-size", "--decoder-layers", "--num-softmaxes", "--init-range")
RANGES |= dict.fromkeys(LAYERS, lambda n: n > 0)


def sensible(option: str, words: tuple[str, ...]) -> bool:
    """Return whether the last of the words is a number that the option may have."""
    if option == "--tokens":
        return all(part.isdecimal() and int(part) > 0 for part in words[-1].split(",")) and words[-1].count(",") == 2
    if option == "--new-word-mass" and words[-1] in ("adaptive", "unk"):
        return True
    try:
        number = float(words[-1])
    except ValueError:
        return False
    return math.isfinite(number) and RANGES.get(option, lambda n: n >= 0)(number)


def options(recipe: Recipe) -> list[str]:
    """Return the options of a recipe's command that take numbers."""
    if recipe.command.startswith("fairseq-"):
        return list(recipe.numbers)
    parser, found = _parser(), list(recipe.numbers)
    for word in recipe.words:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
    found += [action.option_strings[0] for action in parser._actions if action.option_strings and numeric(action.type)]
    return list(dict.fromkeys(found))


def numeric(convert) -> bool:
    """Return whether a parser makes a number of an option's text."""
    for text in ("9", "0.5"):
        try:
            return isinstance(convert(text), (int, float))
        except Exception:  # no function, or one that wants another text
            continue
    return False


NUMBERS: dict[str, list[str]] = {name: options(recipe) for name, recipe in RECIPES.items()}
