"""WordNet 3.0's senses by their numbers, which the lexicons of other languages name."""

import bisect
import functools
from pathlib import Path
from typing import Any

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import WordNetLexicon, hyponyms_of

_KINDS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
VERSION = "3.0"
_MOVED = 32  # bytes, less than any line has


class NumberedSenses:
    """How often senses are used, and which are below which. A number is OFFSET-KIND, as in 02121620-n.

    Args:
        path: folder of WordNet

    Raises:
        LexiconError: another version, whose numbers are others, or it lacks files.
    """

    def __init__(self, path: Path):
        wordnet = WordNetLexicon(path)
        self._reader, self._fingerprint = wordnet.database, wordnet.fingerprint()
        if (version := self._reader.get_version()) != VERSION:
            raise LexiconError(f"{path}: WordNet {version}, expected {VERSION}, which other languages number senses by.")
        self._offsets = {kind: _offsets(path / f"data.{name}") for kind, name in _KINDS.items()}

    def fingerprint(self) -> str:
        return self._fingerprint

    def number(self, text: str) -> str | None:
        """Return the number that a sense has on this machine, a satellite adjective as an adjective; None: no sense has it.

        A sense's number is where its line begins. Debian has mended WordNet's texts, so that some lines begin a few bytes later.
        """
        offset, _, kind = text.partition("-")
        kind = "a" if kind == "s" else kind
        if kind not in _KINDS or not offset.isdecimal():
            return None
        offsets = self._offsets[kind]
        place = bisect.bisect_left(offsets, int(offset))
        if place == len(offsets) or offsets[place] >= int(offset) + _MOVED:
            return None
        return f"{offsets[place]:08d}-{kind}"

    @functools.cache  # noqa: B019
    def name(self, number: str) -> str:
        """Return what English calls a sense, as in cat.n.01."""
        return self._sense(number).name()

    @functools.cache  # noqa: B019
    def uses(self, number: str) -> int:
        """Return how often tagged texts use a sense's English words in this sense."""
        return sum(lemma.count() for lemma in self._sense(number).lemmas())

    def hyponyms(self, number: str) -> list[str]:
        """Return the senses below one, in the order of the database."""
        below = hyponyms_of(self._sense(number))
        return [f"{sense.offset():08d}-{'a' if sense.pos() == 's' else sense.pos()}" for sense in below]

    def _sense(self, number: str) -> Any:
        offset, kind = number.split("-")
        return self._reader.synset_from_pos_and_offset(kind, int(offset))


def _offsets(path: Path) -> list[int]:
    """Return where the lines of a data file begin, in order; the licence is in front of them."""
    return sorted(int(line[:8]) for line in path.read_bytes().split(b"\n") if line[:8].isdigit())
