"""What a lexicon is: something that says which other words a word is made of."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fairseq_groc.registry import Registry

# Words of a gloss: letters and digits, with apostrophes and hyphens inside ("one's", "well-known").
_WORD = re.compile(r"[\w'-]*\w[\w'-]*")


@dataclass(frozen=True)
class Relation:
    """A related word and where it came from, e.g. ``Relation("cab", "synonym in car.n.01")``."""

    word: str
    source: str


@dataclass(frozen=True)
class Entry:
    """What a lexicon says of one word; both parts may be empty.

    Args:
        relations: related words, best first
        definition: words of the gloss, in order
        definition_source: where the gloss came from
    """

    relations: tuple[Relation, ...] = ()
    definition: tuple[str, ...] = ()
    definition_source: str = ""


class Lexicon(Protocol):
    """A source of relations and definitions (GroC, section 3.1). Lookups need not be fast: they happen once."""

    name: str

    def fingerprint(self) -> str:
        """Return a string that changes whenever an answer of the lexicon could."""

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        """Return the entry of *word*, at most so many relations and gloss words."""


Made = TypeVar("Made", bound=Callable[..., Any])
LEXICONS: Registry[Callable[..., Lexicon]] = Registry("lexicon")


def register_lexicon(name: str) -> Callable[[Made], Made]:
    """Register a class, or a function that returns a lexicon: ``--lexicon-path NAME`` calls it, ``NAME:TEXT`` with the text.

    Raises:
        OptionError: a name that is taken.
    """

    def register(cls: Made) -> Made:
        LEXICONS.add(name, cls)
        return cls

    return register


def gloss_words(text: str) -> list[str]:
    """Split a definition into lower-cased words.

    >>> gloss_words("a motor vehicle (with 4 wheels); one's well-known car")
    ['a', 'motor', 'vehicle', 'with', '4', 'wheels', "one's", 'well-known', 'car']
    """
    return _WORD.findall(text.lower())


@register_lexicon("none")
class NoLexicon:
    """The empty lexicon: every word is its spelling alone."""

    name = "none"

    def fingerprint(self) -> str:
        return "none"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        return Entry()
