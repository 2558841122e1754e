"""WordNet as a lexicon, read through NLTK."""

import io
import logging
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairseq_groc.errors import LexiconError
from fairseq_groc.files import digest
from fairseq_groc.lexicon.base import register_lexicon
from fairseq_groc.lexicon.senses import SenseLexicon
from fairseq_groc.logs import NOTICE

logger = logging.getLogger(__name__)

_DATA_FILES = [f"{kind}.{pos}" for kind in ("index", "data") for pos in ("noun", "verb", "adj", "adv")]
_TAG_COUNTS = "cntlist.rev"
NOUNS_FIRST = "wordnet_nouns_first"
_LEXNAMES = 45  # lexicographer files of WordNet 3.x; NLTK wants a line for each, their names are never read here


def system_directories() -> list[Path]:
    """Where a WordNet that is not NLTK's may lie: this environment, then Debian's ``wordnet-base``."""
    return [Path(sys.prefix) / "share" / "wordnet", Path("/usr/share/wordnet"), Path("/usr/local/share/wordnet")]


def find_wordnet(lexicon_path: str | Path | None = None, download: bool = True) -> Path:
    """Return the folder of the WordNet database files.

    Looks at *lexicon_path*, NLTK's data paths, a system WordNet, and last lets NLTK download it.

    Raises:
        LexiconError: none of them has it; the message names the commands that would mend that.
    """
    if lexicon_path:
        path = Path(lexicon_path)
        if not _is_wordnet(path):
            raise LexiconError(
                f"--lexicon-path {path}: no WordNet there (expected {', '.join(_DATA_FILES[:2])}, ...). "
                "Give the folder that holds these files, or a .tsv or .jsonl file."
            )
        return path
    found = _find_nltk() or next(filter(_is_wordnet, system_directories()), None)
    if found is None and download:
        logger.log(NOTICE, "no WordNet on this machine: asking NLTK to download it")
        found = _download_nltk()
    if found is None:
        raise LexiconError(
            "no WordNet found. Run one of: `python -m nltk.downloader wordnet`; `apt-get install wordnet-base`; "
            "or give its folder with --lexicon-path DIR."
        )
    return found


def _is_wordnet(path: Path) -> bool:
    return all((path / name).is_file() for name in _DATA_FILES)


def _find_nltk() -> Path | None:
    import nltk

    for root in nltk.data.path:
        folder = Path(root) / "corpora" / "wordnet"
        archive = folder.with_suffix(".zip")
        if not _is_wordnet(folder) and archive.is_file() and os.access(archive.parent, os.W_OK):
            with suppress(zipfile.BadZipFile), zipfile.ZipFile(archive) as packed:  # a download that was cut is none
                packed.extractall(archive.parent)
        if _is_wordnet(folder):
            return folder
    return None


def _download_nltk() -> Path | None:
    import nltk

    target = str(Path(sys.prefix) / "nltk_data")
    if not nltk.download("wordnet", download_dir=target, quiet=True):
        return None
    return _find_nltk()


def _reader(path: Path) -> Any:
    """Open the database at *path*; the file ``lexnames``, which Debian leaves out, is not needed."""
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        def open(self, file: str) -> Any:
            if file == "lexnames":
                return io.StringIO("".join(f"{i:02d}\tunnamed\t0\n" for i in range(_LEXNAMES)))
            return super().open(file)

        def map_wn(self, version: str = "wordnet") -> None:  # the mapping to other languages, which would want a second WordNet
            return None

    path = path.resolve()
    if str(path) not in nltk.data.path:
        nltk.data.path.append(str(path))  # NLTK >= 3.10 reads below its data paths only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Reader(nltk.data.FileSystemPathPointer(str(path)), None)


@register_lexicon("wordnet")
class WordNetLexicon(SenseLexicon):
    """Synonyms, hyponyms and glosses of English words (GroC, section 3.1 and appendix B.1).

    A word's senses come by how often its text corpora tag them, whatever their part of speech, and in WordNet's own order where
    that is the same. Relations are single-token lemmas of all senses, synonyms before hyponyms, never the word itself, none of
    them twice in other letters' case. The gloss is the first sense's, without its examples and their authors. Look-up is
    lower-cased, with WordNet's own morphology (dogs -> dog). Not thread-safe, as NLTK's reader is not.

    Args:
        path: folder of WordNet; by default this machine's

    Raises:
        LexiconError: there is no WordNet, or the folder has no tag counts.
    """

    name = "wordnet"
    _files = [*_DATA_FILES, _TAG_COUNTS]  # what answers depend on

    def __init__(self, path: str | Path | None = None):
        self.path = find_wordnet(path)
        if missing := [name for name in self._files if not (self.path / name).is_file()]:
            raise LexiconError(
                f"{self.path}: no {missing[0]}, which says how often each sense is used. Give the folder of a whole WordNet, or "
                f"--lexicon-path {NOUNS_FIRST}, which does without."
            )
        self.database = _reader(self.path)  # NLTK's

    def fingerprint(self) -> str:
        return f"wordnet-by-use-{self._digest()}"

    def _digest(self) -> str:
        return digest(*(self.path / name for name in self._files))[:16]

    def _senses(self, word: str) -> Sequence[Any]:
        """Return the senses of a word in any letters' case, the most used first."""
        senses = self.database.synsets(word.lower())
        forms = {form for pos in "nvar" for form in self.database._morphy(word.lower(), pos)}  # morphy() gives the first alone
        return sorted(senses, key=lambda sense: -sum(lemma.count() for lemma in sense.lemmas() if lemma.name().lower() in forms))

    def _label(self, sense: Any) -> str:
        return sense.name()

    def _lemmas(self, sense: Any) -> Sequence[str]:
        return [lemma.replace("_", " ") for lemma in sense.lemma_names()]

    def _hyponyms(self, sense: Any) -> Sequence[Any]:
        return hyponyms_of(sense)

    def _definition(self, sense: Any) -> str:
        """Return a sense's definition: NLTK cuts the examples out, and leaves "- AUTHOR" of those that are quotations."""
        parts = (part.strip() for part in sense.definition().split(";"))
        return "; ".join(part for part in parts if not part.startswith("-"))

    def _written(self, related: str, word: str) -> str:
        return related

    def examples(self) -> Iterator[tuple[str, str]]:
        """Yield ``(part of speech, example sentence)`` for every usage example of the database."""
        for pos in "nvar":
            for sense in self.database.all_synsets(pos):
                for example in sense.examples():
                    yield pos, example


@register_lexicon(NOUNS_FIRST)
class NounsFirstLexicon(WordNetLexicon):
    """WordNet in NLTK's order of senses, nouns first: *be* is beryllium, *was* Washington. What 0.1.0 had for WordNet.

    Relations that differ in case alone count as two, and the authors of quotations as words of a gloss.
    """

    name = "wordnet, nouns first"
    _files = _DATA_FILES

    def fingerprint(self) -> str:
        return f"wordnet-{self._digest()}"

    def _senses(self, word: str) -> Sequence[Any]:
        return self.database.synsets(word.lower())

    def _definition(self, sense: Any) -> str:
        return sense.definition()

    def _same(self, related: str) -> str:
        return related


@register_lexicon("synonyms")
class SynonymLexicon(NounsFirstLexicon):
    """The same with synonyms alone for relations, by the alphabet, as released GroC models have them."""

    name = "wordnet's synonyms by the alphabet"

    def fingerprint(self) -> str:
        return f"synonyms-{super().fingerprint()}"

    def _related(self, senses: Sequence[Any]) -> Iterator[tuple[str, str]]:
        return iter(sorted(self._synonyms(senses)))


def hyponyms_of(sense: Any) -> list[Any]:
    """Return a sense's hyponyms in the order of the database: NLTK keeps them in a set, whose order changes from run to run."""
    return sorted(sense.hyponyms(), key=lambda synset: (synset.pos(), synset.offset()))
