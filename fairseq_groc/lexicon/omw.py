"""A lexicon from a tab file of the Open Multilingual WordNet (Bond and Paik 2012), whose languages share WordNet 3.0's senses."""

import codecs
import hashlib
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path

from fairseq_groc.dictionary import is_symbol
from fairseq_groc.errors import LexiconError, shown
from fairseq_groc.lexicon.base import register_lexicon
from fairseq_groc.lexicon.numbered import VERSION, NumberedSenses
from fairseq_groc.lexicon.senses import SenseLexicon
from fairseq_groc.lexicon.wordnet import find_wordnet

logger = logging.getLogger(__name__)
_EXPECTED = "SYNSET TAB LANGUAGE:lemma TAB WORD, or SYNSET TAB LANGUAGE:def TAB NUMBER TAB TEXT, in UTF-8"
_FIRST = "# NAME TAB LANGUAGE"
_READ, _PASSED_OVER = ("lemma", "def"), ("exe", "lemma:brk", "lemma:root", "lemma:count")  # examples, inflections


@register_lexicon("omw")
class TabLexicon(SenseLexicon):
    """Read a tab file as it is: words and glosses come from the file, the hyponyms of its senses from WordNet 3.0.

    A word's senses come by how often WordNet's tagged texts use their English words, where that is the same nouns, verbs,
    adjectives, adverbs, and then by their numbers: the file has no order. The words of a sense are in the order of the file.

    Args:
        path: of the file, whose first line is ``# NAME TAB LANGUAGE``, with more fields behind

    Raises:
        LexiconError: no such file, a line that cannot be read, a second language, or no WordNet 3.0 on this machine.
    """

    def __init__(self, path: str):
        self.path = Path(path)
        try:
            raw = self.path.read_bytes()
        except OSError as error:
            raise LexiconError(f"--lexicon-path omw:{path}: {error.strerror}. Give a tab file of that WordNet.") from None
        self.name, self.language = self.path.name, ""
        self._wordnet = NumberedSenses(find_wordnet())
        self._digest = hashlib.sha256(raw).hexdigest()[:16]
        self._of_word: dict[str, dict[str, None]] = {}  # senses of words and words of senses: sets that keep the order
        self._of_sense: dict[str, dict[str, None]] = {}
        self._glosses: dict[str, str] = {}
        self._strange: dict[str, None] = {}
        for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
            try:
                self._add(line.decode("utf-8").rstrip("\r"))
            except ValueError as error:
                raise LexiconError(
                    f"{self.path}:{number}: cannot read this line ({error}); expected {_EXPECTED}. Mend the line or remove it."
                ) from None
        if not self._of_word:
            raise LexiconError(f"{self.path}: no word of WordNet {VERSION}'s senses; expected {_FIRST}, then {_EXPECTED}.")
        if self._strange:
            some = ", ".join(itertools.islice(self._strange, 3))
            logger.warning(f"{self.path}: {len(self._strange):,} senses are none of WordNet {VERSION}'s and are left out: {some}")
        self._lowered = {word.lower(): self._of_word[word] for word in reversed(self._of_word)}  # the first of several

    def _add(self, line: str) -> None:
        """Take what a line says.

        Raises:
            ValueError: it has another form, another language than the first, or what cannot be.
        """
        if line.startswith("#"):
            self.language = self.language or "".join(line.split("\t")[1:2]).strip()
        elif line.strip():
            self._add_fields(*_fields(line))

    def _add_fields(self, synset: str, language: str, kind: str, text: str) -> None:
        if not self.language:
            raise ValueError(f"no line {_FIRST} before it")
        if language not in ("", self.language):
            raise ValueError(f"language {shown(language)} after {shown(self.language)}: one language a file")
        if kind not in _READ:
            return
        sense = self._wordnet.number(synset)
        if sense is None:
            self._strange[synset] = None
        elif kind == "def":
            self._glosses.setdefault(sense, text)  # the first of several
        else:
            word = " ".join(text.replace("_", " ").split())
            if not word or "\x00" in word or is_symbol(word):
                raise ValueError(f"{shown(text)} is no word")
            self._of_word.setdefault(word, {})[sense] = None
            self._of_sense.setdefault(sense, {})[word] = None

    def fingerprint(self) -> str:
        return f"omw-{self._digest}-{self._wordnet.fingerprint()}"

    def _senses(self, word: str) -> Sequence[str]:
        lowered = word.lower()
        found = self._of_word.get(word) or self._of_word.get(lowered) or self._lowered.get(lowered, {})
        return sorted(found, key=lambda sense: (-self._wordnet.uses(sense), "nvar".index(sense[-1]), sense))

    def _label(self, sense: str) -> str:
        return self._wordnet.name(sense)

    def _lemmas(self, sense: str) -> Sequence[str]:
        return list(self._of_sense.get(sense, ()))

    def _hyponyms(self, sense: str) -> Sequence[str]:
        return self._wordnet.hyponyms(sense)

    def _definition(self, sense: str) -> str:
        return self._glosses.get(sense, "")


def _fields(line: str) -> tuple[str, str, str, str]:
    """Return the sense, the language, the kind and the text of a line.

    The sense is a number and a part of speech, as in 02121620-n, the language is empty where the line does not say it, the kind
    is lemma, def or another, and the text a word, or a gloss.

    Raises:
        ValueError: it has another form.
    """
    fields = line.split("\t")
    if not 3 <= len(fields) <= 4:
        raise ValueError(f"{len(fields)} tab-separated fields")
    known = (*_READ, *_PASSED_OVER)
    language, kind = ("", fields[1]) if fields[1] in known else fields[1].split(":", 1) if ":" in fields[1] else ("", "")
    if kind not in known or (kind == "lemma" and len(fields) == 4):
        raise ValueError(f"{shown(fields[1])} before {len(fields) - 2} fields")
    return fields[0], language, kind, fields[-1]
