"""A lexicon that finds inflected words by their dictionary forms, which the package simplemma knows in some 50 languages."""

from fairseq_groc.errors import LexiconError, imported
from fairseq_groc.lexicon.base import Entry, Lexicon, Relation
from fairseq_groc.lexicon.senses import SenseLexicon


class LemmaLexicon:
    """A word that another lexicon lacks has the entry of its dictionary form, and that form as its first relation.

    Args:
        lexicon: the other one, which says what language it has

    Raises:
        LexiconError: the package is missing, or the lexicon says no language, or one that the package does not know.
    """

    def __init__(self, lexicon: Lexicon):
        path = f"--lexicon-path lemmas:{lexicon.name}"
        if not isinstance(lexicon, SenseLexicon) or not lexicon.language:
            raise LexiconError(f"{path}: this lexicon says no language. Give lemmas:omw:FILE or lemmas:wn:NAME.")
        missing = LexiconError(f"{path}: the package simplemma has dictionary forms: pip install simplemma")
        simplemma = imported("simplemma", missing)
        from nltk.langnames import iso639short

        code = lexicon.language.partition("-")[0]
        self.language = iso639short.get(code, code)  # of two letters where there is one
        try:
            simplemma.lemmatize("a", self.language)
        except ValueError:
            raise LexiconError(
                f"{path}: simplemma has no dictionary forms in {lexicon.language!r}. Give the lexicon without lemmas:"
            ) from None
        self._lexicon, self._lemmatize, self._version = lexicon, simplemma.lemmatize, simplemma.__version__
        self.name = f"{lexicon.name} by dictionary forms"

    def fingerprint(self) -> str:
        return f"lemmas-{self._version}-{self._lexicon.fingerprint()}"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        form = self._form(word)
        if form is None:
            return self._lexicon.lookup(word, max_relations, max_definition)
        entry = self._lexicon.lookup(form, max_relations, max_definition)
        others = (relation for relation in entry.relations if relation.word.lower() != word.lower())
        relations = (Relation(form, f"dictionary form of {word}"), *others)[:max_relations]
        return Entry(relations, entry.definition, entry.definition_source)

    def _form(self, word: str) -> str | None:
        """Return the dictionary form of a word that the lexicon has by it alone; None: there is none."""
        if not word.strip() or word in self._lexicon:
            return None
        form = self._lemmatize(word, self.language)
        form = form.lower() if word == word.lower() else form
        return form if form.split() == [form] and form.lower() != word.lower() and form in self._lexicon else None
