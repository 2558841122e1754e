"""Which words a call may predict, and by which numbers it reads a text. V: vocabulary."""

import logging
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.data.fingerprint import noted_cleaning
from fairseq_groc.dictionary import list_of
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.lexicon.base import Entry

logger = logging.getLogger(__name__)
# numbers of words that a call may predict, besides ``</s>`` and ``<unk>``; None: all that are not single calls' own
Allowed = frozenset[int] | None


class CallVocabularies:
    """The vocabularies of calls over that of a model, which grows by what they lack.

    A word that entered for single calls is in no other's vocabulary: these predict, and read, what they would without it.

    Args:
        decoder: of the model
        data: the folder that its vocabulary comes from, for messages
    """

    def __init__(self, decoder: Any, data: str):
        self._decoder, self._data = decoder, data
        self.of_calls: set[int] = set()  # numbers of the words that entered for single calls
        self.version = 0  # how often words have entered
        self._named: set[str] = set()  # words that were warned of
        self._naming = threading.Lock()

    def checked(self, words: Iterable[str]) -> list[str]:
        """Return what a call gave as its vocabulary.

        Raises:
            DataError: something that is no word, or nothing.
            OptionError: an adapter does not go with a limit.
        """
        if self._decoder.adapter is not None:
            self._decoder.adapter.settings.refuse("limit")
        found = list(dict.fromkeys(self._decoder.check_words(words)))
        if not found:
            raise DataError("vocabulary: no word at all. Give some, or None for all that the model has.")
        return found

    def lacking(self, words: Sequence[str]) -> list[str]:
        """Return those that are not in the model's vocabulary."""
        return [word for word in words if word not in self._decoder.dictionary.indices]

    def enter(self, words: Sequence[str], entries: Any, of_calls: bool) -> list[int]:
        """Put words into the model's vocabulary while nobody reads it, and return their numbers.

        Args:
            entries: what new words are made of, as ``add_words`` takes it
            of_calls: whether other calls go on without those that are new; otherwise all have all of them
        """
        size = len(self._decoder.dictionary)
        numbers: list[int] = self._decoder.add_words(words, entries)
        if of_calls:
            self.of_calls.update(number for number in numbers if number >= size)
        else:
            self.of_calls.difference_update(numbers)
        self.version += 1
        return numbers

    def limit(self, allowed: Allowed) -> Tensor | None:
        """Return the mask (V) of words that a call must not predict, as the vocabulary is now; None: it may predict all."""
        dictionary, impossible = self._decoder.dictionary, self._decoder.matrices.impossible
        if allowed is None:
            if not self.of_calls:
                return None
            limit = torch.zeros_like(impossible)
            limit[list(self.of_calls)] = True
            return limit
        limit = torch.ones_like(impossible)
        limit[[dictionary.eos(), dictionary.unk(), *allowed]] = False
        return limit

    def number(self, word: str, allowed: Allowed) -> int | None:
        """Return a word's number; None: the call's vocabulary lacks it."""
        number: int | None = self._decoder.dictionary.indices.get(word)
        return None if number in self.of_calls and number not in (allowed or ()) else number

    def numbers(self, lines: Sequence[Sequence[str]], allowed: Allowed) -> list[list[int]]:
        """Return lines of words as numbers, ``</s>`` behind each; words that are lacking are ``<unk>`` and warned of."""
        unknown, eos = self._decoder.dictionary.unk(), self._decoder.dictionary.eos()
        known = {word: self.number(word, allowed) for line in lines for word in line}
        self.warn(word for word, number in known.items() if number is None)
        numbers = {word: unknown if number is None else number for word, number in known.items()}
        return [[*(numbers[word] for word in line), eos] for line in lines]

    def warn(self, words: Iterable[str]) -> None:
        """Say which words score as ``<unk>``, of each once."""
        if new := self._not_named(words):
            how = " ".join(noted_cleaning(Path(self._data)))
            alike = f" It was made with {how}: clean lines in the same way." if how else ""
            remedy = f"scored as <unk>. Add them: add_words, or --add-words.{alike}"
            logger.warning(f"{list_of(new)} not in the vocabulary of {self._data}: {remedy}")

    def warn_of_impossible(self, words: Sequence[str], numbers: Sequence[int]) -> None:
        """Say which words of a call's vocabulary the model has no row for, of each once."""
        wordless = self._decoder.matrices.wordless()
        if new := self._not_named(word for word, number in zip(words, numbers, strict=True) if wordless[number]):
            logger.warning(
                f"{list_of(new)} without a row in the model: probability 0, but for a cache or the uniform distribution. "
                "Models of composed words have no such words."
            )

    def _not_named(self, words: Iterable[str]) -> list[str]:
        with self._naming:
            new = [word for word in words if word not in self._named]
            self._named.update(new)
        return new

    def grown(self) -> list[tuple[str, Entry, bool]]:
        """Return the words that were added, what they are made of, and whether they are single calls' own."""
        indices = self._decoder.dictionary.indices
        return [(word, entry, indices[word] in self.of_calls) for word, entry in self._decoder.matrices.added.items()]


def as_lines(lines: Any) -> list[str]:
    """Return a list of lines.

    Raises:
        OptionError: it is one text, or has something else.
    """
    if isinstance(lines, str):
        raise OptionError(f"lines: expected a list of them, not one text: [{shown(lines)}]")
    found = list(lines)
    if other := [line for line in found if not isinstance(line, str)]:
        raise OptionError(f"lines: expected texts, not {other[0]!r}")
    return found
