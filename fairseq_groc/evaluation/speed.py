"""What an update costs: trainings of a few updates, and their times relative to the first (GroC, Table 10)."""

import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.results import aligned
from fairseq_groc.evaluation.training_log import read_parameters
from fairseq_groc.programs import BIN, measured

TRAINING = (
    "--optimizer adam --lr 0.001 --clip-norm 0.1 --criterion chunked_cross_entropy --disable-validation --no-save "
    "--num-workers 0 --log-format simple --log-interval 1 --distributed-world-size 1"
).split()
# a process a worker, on GPUs and, with --cpu --distributed-backend gloo --ddp-backend legacy_ddp, on CPUs
_WORKER = 'exec "$@" --distributed-init-method env:// --distributed-no-spawn --distributed-rank $RANK'
_TORCHRUN = re.compile(r"^(?:[EW]\d{4} \d\d:.*torch/distributed/elastic|\[rank\d+\]:\[)", re.MULTILINE)  # what it or NCCL adds
_ENDED = "terminate called"  # what C++ adds in a worker that is ended since another has failed
_LINE = re.compile(r"train_inner \| epoch \d+: +\d+ / (\d+) .*\bwps=([\d.]+).*\bwpb=([\d.]+)")


class Speed(NamedTuple):
    """One training of a few updates.

    Args:
        step: mean seconds of an update, but for the first, which has what is done once
        epoch: updates of an epoch
        tokens: of an update, mean
        parameters: of the model
        peak: GiB, of the largest process that trained
    """

    step: float
    epoch: int
    tokens: float
    parameters: int
    peak: float


def trained(data: Path, options: Sequence[Any]) -> Speed:
    """Train for a few updates.

    Raises:
        OptionError: the training failed; with its last line.
    """
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "log")
        code, peak = measured(*_program(options), data, *options, "--save-dir", scratch, log=log)
        output = log.read_text()
    if code:
        lines = [line for line in _TORCHRUN.split(output)[0].splitlines() if line.strip() and not line.startswith(_ENDED)]
        raise OptionError(f"training failed: {lines[-1] if lines else f'exit code {code}'}")
    return read_speed(output, peak)


def _program(options: Sequence[Any]) -> list[Any]:
    """Return what trains with these options: on several workers torchrun does."""
    workers = int(re.findall(r"--distributed-world-size[ =](\d+)", " ".join(map(str, options)))[-1])
    if workers == 1:
        return ["fairseq-train"]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc_per_node", workers]
    return [sys.executable, *launcher, "sh", "-c", _WORKER, "-", BIN / "fairseq-train"]


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


def summary(turns: dict[str, list[Speed]]) -> list[dict[str, Any]]:
    """Return a row a model: medians over rounds; times are held against the first model's in the same round."""
    first = next(iter(turns.values()))
    rows = []
    for name, own in turns.items():
        ratios = sorted(one.step / other.step for one, other in zip(own, first, strict=True))
        steps = sorted(one.step for one in own)
        rows.append(
            {
                "name": name,
                "parameters": own[0].parameters,
                "epoch_seconds": statistics.median(steps) * own[0].epoch,
                "tokens": own[0].tokens,
                "tokens_per_second": own[0].tokens / statistics.median(steps),
                "relative": statistics.median(ratios),
                "relative_range": [ratios[0], ratios[-1]],
                "peak_gib": max(one.peak for one in own),
            }
        )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    columns = ["", "parameters", "epoch, s", "tokens/s", f"time, x {rows[0]['name']}", "(range)", "peak GiB"]
    lines = []
    for row in rows:
        sizes = [row["name"], f"{row['parameters']:,}", f"{row['epoch_seconds']:,.0f}", f"{row['tokens_per_second']:,.0f}"]
        times = f"{row['relative']:.2f}", "({:.2f} to {:.2f})".format(*row["relative_range"])
        lines.append([*sizes, *times, f"{row['peak_gib']:.1f}"])
    return aligned(columns, lines)
