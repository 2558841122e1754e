"""Which loss over a large vocabulary is fast and small: whole logits, PyTorch's linear_cross_entropy, or chunks?

    python benchmarks/losses.py [--sizes 10000 200000] [--rounds 7]

Each in a process of its own at the shape of a Penn Treebank step: 700 positions, d = 300. Needs PyTorch 2.13 for its row.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from common import keep_memory, peak

from fairseq_groc.evaluation.results import machine
from fairseq_groc.modules.chunked_loss import chunked_cross_entropy

POSITIONS, DIM, PAD = 700, 300, 1


def whole(h, embeddings, bias, targets):
    return F.cross_entropy(F.linear(h, embeddings, bias), targets, ignore_index=PAD, reduction="sum")


def of_torch(h, embeddings, bias, targets):
    options = torch.nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(h, embeddings, targets, linear_bias=bias, ignore_index=PAD, reduction="sum", options=options)


def chunked(h, embeddings, bias, targets):
    return chunked_cross_entropy(h, embeddings, bias, targets, PAD).sum()


LOSSES = {"whole logits": whole, "linear_cross_entropy": of_torch, "chunked_cross_entropy": chunked}


def measured(name: str, size: int, rounds: int) -> dict:
    """Return the loss, milliseconds of every round but the first, and GiB beyond those of the start."""
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.randn(*shape, generator=generator) for shape in ((POSITIONS, DIM), (size, DIM), (size,))]
    leaves = [leaf.mul_(0.05).requires_grad_() for leaf in leaves]
    targets = torch.randint(2, size, (POSITIONS,), generator=generator)
    before, times, loss = peak(), [], None
    for _ in range(rounds + 1):
        for leaf in leaves:
            leaf.grad = None
        begin = time.perf_counter()
        loss = LOSSES[name](*leaves, targets)
        loss.backward()
        times.append(1000 * (time.perf_counter() - begin))
    return {"loss": loss.item() / POSITIONS, "ms": times[1:], "gib": peak() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 200_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", choices=LOSSES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    keep_memory()
    if args.child:
        return print(json.dumps(measured(args.child, args.sizes[0], args.rounds)))
    print(f"{machine()}; {args.rounds} rounds, ms: median (min to max)")
    print(f"{'V':>8}  {'':<22}{'ms':>28}{'GiB':>8}{'loss':>9}")
    for size in args.sizes:
        for name in LOSSES:
            command = [sys.executable, __file__, "--child", name, "--sizes", str(size), "--rounds", str(args.rounds)]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
            ms = f"{statistics.median(found['ms']):,.0f} ({min(found['ms']):,.0f} to {max(found['ms']):,.0f})"
            print(f"{size:>8,}  {name:<22}{ms:>28}{found['gib']:>8.2f}{found['loss']:>9.4f}", flush=True)


if __name__ == "__main__":
    main()
