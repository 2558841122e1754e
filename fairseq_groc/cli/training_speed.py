"""Train several models in turns for a few updates: time an epoch, relative to the first, and memory (GroC, Table 10)."""

import re
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

from fairseq_groc.cli.numbers import positive, whole
from fairseq_groc.cli.programs import PLUGIN, measured
from fairseq_groc.cli.results import check_out, machine, pyplot, save_figure, write_json
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.training_log import read_parameters

SHAPE = "--batch-size 20 --tokens-per-sample 35"  # GroC's
TRAINING = (
    "--optimizer adam --lr 0.001 --clip-norm 0.1 --criterion chunked_cross_entropy --disable-validation --no-save "
    "--num-workers 0 --log-format simple --log-interval 1 --distributed-world-size 1"
).split()
_LINE = re.compile(r"train_inner \| epoch \d+: +\d+ / (\d+) .*\bwps=([\d.]+).*\bwpb=([\d.]+)")


class Speed(NamedTuple):
    """One training of a few updates.

    Args:
        step: mean seconds of an update, but for the first, which has what is done once
        epoch: updates of an epoch
        tokens: of an update, mean
        parameters: of the model
        peak: GiB, of the process that trained
    """

    step: float
    epoch: int
    tokens: float
    parameters: int
    peak: float


def add_arguments(parser) -> None:
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
    parser.add_argument("--options", default=SHAPE, help=f"of fairseq-train, for all models ({SHAPE})")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, and a picture beside it")


def run(args) -> None:
    check_out(args.out)
    models = _models(args.models)
    if not (args.data / "dict.txt").is_file():
        raise DataError(f"{args.data}/dict.txt not found: --data wants a folder of binarised data")
    turns = _turns(args, models)
    rows = summary(turns)
    print(f"in turns, rounds: {args.rounds}, updates of each: {args.updates}; {machine()}")
    print(table(rows))
    if args.out is not None:
        about = {"machine": machine(), "updates": args.updates, "rounds": args.rounds, "options": args.options}
        write_json(args.out, {**about, "models": {name: " ".join(options) for name, options in models.items()}, "rows": rows})
        draw(rows, args.out.with_suffix(".png"))


def _models(pairs: List[str]) -> Dict[str, List[str]]:
    models = {}
    for pair in pairs:
        name, _, options = pair.partition("=")
        if not name or not options.strip() or name in models:
            raise OptionError(f"--models {pair}: expected a name of its own and an --arch, as in tied=groc_lstm_lm_ptb_tied")
        models[name] = ["--arch", *shlex.split(options)]
    return models


def _turns(args, models: Dict[str, List[str]]) -> Dict[str, List[Speed]]:
    turns: Dict[str, List[Speed]] = {name: [] for name in models}
    for turn in range(args.rounds):
        for name, model in models.items():
            print(f"round {turn + 1} of {args.rounds}: {name}", file=sys.stderr, flush=True)
            options = [*PLUGIN, *TRAINING, *model, *shlex.split(args.options), "--max-update", args.updates]
            turns[name].append(trained(args.data, options))
    return turns


def trained(data: Path, options: List) -> Speed:
    """Train for a few updates.

    Raises:
        OptionError: the training failed; with its last line.
    """
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        code, peak = measured("fairseq-train", data, *options, "--save-dir", scratch, log=log)
        output = log.read_text()
    if code:
        raise OptionError(f"training failed: {output.strip().splitlines()[-1]}")
    return read_speed(output, peak)


def read_speed(output: str, peak: float) -> Speed:
    """Return what the output of a training says that logged every update.

    Raises:
        DataError: it says of no update but the first.
    """
    updates = [(int(epoch), float(wps), float(tokens)) for epoch, wps, tokens in _LINE.findall(output)][1:]
    if not updates:
        raise DataError("the training's log has no update after the first. Is there room in the folder of temporary files?")
    steps, tokens = [size / wps for _, wps, size in updates], [size for _, _, size in updates]
    return Speed(statistics.mean(steps), updates[0][0], statistics.mean(tokens), read_parameters(output), peak)


def summary(turns: Dict[str, List[Speed]]) -> List[Dict[str, Any]]:
    """Return a row a model: medians over rounds; times are held against the first model's in the same round."""
    first = next(iter(turns.values()))
    rows = []
    for name, own in turns.items():
        ratios = sorted(one.step / other.step for one, other in zip(own, first))
        steps = sorted(one.step for one in own)
        rows.append(
            {
                "name": name,
                "parameters": own[0].parameters,
                "epoch_seconds": statistics.median(steps) * own[0].epoch,
                "tokens_per_second": own[0].tokens / statistics.median(steps),
                "relative": statistics.median(ratios),
                "relative_range": [ratios[0], ratios[-1]],
                "peak_gib": max(one.peak for one in own),
            }
        )
    return rows


def table(rows: List[Dict[str, Any]]) -> str:
    """Return the rows as text."""
    width = max(len(row["name"]) for row in rows) + 2
    head = f"{'':<{width}}{'parameters':>12}{'epoch, s':>10}{'tokens/s':>10}{'time, x ' + rows[0]['name']:>16}{'(range)':>16}"
    lines = [f"{head}{'peak GiB':>10}"]
    for row in rows:
        least, most = row["relative_range"]
        line = f"{row['name']:<{width}}{row['parameters']:>12,}{row['epoch_seconds']:>10,.0f}{row['tokens_per_second']:>10,.0f}"
        lines.append(f"{line}{row['relative']:>16.2f}{f'({least:.2f} to {most:.2f})':>16}{row['peak_gib']:>10.1f}")
    return "\n".join(lines)


def draw(rows: List[Dict[str, Any]], path: Path) -> None:
    """Save bars of the relative times, with their ranges."""
    figure, axes = pyplot().subplots(figsize=(7, 0.9 + 0.36 * len(rows)))
    places, values = range(len(rows)), [row["relative"] for row in rows]
    errors: Tuple[List[float], ...] = tuple(
        [abs(row["relative_range"][side] - row["relative"]) for row in rows] for side in (0, 1)
    )
    axes.barh(places, values, xerr=errors, height=0.6, color="#4878a8", error_kw={"ecolor": "#333333", "capsize": 3})
    for place, row in zip(places, rows):
        axes.text(row["relative_range"][1], place, f"  {row['relative']:.2f}", va="center", fontsize=8)
    axes.set(
        yticks=list(places), yticklabels=[row["name"] for row in rows], xlabel=f"time an update, relative to {rows[0]['name']}"
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    save_figure(figure, path)
