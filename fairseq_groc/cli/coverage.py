"""Score a checkpoint with a share of the lexicon's entries: what its coverage is worth (GroC, Table 4)."""

import logging
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from fairseq_groc.arguments import add_lexicon_path, add_out, add_text, natural, share
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.loading import data_lexicon, open_split
from fairseq_groc.evaluation.results import aligned, pyplot, save_figure, write_json
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.lexicon import ThinnedLexicon
from fairseq_groc.lexicon.tables import build_tables
from fairseq_groc.logs import NOTICE
from fairseq_groc.modules.probabilities import perplexity
from fairseq_groc.tasks.building import vocabulary_of_tables

logger = logging.getLogger(__name__)


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser)
    parser.add_argument("--shares", type=share, nargs="+", default=(0, 0.2, 0.4, 0.6, 0.8, 1), help="of the entries to keep")
    parser.add_argument("--seed", type=natural, default=1, help="of the draw of words that keep theirs")
    add_out(parser)
    add_lexicon_path(parser, "what is thinned: that of the data's tables")


def run(args: Namespace) -> None:
    hub, dataset = open_split(args)
    model, place = hub.models[0], Place(1, hub.task.block_length())
    lexicon = data_lexicon(model.decoder.origin, args.lexicon_path)
    if lexicon is None:
        raise OptionError(f"{args.path}: its words are not made of a lexicon's entries")
    whole = ThinnedLexicon(lexicon, 1, args.seed)
    rows = [measured(model, dataset, place, whole.with_share(kept)) for kept in sorted(args.shares)]
    shares = [[f"{row['share']:.0%}", f"{row['relations']:.1%}", f"{row['definitions']:.1%}"] for row in rows]
    lines = [[*row, f"{found['perplexity']:,.2f}"] for row, found in zip(shares, rows, strict=True)]
    print(aligned(["kept", "with relations", "with a definition", "perplexity"], lines, names=0))
    if args.out:
        write_json(args.out, {"path": args.path, "data": args.data, "split": args.split, "seed": args.seed, "rows": rows})
        draw(rows, args.out.with_suffix(".png"))


def measured(model: Any, dataset: StreamDataset, place: Place, lexicon: ThinnedLexicon) -> dict[str, Any]:
    """Return the perplexity with a lexicon, and the shares of words that it has relations and definitions of."""
    decoder = model.decoder
    logger.log(NOTICE, f"scoring with {lexicon.share:.0%} of the entries")
    tables = build_tables(dataset.dictionary.symbols, lexicon, *decoder.origin.limits)
    matrices = decoder.matrices
    vocabulary = vocabulary_of_tables(tables, decoder.settings, matrices.vocabulary.spelled)
    matrices.vocabulary = vocabulary.to(matrices.impossible.device)
    lprobs, num_words = score(model, dataset, place).adapted, int(decoder.real_words().sum())
    covered = {part: number / num_words for part, number in tables.coverage().items()}
    return {"share": lexicon.share, **covered, "perplexity": perplexity(float(-lprobs.double().sum()), len(lprobs))}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save perplexity against coverage."""
    figure, axes = pyplot().subplots(figsize=(5.5, 3.8))
    axes.plot([100 * row["definitions"] for row in rows], [row["perplexity"] for row in rows], marker="o")
    axes.set(xlabel="words with a definition, %", ylabel="perplexity")
    save_figure(figure, path)
