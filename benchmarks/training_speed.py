"""Is the tied model as fast as fairseq's own lstm_lm and as a plain PyTorch loop, at the paper's PTB shape?

    python benchmarks/training_speed.py DATA [--rounds 3] [--updates 8]

DATA is a folder from scripts/preprocess.sh --dataset ptb. The package's models are held against each other by
``python -m fairseq_groc training-speed``, whose table this is.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from common import keep_memory, peak
from torch import nn

from fairseq_groc.evaluation.results import machine
from fairseq_groc.evaluation.speed import TRAINING, Speed, summary, table, trained
from fairseq_groc.programs import PLUGIN

STREAMS, BLOCK, DIM, HIDDEN = 20, 35, 300, 1024
OURS = ["--arch", "groc_lstm_lm_ptb_tied", "--batch-size", str(STREAMS), "--tokens-per-sample", str(BLOCK)]
THEIRS = (
    f"--task language_modeling --batch-size {STREAMS} --tokens-per-sample {BLOCK} --arch lstm_lm --decoder-embed-dim {DIM} "
    f"--decoder-layers 2 --decoder-hidden-size {HIDDEN} --decoder-out-embed-dim {DIM} --share-decoder-input-output-embed "
    "--criterion cross_entropy --required-batch-size-multiple 1"
).split()
PROGRAMS = {"tied": [*PLUGIN, *OURS], "lstm_lm (fairseq)": [*PLUGIN, *THEIRS]}  # the last --task counts
PLAIN = "plain PyTorch loop"


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
        return F.linear(x, self.embedding.weight, self.bias), [tuple(s.detach() for s in pair) for pair in (a, b)]


def dropped(x, p: float):
    """Drop with one mask over time."""
    return x * F.dropout(torch.ones_like(x[:1]), p)


def plain_loop(vocabulary: int, updates: int, epoch: int) -> Speed:
    """Train the model written here, in this process; *epoch* is the number of updates of one."""
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
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Speed(statistics.mean(seconds[1:]), epoch, STREAMS * BLOCK, parameters, peak())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=8)
    args = parser.parse_args()
    keep_memory()
    vocabulary = sum(1 for _ in open(args.data / "dict.txt")) + 4
    turns = {name: [] for name in (*PROGRAMS, PLAIN)}
    for turn in range(args.rounds):
        print(f"round {turn + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for name, options in PROGRAMS.items():
            turns[name].append(trained(args.data, [*TRAINING, *options, "--max-update", args.updates]))
        turns[PLAIN].append(plain_loop(vocabulary, 2 * args.updates, turns["tied"][0].epoch))
    print(f"V = {vocabulary:,}, {STREAMS} streams x {BLOCK}; {args.rounds} rounds of {args.updates} updates; {machine()}")
    print(table(summary(turns)))


if __name__ == "__main__":
    main()
