"""Write the output embeddings of all words of a data folder as word2vec text."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch

from fairseq_groc.arguments import add_model
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.loading import load
from fairseq_groc.files import check_place
from fairseq_groc.models.matrices_file import is_word2vec, write_word2vec


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="file to write; one that is there is replaced if it holds embeddings as text")
    add_model(parser)


def run(args: Namespace) -> None:
    check_place("OUT", args.out)
    if args.out.exists() and not is_word2vec(args.out):
        raise OptionError(f"{args.out} exists and holds no word2vec text: give another name")
    decoder = load(args.path, args.data, any_lexicon=args.any_lexicon).models[0].decoder
    with torch.no_grad():
        outputs = decoder.matrices.output_embeddings()
    rows = (~decoder.matrices.unpredictable()).nonzero().squeeze(1).tolist()
    write_word2vec(args.out, [decoder.dictionary[row] for row in rows], outputs[rows])
    print(f"{args.out}: {len(rows):,} words, {outputs.size(1)} numbers each")
