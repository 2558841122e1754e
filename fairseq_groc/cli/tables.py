"""Make the lexicon tables of a folder of binarised data."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from fairseq_groc.arguments import add_lexicon_options
from fairseq_groc.data.fingerprint import piece_mark
from fairseq_groc.data.lexicon_tables import make_tables


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", help="folder with dict.txt")
    add_lexicon_options(parser)


def run(args: Namespace) -> None:
    tables = make_tables(Path(args.data), args, piece_mark(Path(args.data)))
    covered = tables.coverage()
    print(
        f"{tables.num_words:,} entries, {tables.num_forms:,} forms; {covered['relations']:,} with relations, "
        f"{covered['definitions']:,} with a definition"
    )
