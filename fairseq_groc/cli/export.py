"""Write the output embeddings of all words of a data folder as word2vec text, or the whole model for programs without fairseq."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch

from fairseq_groc.arguments import add_model
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.loading import load_as
from fairseq_groc.evaluation.stored import tuned_adapters
from fairseq_groc.files import check_place
from fairseq_groc.logs import WARNINGS, at_least
from fairseq_groc.models.matrices_file import is_word2vec, write_word2vec
from fairseq_groc.serving.exporting import check_folder, write_service


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "out", type=Path, nargs="?", help="file to write; one that is there is replaced if it holds embeddings as text"
    )
    parser.add_argument(
        "--service",
        type=Path,
        metavar="DIR",
        help="folder to write instead: a service.py that scores and adds words, and its files",
    )
    add_model(parser, context=False)


def run(args: Namespace) -> None:
    if (args.out is None) == (args.service is None):
        raise OptionError("export: expected OUT, a file for embeddings as text, or --service DIR, one of them")
    if args.service is not None:
        check_folder(args.service)
    else:
        check_place("OUT", args.out)
        if args.out.exists() and not is_word2vec(args.out):
            raise OptionError(f"{args.out} exists and holds no word2vec text: give another name")
    decoder = load_as(args).models[0].decoder
    if args.service is not None:
        with at_least(WARNINGS):
            without = "; without its tuned adapters" if tuned_adapters(Path(args.data), decoder) else ""
        write_service(decoder, args.service)
        adds = "adds words" if decoder.matrices.embedding.reads_spellings else "adds no words: each has a row"
        print(f"{args.service}: {int(decoder.real_words().sum()):,} words; {adds}{without}")
        return
    with torch.no_grad():
        outputs = decoder.matrices.output_embeddings()
    rows = (~decoder.matrices.unpredictable()).nonzero().squeeze(1).tolist()
    write_word2vec(args.out, [decoder.dictionary[row] for row in rows], outputs[rows])
    print(f"{args.out}: {len(rows):,} words, {outputs.size(1)} numbers each")
