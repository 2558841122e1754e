"""What the entries of a fairseq dictionary are."""

from __future__ import annotations

import hashlib
from typing import List, Sequence


def predictable_words(words: Sequence[str]) -> List[bool]:
    """Say of every entry of a fairseq dictionary whether it may be predicted.

    ``</s>`` and ``<unk>`` may; ``<s>``, ``<pad>`` and the ``madeupword`` fillers are no words of any text.
    """
    return [i >= 4 and not is_filler(word) or i in (2, 3) for i, word in enumerate(words)]


def is_filler(word: str) -> bool:
    """Say whether fairseq made *word* up to fill its dictionary to a multiple of 8."""
    return word.startswith("madeupword") and word[10:].isdigit() and len(word) == 14


def words_fingerprint(words: Sequence[str]) -> str:
    """Return a fingerprint of a dictionary: its words in their order, not their counts."""
    joined = "\n".join(words).encode("utf-8", "surrogateescape")
    return hashlib.sha256(joined).hexdigest()[:16]
