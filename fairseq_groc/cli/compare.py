"""Compare models on one text, line by line (evaluate --losses): perplexities, their ratio, and how sure it is."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_groc.arguments import add_out, natural, share, whole
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.evaluation.comparison import paired_bootstrap, seeds
from fairseq_groc.evaluation.line_losses import NATS, PARTS, TOKENS, Sums, read_losses
from fairseq_groc.evaluation.report import NAMES
from fairseq_groc.evaluation.results import aligned, write_json

FEWEST = 2  # lines that can be drawn


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("losses", nargs="+", type=Path, help="files of model A, one a seed; or, without --against, of A and of B")
    parser.add_argument("--against", nargs="+", type=Path, metavar="FILE", help="files of model B, one a seed")
    parser.add_argument("--confidence", type=share, default=0.95, help="level of the intervals")
    draws = "how often the text's lines are drawn anew"
    parser.add_argument("--resamples", type=lambda text: whole(text, 100), default=10_000, help=draws)
    parser.add_argument("--seed", type=natural, default=1, help="seed of the draws")
    add_out(parser, drawn=False)


def run(args: Namespace) -> None:
    if not 0 < args.confidence < 1:
        raise OptionError(f"--confidence {args.confidence:g}: expected a number between 0 and 1, as 0.95")
    ours, theirs = sides(args)
    read = [read_losses(path) for path in [*ours, *theirs]]
    check_same_text(list(zip([*ours, *theirs], (words for _, words in read), strict=True)))
    sums = [found for found, _ in read]
    a, b = sums[: len(ours)], sums[len(ours) :]
    check_possible(zip([*ours, *theirs], sums, strict=True))
    parts = [part for part in PARTS if sums[0][part + TOKENS].any() and agreed(sums, part)]
    compared = {part: compare(args, part, a, b) for part in parts}
    print(table(compared))
    lines = len(read[0][1])
    print(
        f"A: {', '.join(map(str, ours))}\nB: {', '.join(map(str, theirs))}\n"
        f"A / B below 1: A is better; {args.confidence:.0%} interval of {args.resamples:,} draws of the text's {lines:,} lines"
    )
    if left := [NAMES[part] for part in PARTS if not agreed(sums, part)]:
        print(f"not compared: {' and '.join(left)}: the files do not agree on which these are")
    if args.out:
        about = {"a": [*map(str, ours)], "b": [*map(str, theirs)], "lines": lines, "unit": "nats"}
        about |= {"confidence": args.confidence, "resamples": args.resamples, "seed": args.seed}
        write_json(args.out, {**about, **compared})


def sides(args: Namespace) -> tuple[list[Path], list[Path]]:
    """Return the files of A and of B.

    Raises:
        OptionError: nothing says which are B's, or a file counts twice.
    """
    ours, theirs = args.losses, args.against
    if theirs is None:
        if len(ours) != 2:
            raise OptionError(f"{len(ours)} files: expected those of A and of B, or A's files and --against B's files")
        ours, theirs = ours[:1], ours[1:]
    for side in (ours, theirs):
        if twice := [path for path in side if side.count(path) > 1]:
            raise OptionError(f"{twice[0]} is given twice for one model: give a file for each seed")
    return ours, theirs


def check_same_text(texts: Sequence[tuple[Path, Sequence[str]]]) -> None:
    """Refuse files of different texts, or of one text in different vocabularies.

    Args:
        texts: of each file, and the words of its lines

    Raises:
        DataError: with the first line that differs.
    """
    first, expected = texts[0]
    for path, words in texts[1:]:
        if len(words) != len(expected):
            raise DataError(f"{path} has {len(words):,} lines, {first} {len(expected):,}: losses of one text are compared")
        for number, (one, other) in enumerate(zip(expected, words, strict=True), start=1):
            if one != other:
                what = f"line {number:,} is {shown(other)}, in {first} {shown(one)}"
                raise DataError(f"{path}: {what}: losses of one text, with the same words and <unk>, are compared")
    if len(expected) < FEWEST:
        raise DataError(f"{first}: a text of one line: expected {FEWEST} or more, of which lines are drawn")


def agreed(sums: Sequence[Sums], part: str) -> bool:
    """Say whether all files have the same tokens for a part, line by line."""
    return all(np.array_equal(sums[0][part + TOKENS], other[part + TOKENS]) for other in sums)


def check_possible(found: Iterable[tuple[Path, Sums]]) -> None:
    """Refuse to compare what is infinite.

    Raises:
        DataError: with the file.
    """
    for path, sums in found:
        if (impossible := int(np.isinf(sums["all" + NATS]).sum())) > 0:
            remedy = "evaluate both models with --uniform-weight W"
            raise DataError(f"{path}: {impossible:,} lines are impossible (inf), which has no ratio: {remedy}")


def compare(args: Namespace, part: str, a: Sequence[Sums], b: Sequence[Sums]) -> dict[str, Any]:
    """Return the figures of a part of the tokens."""
    tokens = a[0][part + TOKENS]
    nats = [np.array([found[part + NATS] for found in side]) for side in (a, b)]
    ours, theirs = (seeds(tokens, [*side]) for side in nats)
    interval = paired_bootstrap(tokens, nats[0].mean(0), nats[1].mean(0), args.confidence, args.resamples, args.seed)
    return {"tokens": int(tokens.sum()), "a": ours, "b": theirs, **interval}


def table(compared: dict[str, dict[str, Any]]) -> str:
    """Return a row for each part of the tokens."""
    rows = []
    for part, found in compared.items():
        ratio, interval = f"{found['ratio']:.4f}", f"{found['low']:.4f} to {found['high']:.4f}"
        rows.append([NAMES[part], f"{found['tokens']:,}", *(spread(found[side]) for side in "ab"), ratio, interval])
    return aligned(["", "tokens", "perplexity of A", "of B", "A / B", "interval"], rows)


def spread(of: dict[str, Any]) -> str:
    """Return the mean over seeds, and their standard deviation where there are several."""
    mean = f"{of['mean']:,.2f}"
    return mean if of["deviation"] is None else f"{mean} ± {of['deviation']:.2f} (n = {len(of['perplexities'])})"
