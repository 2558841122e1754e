"""What lexicons of senses in any one language share: from a word's senses to its entry."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from fairseq_groc.lexicon.base import Entry, Relation, gloss_words


class SenseLexicon(ABC):
    """Synonyms, hyponyms and glosses of words in one language (GroC, section 3.1).

    Relations are single-token lemmas of all senses, synonyms before hyponyms, never the word itself, none of them twice in other
    letters' case. The gloss is that of the first sense that has one in this language; there may be none. A word is looked up as
    it is, then lower-cased, then whatever the case. A word in small letters has relations in small letters: texts in lower case
    write *katze*, lexicons *Katze*.
    """

    name: str
    language = ""  # ISO 639 or BCP 47; nothing: it finds inflected words by itself

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a string that changes whenever an answer of the lexicon could."""

    @abstractmethod
    def _senses(self, word: str) -> Sequence[Any]:
        """Return the senses of a word that is written in one of the ways above, the most important first."""

    @abstractmethod
    def _label(self, sense: Any) -> str:
        """Return what ``explain`` calls a sense."""

    @abstractmethod
    def _lemmas(self, sense: Any) -> Sequence[str]:
        """Return the words of a sense."""

    @abstractmethod
    def _hyponyms(self, sense: Any) -> Sequence[Any]:
        """Return the senses below a sense, always in the same order."""

    @abstractmethod
    def _definition(self, sense: Any) -> str:
        """Return a sense's gloss; empty: it has none."""

    def __contains__(self, word: str) -> bool:
        return bool(word.strip() and self._senses(word))

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        senses = self._senses(word) if word.strip() else ()
        relations: dict[str, Relation] = {}
        for related, source in self._related(senses):
            if len(relations) == max_relations:
                break
            if related.split() == [related] and related.lower() != word.lower():
                relations.setdefault(self._same(related), Relation(self._written(related, word), source))
        glosses = ((gloss, self._label(sense)) for sense in senses if (gloss := gloss_words(self._definition(sense))))
        gloss, source = next(glosses, ([], ""))
        return Entry(tuple(relations.values()), tuple(gloss[:max_definition]), source)

    def _same(self, related: str) -> str:
        """Return what two spellings of a relation share."""
        return related.lower()

    def _written(self, related: str, word: str) -> str:
        """Return a relation of a word as it is written beside it."""
        return related.lower() if word == word.lower() else related

    def _related(self, senses: Sequence[Any]) -> Iterator[tuple[str, str]]:
        """Yield ``(lemma, source)``, best first; a lemma may come twice."""
        yield from self._synonyms(senses)
        for sense in senses:
            for hyponym in self._hyponyms(sense):
                for lemma in self._lemmas(hyponym):
                    yield lemma, f"hyponym {self._label(hyponym)} of {self._label(sense)}"

    def _synonyms(self, senses: Sequence[Any]) -> Iterator[tuple[str, str]]:
        for sense in senses:
            for lemma in self._lemmas(sense):
                yield lemma, f"synonym in {self._label(sense)}"
