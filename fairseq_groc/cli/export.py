"""Write the output embeddings of all words of a data folder as word2vec text."""

from pathlib import Path

import torch

from fairseq_groc.cli.score import add_any_lexicon, load
from fairseq_groc.modules.export import write_word2vec


def add_arguments(parser) -> None:
    parser.add_argument("out", help="file to write")
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="data folder with the vocabulary")
    add_any_lexicon(parser)


def run(args) -> None:
    decoder = load(args.path, args.data, any_lexicon=args.any_lexicon).models[0].decoder
    with torch.no_grad():
        _, outputs, _ = decoder.words()
    rows = (~decoder.words.unpredictable()).nonzero().squeeze(1).tolist()
    write_word2vec(Path(args.out), [decoder.dictionary[row] for row in rows], outputs[rows])
    print(f"{args.out}: {len(rows):,} words, {outputs.size(1)} numbers each")
