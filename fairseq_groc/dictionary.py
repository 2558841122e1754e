"""What a ``dict.txt`` is: words by number, and among them entries of fairseq's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_groc.errors import DataError, shown
from fairseq_groc.files import has_mark

if TYPE_CHECKING:
    from fairseq.data import Dictionary

NAMED = 20  # words that one message names
ADD_WORDS = "Add them: model.add_words, or scripts/preprocess.sh --vocabulary-from DATA --test FILE --dest DIR"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # what every dictionary begins with
EOS, UNK = SPECIAL.index("</s>"), SPECIAL.index("<unk>")


def is_filler(word: str) -> bool:
    """Say whether fairseq made *word* up to fill its dictionary to a multiple of 8."""
    return word.startswith("madeupword") and word[10:].isdigit() and len(word) == 14


def is_symbol(word: str) -> bool:
    """Say whether *word* is an entry of fairseq's own: a special one, or a filler."""
    return word in SPECIAL or is_filler(word)


def is_predictable(word: str) -> bool:
    """Say whether texts can have *word*: a word, ``</s>`` or ``<unk>``, but not ``<s>``, ``<pad>`` and fillers."""
    return word not in SPECIAL[:EOS] and not is_filler(word)


def predictable_words(words: Sequence[str]) -> list[bool]:
    """Say of every entry of a dictionary whether it may be predicted."""
    return list(map(is_predictable, words))


def real_words(words: Sequence[str]) -> list[bool]:
    """Say of every entry of a dictionary whether it is a word."""
    return [not is_symbol(word) for word in words]


def spelling(word: str) -> bytes:
    """Return a word's bytes, as fairseq reads them from any file."""
    return word.encode("utf-8", "surrogateescape")


def words_fingerprint(words: Sequence[str]) -> str:
    """Return a fingerprint of a dictionary: its words in their order, not their counts."""
    return hashlib.sha256(spelling("\n".join(words))).hexdigest()[:16]


def list_of(words: Sequence[str]) -> str:
    """Return words as a message has them, and how many more there are."""
    more = f" and {len(words) - NAMED:,} more are" if len(words) > NAMED else " is" if len(words) == 1 else " are"
    return ", ".join(map(shown, words[:NAMED])) + more


def load_dictionary(path: Path, kind: type[Dictionary] | None = None) -> Dictionary:
    """Load a ``dict.txt`` as a dictionary of some kind; None: fairseq's own.

    Raises:
        DataError: fairseq cannot read it, it has no words, a word twice or one that no text can have, or a negative count.
    """
    from fairseq.data import Dictionary  # here: the rest needs no fairseq

    dictionary = (kind or Dictionary)()
    try:
        with open(path, "rb") as head:
            encoding = "utf-8-sig" if has_mark(head.read(3), str(path)) else "utf-8"
        with open(path, encoding=encoding) as file:
            dictionary.add_from_file(file)
        _check_words(dictionary)
    except Exception as error:  # fairseq raises no narrower one
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: {reason} Mend the file, or binarise the text again: scripts/preprocess.sh.") from None
    return dictionary


def _check_words(dictionary: Dictionary) -> None:
    words = dictionary.symbols[dictionary.nspecial :]
    if all(map(is_filler, words)):
        raise DataError("no words: expected a word and its count on each line.")
    if len(dictionary.indices) < len(dictionary):
        word = next(word for i, word in enumerate(dictionary.symbols) if dictionary.indices[word] != i)
        raise DataError(f"has {word!r} twice.")
    for word, count in zip(words, dictionary.count[dictionary.nspecial :], strict=True):
        if word.split() != [word]:
            raise DataError(f"{word!r} has blanks or nothing in it: no text can have this word.")
        if "\x00" in word:
            raise DataError(f"{word!r} has a NUL character: no text can have this word.")
        if count < 0:
            raise DataError(f"{word!r} has the count {count}: expected 0 or more.")
