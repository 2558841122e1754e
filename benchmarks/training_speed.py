"""Tokens per second of training at the paper's PTB shape, side by side in one run, and parameters.

    python benchmarks/training_speed.py DATA [--rounds 3] [--updates 8] [--programs tied GroC-sampled-0.1-bf16]

DATA is a folder from scripts/preprocess.sh --dataset ptb. Compared: this package's tied and GroC models through fairseq-train,
the latter with full and with sampled updates, fairseq's own lstm_lm, and a plain PyTorch loop of the tied model (written here).
The programs take turns; a figure is the median over rounds of each round's median step, so a noisy machine moves all alike.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from common import fairseq_train, keep_memory, parameters
from torch import nn

from fairseq_groc.cli.programs import PLUGIN
from fairseq_groc.cli.results import machine

STREAMS, BLOCK, DIM, HIDDEN = 20, 35, 300, 1024
COMMON = (
    f"--batch-size {STREAMS} --optimizer adam --lr 0.001 --clip-norm 0.1 --disable-validation --no-save --log-interval 1"
).split()
OURS = [*PLUGIN, "--arch", "groc_lstm_lm_ptb", "--tokens-per-sample", str(BLOCK)]
THEIRS = (
    f"--task language_modeling --tokens-per-sample {BLOCK} --arch lstm_lm --decoder-embed-dim {DIM} --decoder-layers 2 "
    f"--decoder-hidden-size {HIDDEN} --decoder-out-embed-dim {DIM} --share-decoder-input-output-embed "
    "--required-batch-size-multiple 1"
).split()


PROGRAMS = {
    "tied": [*OURS, "--output-head", "tied"],
    "plain PyTorch loop": [],  # written here
    "lstm_lm (fairseq)": THEIRS,
    "GroC": [*OURS, "--output-head", "compositional_output"],
    "GroC-bf16": [*OURS, "--encode-in-bf16"],
    "GroC-sampled-0.1-bf16": [*OURS, "--encode-in-bf16", "--sampled-update-fraction", "0.1"],
}


class PlainTied(nn.Module):
    """The tied model without fairseq: two LSTMs, one matrix, dropout as in the preset."""

    def __init__(self, vocabulary: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, DIM)
        self.first, self.last = nn.LSTM(DIM, HIDDEN), nn.LSTM(HIDDEN, DIM)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens, state):
        x, a = self.first(dropped(self.embedding(tokens), 0.4), state[0])
        x, b = self.last(dropped(x, 0.65), state[1])
        x = dropped(x, 0.2)
        return F.linear(x, self.embedding.weight, self.bias), [tuple(s.detach() for s in pair) for pair in (a, b)]


def dropped(x, p: float):
    """Drop with one mask over time."""
    return x * F.dropout(torch.ones_like(x[:1]), p)


def plain_loop(vocabulary: int, updates: int) -> float:
    """Return the median seconds of a step."""
    torch.manual_seed(1)
    model = PlainTied(vocabulary)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    state, seconds = [None, None], []
    for _ in range(updates):
        tokens = torch.randint(4, vocabulary, (BLOCK + 1, STREAMS))
        begin = time.perf_counter()
        logits, state = model(tokens[:-1], state)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def fairseq_step(data: Path, options, updates: int, scratch: Path):
    """Return the median seconds of a step as fairseq logs tokens per second, and the number of parameters."""
    output, _ = fairseq_train(data, [*COMMON, *options, "--max-update", updates, "--save-dir", scratch], scratch / "log")
    speeds = [float(s.replace(",", "")) for s in re.findall(r"train_inner .*? wps=([\d.]+)", output)]
    return STREAMS * BLOCK / statistics.median(speeds[1:]), parameters(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument(
        "--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), help="the first is what all are held against"
    )
    parser.add_argument("--default-memory", action="store_true", help="let glibc return freed memory at every step")
    args = parser.parse_args()
    if not args.default_memory:
        keep_memory()
    vocabulary = sum(1 for _ in open(args.data / "dict.txt")) + 4
    seconds = {name: [] for name in args.programs}
    sizes = {}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(args.rounds):
            print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
            for name in args.programs:
                if PROGRAMS[name]:
                    step, sizes[name] = fairseq_step(args.data, PROGRAMS[name], args.updates, Path(scratch))
                else:
                    step = plain_loop(vocabulary, 2 * args.updates)
                seconds[name].append(step)
    first = args.programs[0]
    print(f"V = {vocabulary:,}, {STREAMS} streams x {BLOCK}; {args.rounds} rounds of {args.updates} updates; {machine()}")
    print(f"{'':<22}{'parameters':>12}{'tokens/s':>10}{'min':>8}{'max':>8}  time, x {first}")
    for name, values in seconds.items():
        speeds = sorted(STREAMS * BLOCK / s for s in values)
        ratio = statistics.median(own / other for own, other in zip(values, seconds[first]))
        size = f"{sizes[name]:,}" if name in sizes else ""
        print(f"{name:<22}{size:>12}{statistics.median(speeds):>10,.0f}{speeds[0]:>8,.0f}{speeds[-1]:>8,.0f}{ratio:>10.2f}")


if __name__ == "__main__":
    main()
