"""Which mass new words have, by the names that users give it."""

import itertools
from pathlib import Path
from typing import Any

from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.dictionary import is_symbol
from fairseq_groc.errors import OptionError, number_in
from fairseq_groc.open_vocabulary.new_words import NewWordMass, rate_of_new_words

ADAPTIVE, UNK = "adaptive", "unk"


def fixed_mass(given: str) -> float | None:
    """Return the number that is given; None: it is a name.

    Raises:
        OptionError: neither.
    """
    if given in (ADAPTIVE, UNK):
        return None
    mass = number_in(given)
    if not 0 < mass < 1:
        raise OptionError(f"--new-word-mass {given}: expected {ADAPTIVE}, {UNK} or a number between 0 and 1")
    return mass


def mass_of(given: str, dictionary: Any, data: Path) -> NewWordMass | None:
    """Return the mass that is meant; None: that of ``<unk>``.

    Args:
        dictionary: of the data, before words are added
        data: the folder, which says what its training text has

    Raises:
        OptionError: neither a name nor a number between 0 and 1.
    """
    fixed = fixed_mass(given)
    if fixed is not None:
        return NewWordMass(fixed, fixed=True)
    return None if given == UNK else NewWordMass(rate_of_new_words(_trained_counts(dictionary, data)))


def _trained_counts(dictionary: Any, data: Path) -> list[int]:
    """Return how often the training text has each of its words."""
    known = trained_words(data, len(dictionary))
    entries = zip(dictionary.symbols, dictionary.count, itertools.repeat(True) if known is None else known, strict=False)
    return [count for word, count, there in entries if there and not is_symbol(word)]
