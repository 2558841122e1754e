"""Make the lexicon tables of a folder of binarised data."""

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.errors import DataError
from fairseq_groc.lexicon import (
    FileLexicon,
    Lexicon,
    PieceLexicon,
    RestrictedLexicon,
    SeveralLexicons,
    ThinnedLexicon,
    open_lexicons,
    sources_of,
)
from fairseq_groc.lexicon.tables import LexiconTables, build_tables
from fairseq_groc.lexicon.tables_file import save_tables
from fairseq_groc.logs import NOTICE
from fairseq_groc.pieces import word_of

logger = logging.getLogger(__name__)
NAMED = 5  # entries of each kind


def lexicon_of(args: Any, words: Sequence[str] | None = None, mark: str = "") -> Lexicon:
    """Return the lexicon that the options say.

    Args:
        words: of a dictionary: the entries of files that none of them gets are counted and named
        mark: of the words, if they are pieces

    Raises:
        LexiconError: a lexicon that cannot be read.
    """
    lexicon = open_lexicons(args.lexicon_path)
    if words is not None:
        whole = [word for word in (word_of(word, mark) for word in words) if word is not None]
        for source in lexicon.lexicons if isinstance(lexicon, SeveralLexicons) else [lexicon]:
            if isinstance(source, FileLexicon):
                _report_unused(source, whole)
    if mark:
        lexicon = PieceLexicon(lexicon, mark)
    if args.forms_from:
        lexicon = RestrictedLexicon(lexicon, load_dictionary(args.forms_from).symbols)
    return lexicon if args.keep_entries == 1 else ThinnedLexicon(lexicon, args.keep_entries)


def _report_unused(lexicon: FileLexicon, words: Sequence[str]) -> None:
    unused = lexicon.unused(words)
    long = {word: line for word, line in unused.items() if word.split() != [word]}
    absent = {word: line for word, line in unused.items() if word not in long}
    for what, some in (("are several words, which no text has as one", long), ("are of words that dict.txt lacks", absent)):
        if some:
            named = ", ".join(f"{word!r} (line {line})" for word, line in itertools.islice(some.items(), NAMED))
            more = ", ..." if len(some) > NAMED else ""
            logger.warning(f"{lexicon.path}: {len(some):,} of {len(lexicon):,} entries {what}: {named}{more}")


def make_tables(folder: Path, args: Any, mark: str = "") -> LexiconTables:
    """Build and save the tables of the dictionary in *folder* as the options say; its words may be pieces that are marked so.

    Raises:
        DataError: there is no dictionary.
        LexiconError: a lexicon cannot be read.
    """
    path = folder / "dict.txt"
    if not path.exists():
        raise DataError(f"{path} not found. Binarise the text first: scripts/preprocess.sh.")
    words = load_dictionary(path).symbols
    lexicon, sources = lexicon_of(args, words, mark), sources_of(args.lexicon_path)
    logger.log(NOTICE, f"looking {len(words):,} words up in the lexicon ({lexicon.name})")
    tables = build_tables(words, lexicon, args.max_relations, args.max_definition, sources)
    tables = replace(tables, origin=replace(tables.origin, piece_mark=mark))
    save_tables(folder, tables, words)
    return tables
