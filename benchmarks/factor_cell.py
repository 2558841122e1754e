"""How long does a layer that a context adapts take, against ``nn.LSTM`` and a weight matrix for each line?

    python benchmarks/factor_cell.py --out DIR [--shapes agnews dbpedia] [--steps 20] [--dense-steps 5]

Shapes are those of Jaech and Ostendorf 2018, Table 2, with about the lengths of their texts; the text and each line's context
are random, and every step has others. Forward and backward are timed. All ways take turns at every step, in one process.
"autograd" is FactorCell with the
gradients of autograd over the steps; "dense" makes the matrix W' of every line. "running text": contexts change within a line.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from common import keep_memory
from scaling import seconds_of, spread
from torch import Tensor, nn

from fairseq_groc.evaluation.results import aligned, machine
from fairseq_groc.modules.factor_cell import FactorCell
from fairseq_groc.modules.recurrence import coupled_loop

SHAPES = {  # B, T, e, d, k, r, C
    "agnews": dict(streams=100, length=45, size=150, units=110, context=2, rank=12, contexts=4),
    "dbpedia": dict(streams=50, length=60, size=120, units=170, context=12, rank=19, contexts=14),
}
LINE = 25  # tokens of a line of running text


class Autograd(FactorCell):
    """FactorCell whose steps autograd differentiates."""

    def _adapted(self, x, h, m, kept, vectors, index):
        gates, factor = self._inputs(x, vectors, index)
        return coupled_loop(gates, self.weight_hh.t(), h, m, lambda z: z, factor, kept)

    def _as_lstms(self, x, h, m, vectors, index):
        return self._adapted(x, h, m, None, vectors, index)


class Dense(FactorCell):
    """FactorCell with a weight matrix for each line."""

    def forward(self, x, h, m, vectors, index):
        left, right = (torch.einsum("ck,kab->cab", vectors, basis) for basis in (self.left, self.right))
        weight = torch.cat([self.weight_ih, self.weight_hh], 1).t() + torch.bmm(left[index], right[index])  # (B, e + d, 3d)
        bias, hs = (self.bias + vectors @ self.context_bias.t())[index], []
        for step in x:
            j, f, o = (torch.bmm(torch.cat([step, h], 1).unsqueeze(1), weight).squeeze(1) + bias).chunk(3, 1)
            f = torch.sigmoid(f + 1)
            m = m * f + (1 - f) * torch.tanh(j)
            h = torch.tanh(m) * torch.sigmoid(o)
            hs.append(h)
        return torch.stack(hs), m


class Batch(NamedTuple):
    x: Tensor  # (T, B, e)
    vectors: Tensor  # (C, k)
    of_lines: Tensor  # (B)
    of_positions: Tensor  # (T, B)


def batch(number: int, streams, length, size, units, context, rank, contexts) -> Batch:
    """Return random inputs and contexts; in running text every stream has lines of ``LINE`` tokens."""
    torch.manual_seed(number)
    chosen = torch.randint(contexts, (length, streams))
    line = (torch.arange(length).unsqueeze(1) + torch.randint(LINE, (streams,))) // LINE
    return Batch(torch.randn(length, streams, size), torch.rand(contexts, context) * 2 - 1, chosen[0], chosen.gather(0, line))


def ways(streams, length, size, units, context, rank, contexts) -> dict[str, Callable[[Batch], Tensor]]:
    """Return what takes a step by name; those with the same parameters give the same h."""
    torch.manual_seed(1)
    lstm, cell, sizes = nn.LSTM(size, units), FactorCell(size, units, context, rank), (size, units, context)
    modules = {
        "Unadapted": FactorCell(size, units),
        "ConcatCell": FactorCell(*sizes),
        "FactorCell": cell,
        "Unadapted, recurrent dropout": FactorCell(size, units, recurrent_dropout=0.5),
        "FactorCell, recurrent dropout": FactorCell(*sizes, rank, recurrent_dropout=0.5),
        "FactorCell, layer norm": FactorCell(*sizes, rank, layer_norm=True),
        "autograd": Autograd(*sizes, rank),
        "dense": Dense(*sizes, rank),
    }
    for name in ("autograd", "dense"):
        modules[name].load_state_dict(cell.state_dict())
    zeros = torch.zeros(streams, units)

    def backward(h: Tensor) -> Tensor:
        h.sum().backward()
        return h

    def step(module: FactorCell) -> Callable[[Batch], Tensor]:
        return lambda own: backward(module(own.x, zeros, zeros, own.vectors, own.of_lines)[0])

    def running(own: Batch) -> Tensor:
        return backward(cell(own.x, zeros, zeros, own.vectors, own.of_positions)[0])

    plain = {"nn.LSTM": lambda own: backward(lstm(own.x)[0])}
    return {**plain, **{name: step(module) for name, module in modules.items()}, "FactorCell, running text": running}


def same(all_ways: dict[str, Callable[[Batch], Tensor]], own: Batch) -> float:
    """Return by how much ways of the same parameters differ at most; they must not."""
    h = all_ways["FactorCell"](own)
    difference = max(float((all_ways[name](own) - h).detach().abs().max()) for name in ("autograd", "dense"))
    if difference > 1e-5:
        raise RuntimeError(f"what is timed is not the same: h differs by {difference:g}")
    return difference


def measured(shape: dict, steps: int, dense_steps: int) -> dict:
    """Return the times of each way, and their ratios step by step to ``nn.LSTM`` and of the dense one to FactorCell."""
    all_ways = ways(**shape)
    difference, seconds = same(all_ways, batch(0, **shape)), {name: [] for name in all_ways}
    for number in range(steps + 2):
        own = batch(number, **shape)
        for name, way in all_ways.items():
            if name != "dense" or number < dense_steps + 2:
                seconds[name].append(seconds_of(way, own))
    seconds = {name: found[2:] for name, found in seconds.items()}
    ratios = {name: ratio(found, seconds["nn.LSTM"]) for name, found in seconds.items()}
    saved = {name: {**spread(found), "to nn.LSTM": ratios[name], "seconds": found} for name, found in seconds.items()}
    return {
        **shape,
        "difference": difference,
        "dense to FactorCell": ratio(seconds["dense"], seconds["FactorCell"]),
        "ways": saved,
    }


def ratio(numbers: list[float], others: list[float]) -> list[float]:
    """Return the median of the ratios of neighbours, and the quartiles beside it."""
    found = [a / b for a, b in zip(numbers, others, strict=False)]
    low, median, high = statistics.quantiles(found, n=4)
    return [median, low, high]


def table(name: str, found: dict) -> str:
    rows = []
    for way, times in found["ways"].items():
        numbers = [f"{times[key]:,.1f}" for key in ("ms", "mean", "min", "max")]
        median, low, high = times["to nn.LSTM"]
        rows.append([way, *numbers, f"{median:.2f}", f"{low:.2f} to {high:.2f}"])
    sizes = ", ".join(f"{key} {value}" for key, value in found.items() if isinstance(value, int))
    median, low, high = found["dense to FactorCell"]
    columns = ["forward and backward", "ms", "mean", "min", "max", "x nn.LSTM", "half of them"]
    last = f"dense takes {median:.1f} times FactorCell's time ({low:.1f} to {high:.1f})"
    return f"{name}: {sizes}; {machine()}\n{aligned(columns, rows, names=1)}\n{last}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--steps", type=int, default=20, help="timed, after two")
    parser.add_argument("--dense-steps", type=int, default=5, help="those of the dense way")
    args = parser.parse_args()
    keep_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    shapes = {}
    for name in args.shapes:
        shapes[name] = measured(SHAPES[name], args.steps, args.dense_steps)
        print(table(name, shapes[name]), flush=True)
    (args.out / "factor-cell.json").write_text(json.dumps({"machine": machine(), "shapes": shapes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
