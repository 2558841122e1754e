"""Score a checkpoint with a share of the lexicon's entries: what its coverage is worth (GroC, Table 4)."""

import os
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch

from fairseq_groc.arguments import add_lexicon_path, add_out, add_text, natural, share
from fairseq_groc.data.lexicon_tables import make_tables
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.loading import data_lexicon, open_split
from fairseq_groc.evaluation.results import aligned, check_out, pyplot, save_figure, write_json
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.lexicon import ThinnedLexicon
from fairseq_groc.lexicon.tables_file import FOLDER
from fairseq_groc.modules.probabilities import perplexity


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser)
    parser.add_argument("--shares", type=share, nargs="+", default=(0, 0.2, 0.4, 0.6, 0.8, 1), help="of the entries to keep")
    parser.add_argument("--seed", type=natural, default=1, help="of the draw of words that keep theirs")
    add_out(parser)
    add_lexicon_path(parser, "what is thinned: that of the data's tables")
    parser.set_defaults(any_lexicon=True)  # a share of a lexicon is another one


def run(args: Namespace) -> None:
    check_out(args.out)
    origin = open_split(args)[0].models[0].decoder.origin
    lexicon = data_lexicon(origin, args.lexicon_path)
    if lexicon is None:
        raise OptionError(f"{args.path}: its words are not made of a lexicon's entries")
    whole = ThinnedLexicon(lexicon, 1, args.seed)
    rows = [measured(args, whole.with_share(kept), origin.limits) for kept in sorted(args.shares)]
    shares = [[f"{row['share']:.0%}", f"{row['relations']:.1%}", f"{row['definitions']:.1%}"] for row in rows]
    lines = [[*row, f"{found['perplexity']:,.2f}"] for row, found in zip(shares, rows, strict=True)]
    print(aligned(["kept", "with relations", "with a definition", "perplexity"], lines, names=0))
    if args.out:
        write_json(args.out, {"path": args.path, "data": args.data, "split": args.split, "seed": args.seed, "rows": rows})
        draw(rows, args.out.with_suffix(".png"))


def measured(args: Namespace, lexicon: ThinnedLexicon, limits: tuple[int, int]) -> dict[str, Any]:
    """Return the perplexity with a lexicon, and the shares of words that it has relations and definitions of.

    Args:
        limits: relations and gloss words of a word, at most
    """
    with tempfile.TemporaryDirectory(prefix="groc-coverage-") as folder:
        for path in Path(args.data).resolve().iterdir():
            if path.name != FOLDER:
                os.symlink(path, Path(folder, path.name))
        tables = make_tables(Path(folder), lexicon, *limits)
        hub, dataset = open_split(Namespace(**{**vars(args), "data": folder}))
        found = score(hub.models[0], dataset, Place(1, hub.task.block_length()))
    lprobs, num_words = torch.cat(found.adapted), int((~hub.models[0].decoder.matrices.impossible).sum())
    covered = {part: number / num_words for part, number in tables.coverage().items()}
    return {"share": lexicon.share, **covered, "perplexity": perplexity(float(-lprobs.double().sum()), len(lprobs))}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save perplexity against coverage."""
    figure, axes = pyplot().subplots(figsize=(5.5, 3.8))
    axes.plot([100 * row["definitions"] for row in rows], [row["perplexity"] for row in rows], marker="o")
    axes.set(xlabel="words with a definition, %", ylabel="perplexity")
    save_figure(figure, path)
