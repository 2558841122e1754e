"""Make the lexicon tables of a folder of binarised data."""

import logging
from pathlib import Path

from fairseq_groc.data.fingerprint import load_dictionary
from fairseq_groc.errors import DataError
from fairseq_groc.lexicon import Lexicon, RestrictedLexicon, ThinnedLexicon, open_lexicon
from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS, LexiconTables, build_tables, save_tables
from fairseq_groc.modules.probabilities import is_filler

logger = logging.getLogger(__name__)


def add_arguments(parser) -> None:
    parser.add_argument("data", help="folder with dict.txt")
    add_lexicon_arguments(parser)


def add_lexicon_arguments(parser) -> None:
    """Add the options that say which lexicon is read, and how much of it."""
    parser.add_argument(
        "--lexicon-path",
        help="a .tsv or .jsonl lexicon, a WordNet folder, 'none', or NAME or NAME:TEXT of one that is registered (default: this "
        "machine's WordNet)",
    )
    parser.add_argument("--max-relations", type=int, default=MAX_RELATIONS)
    parser.add_argument("--max-definition", type=int, default=MAX_DEFINITION)
    parser.add_argument("--keep-entries", type=float, default=1, metavar="SHARE", help="of relations, and of definitions")
    parser.add_argument("--forms-from", metavar="DICT", help="leave out relations and gloss words that this dict.txt has not")


def run(args) -> None:
    tables = make_tables(Path(args.data), open_chosen(args), args.max_relations, args.max_definition)
    covered = tables.coverage()
    print(
        f"{tables.num_words:,} entries, {tables.num_forms:,} forms; {covered['relations']:,} with relations, "
        f"{covered['definitions']:,} with a definition"
    )


def open_chosen(args) -> Lexicon:
    """Return the lexicon that the options say."""
    lexicon = open_lexicon(args.lexicon_path)
    if args.forms_from:
        lexicon = RestrictedLexicon(lexicon, load_dictionary(args.forms_from).symbols)
    return lexicon if args.keep_entries == 1 else ThinnedLexicon(lexicon, args.keep_entries)


def make_tables(folder: Path, lexicon: Lexicon, max_relations=MAX_RELATIONS, max_definition=MAX_DEFINITION) -> LexiconTables:
    """Build and save the tables of the dictionary in *folder*."""
    path = folder / "dict.txt"
    if not path.exists():
        raise DataError(f"{path} not found. Binarise the text first: scripts/preprocess.sh.")
    dictionary = load_dictionary(path)
    words = dictionary.symbols
    logger.info(f"looking {len(words):,} words up in the lexicon ({lexicon.name})")

    def is_word(index: int) -> bool:
        return index >= dictionary.nspecial and not is_filler(words[index])

    tables = build_tables(words, lexicon, is_word, max_relations, max_definition)
    save_tables(folder, tables, words)
    return tables
