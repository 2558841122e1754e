"""Show which words a context makes more probable than nothing does: by the scores of words alone, or as measured on text."""

from argparse import ArgumentParser, Namespace
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.arguments import add_out, add_text, positive
from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.contexts.typed import MISSING
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.context_pictures import draw_boosts
from fairseq_groc.evaluation.in_context import boosts, word_gains
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.results import write_json


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser, split="valid")
    parser.set_defaults(sample_break_mode="eos")
    parser.add_argument("--contexts", nargs="+", required=True, metavar="NAME=VALUE,...", help="one or more")
    parser.add_argument("--top", type=positive, default=10, help="words to show of each")
    parser.add_argument("--measured", action="store_true", help="on the text, by mean log-probabilities in the place of scores")
    parser.add_argument("--min-count", type=positive, default=5, help="with --measured: of a word in the text")
    parser.add_argument("--batch-size", type=positive, default=50, help="lines at a time")
    add_out(parser)


def run(args: Namespace) -> None:
    if args.context not in (None, MISSING):
        raise OptionError(f"--context {args.context}: --contexts says which are compared. Leave it out, or give {MISSING}.")
    hub, dataset = open_split(args)
    if hub.task.schema is None:
        raise OptionError("--contexts: this model reads none. Give one that was trained with --context-dim.")
    decoder, contexts = hub.models[0].decoder, [hub.task.schema.parse(text) for text in args.contexts]
    missing = hub.task.schema.parse(MISSING)
    if args.measured:
        rows = []
        for context in contexts:
            sums, counts = word_gains(hub.models[0], dataset, context, missing, args.batch_size, hub.task.block_length())
            rows.append(torch.where(counts >= args.min_count, sums / counts.clamp(min=1), -torch.inf))
        gains = torch.stack(rows)
    else:
        *scores, nothing = boosts(decoder, Contexts.joined([*contexts, missing])).double()
        shown = decoder.real_words() & ~decoder.matrices.unpredictable()  # others have no score to compare
        gains = torch.stack(scores) - nothing
        gains -= gains[:, shown].mean(1, keepdim=True)  # what a context adds to all scores changes no probability
        gains = gains.masked_fill(~shown, -torch.inf)
    found = {text: top_words(decoder.dictionary, row, args.top) for text, row in zip(args.contexts, gains, strict=True)}
    if not any(found.values()):
        raise OptionError("--contexts: no word gains in them. Give others, or with --measured a smaller --min-count.")
    for text, words in found.items():
        print(f"{escaped(text)}: " + (", ".join(f"{escaped(one['word'])} {one['gain']:+.2f}" for one in words) or "no word"))
    if args.out:
        write_json(args.out, {"path": args.path, "measured": args.measured, "contexts": found})
        draw_boosts(found, args.out.with_suffix(".png"))


def top_words(dictionary: Any, gains: Tensor, count: int) -> list[dict[str, Any]]:
    """Return the words with the largest gains above 0, nats.

    Args:
        gains: of every word, -inf: not to be shown, (V)
    """
    values, numbers = gains.topk(min(count, int((gains > 0).sum())))
    return [{"word": dictionary[int(n)], "gain": float(value)} for value, n in zip(values, numbers, strict=True)]
