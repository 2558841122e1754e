"""Train several models in turns for a few updates: time an epoch, relative to the first, and memory (GroC, Table 10)."""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from fairseq_groc.arguments import add_out, named, positive, whole
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.results import machine, pyplot, save_figure, write_json
from fairseq_groc.evaluation.speed import TRAINING, Speed, summary, table, trained
from fairseq_groc.programs import PLUGIN

SHAPE = "--batch-size 20 --tokens-per-sample 35"  # GroC's


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of binarised data")
    parser.add_argument(
        "--models",
        nargs="+",
        required=True,
        metavar="NAME=ARCH",
        help="what to train: a name and an --arch, with more options after it if quoted; the first is what all are held against",
    )
    sizes = "of a turn, 3 or more; more of them where updates differ, as sparse ones do"
    parser.add_argument("--updates", type=lambda text: whole(text, 3), default=20, help=sizes)
    parser.add_argument("--rounds", type=positive, default=3, help="turns of each model")
    parser.add_argument("--options", default=SHAPE, help="of fairseq-train, for all models; a model's own win")
    add_out(parser)


def run(args: Namespace) -> None:
    archs = named("--models", args.models, "a name of its own and an --arch, as in tied=groc_lstm_lm_ptb_tied")
    models = {name: ["--arch", *_words("--models", text)] for name, text in archs.items()}
    if not (args.data / "dict.txt").is_file():
        raise DataError(f"{args.data}/dict.txt not found: --data wants a folder of binarised data")
    plugin = [*PLUGIN, *(["--user-dir", args.user_dir] if args.user_dir else [])]
    shared = _words("--options", args.options)
    turns: dict[str, list[Speed]] = {name: [] for name in models}
    for turn in range(args.rounds):
        for name, model in models.items():
            print(f"round {turn + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            options = [*plugin, *TRAINING, *shared, *model, "--max-update", args.updates]
            turns[name].append(trained(args.data, options))
    rows = summary(turns)
    print(f"in turns, rounds: {args.rounds}, updates of each: {args.updates}; {machine()}")
    print(table(rows))
    if args.out is not None:
        about = {"machine": machine(), "updates": args.updates, "rounds": args.rounds, "options": args.options}
        write_json(args.out, {**about, "models": {name: " ".join(words) for name, words in models.items()}, "rows": rows})
        draw(rows, args.out.with_suffix(".png"))


def _words(option: str, text: str) -> list[str]:
    """Return the words of a text, some of which may be quoted.

    Raises:
        OptionError: a quotation does not end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise OptionError(f"{option} {text}: {error}") from None


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save bars of the relative times, with their ranges."""
    figure, axes = pyplot().subplots(figsize=(7, 0.9 + 0.36 * len(rows)))
    places, values = range(len(rows)), [row["relative"] for row in rows]
    errors = [[abs(row["relative_range"][side] - row["relative"]) for row in rows] for side in (0, 1)]
    axes.barh(places, values, xerr=errors, height=0.6, color="#4878a8", error_kw={"ecolor": "#333333", "capsize": 3})
    for place, row in zip(places, rows, strict=True):
        axes.text(row["relative_range"][1], place, f"  {row['relative']:.2f}", va="center", fontsize=8)
    axes.set(
        yticks=list(places), yticklabels=[row["name"] for row in rows], xlabel=f"time an update, relative to {rows[0]['name']}"
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
