"""AWD-LSTM in plain PyTorch, to check the package against: its training as released (Merity et al. 2018), for a few epochs.

    python examples/papers/plain_awd_lstm.py --text FOLDER --out plain.json

Of the package it needs nothing, so what it finds is not the package's doing. Seed 141 is the released command's, of its blocks;
prints the perplexity of the validation text after each epoch.
"""

import argparse
import itertools
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

SIZES = (400, 1150, 1150, 400)  # of embeddings and of each layer
BLOCK, STREAMS, STREAMS_OF_VALID, RATE, DECAY, CLIP = 70, 20, 10, 30, 1.2e-6, 0.25
WORDS, INPUT, BETWEEN, LAST, WEIGHTS = 0.1, 0.4, 0.25, 0.4, 0.5  # what is dropped, and how often
States = list[tuple[Tensor, Tensor]]


class Model(nn.Module):
    """Three LSTMs over word embeddings, which are the output embeddings, too."""

    def __init__(self, num_words: int, sizes: tuple[int, ...]):
        super().__init__()
        self.rows = nn.Parameter(torch.empty(num_words, sizes[0]).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.layers = nn.ModuleList(nn.LSTM(*pair) for pair in itertools.pairwise(sizes))

    def begin(self, streams: int) -> States:
        return [(self.bias.new_zeros(1, streams, layer.hidden_size),) * 2 for layer in self.layers]

    def forward(self, words: Tensor, states: States) -> tuple[Tensor, States, Tensor, Tensor]:
        """Return scores of the next words, (T, B, V), states, and h before and after dropout, (T, B, d)."""
        rows = self.rows * self.mask(WORDS, len(self.rows), 1)
        h = self.locked(F.embedding(words, rows), INPUT)
        after, raw = [], h
        for layer, state in zip(self.layers, states, strict=True):
            recurrent = F.dropout(layer.weight_hh_l0, WEIGHTS, self.training)
            weights = [layer.weight_ih_l0, recurrent, layer.bias_ih_l0, layer.bias_hh_l0]
            raw, *state = torch.lstm(h, state, weights, True, 1, 0.0, self.training, False, False)
            after.append(tuple(part.detach() for part in state))
            h = self.locked(raw, LAST if layer is self.layers[-1] else BETWEEN)
        return F.linear(h, self.rows, self.bias), after, raw, h

    def locked(self, x: Tensor, rate: float) -> Tensor:
        return x * self.mask(rate, 1, *x.shape[1:])

    def mask(self, rate: float, *shape: int) -> Tensor:
        return self.bias.new_empty(shape).bernoulli_(1 - rate) / (1 - rate) if self.training else self.bias.new_ones(shape)


def columns(path: Path, numbers: dict[str, int], streams: int) -> Tensor:
    """Return a text as word numbers, (T, streams); what makes no row is left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = torch.tensor([numbers.setdefault(word, len(numbers)) for line in lines for word in [*line.split(), "<eos>"]])
    return text[: len(text) // streams * streams].view(streams, -1).t().contiguous()


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def optimizer_of(model: Model) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=DECAY)


def train(model: Model, text: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Read a text once."""
    states, begin = model.train().begin(text.size(1)), 0
    bar = tqdm(total=len(text) - 2, unit=" rows", leave=False, disable=None)
    while begin < len(text) - 2:
        mean = BLOCK if np.random.random() < 0.95 else BLOCK / 2
        length = max(5, int(np.random.normal(mean, 5)))
        block = text[begin : begin + length + 1]
        scores, states, raw, h = model(block[:-1], states)
        loss = loss_of(scores, block[1:]) + 2 * h.square().mean() + (raw[1:] - raw[:-1]).square().mean()
        optimizer.param_groups[0]["lr"] = RATE * length / BLOCK  # of an epoch's last block, too, which is cut short
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        begin += length
        bar.update(length)
    bar.close()


@torch.no_grad()
def perplexity(model: Model, text: Tensor) -> float:
    """Return the perplexity of a text as released: a loss of T - 1 rows divided by T."""
    states, total = model.eval().begin(text.size(1)), 0.0
    for begin in range(0, len(text) - 1, BLOCK):
        block = text[begin : begin + BLOCK + 1]
        scores, states, *_ = model(block[:-1], states)
        total += (len(block) - 1) * float(loss_of(scores, block[1:]))
    return math.exp(total / len(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="folder with train.txt and valid.txt")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=141, help="of the model; blocks are always those of 141")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of embeddings, and of each layer")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(141)
    numbers: dict[str, int] = {}
    text, valid = columns(args.text / "train.txt", numbers, STREAMS), columns(args.text / "valid.txt", numbers, STREAMS_OF_VALID)
    model = Model(len(numbers), tuple(args.sizes))
    optimizer, found = optimizer_of(model), []
    for epoch in range(args.epochs):
        train(model, text, optimizer)
        found.append(perplexity(model, valid))
        print(f"epoch {epoch + 1}: {found[-1]:.1f}", flush=True)
        args.out.write_text(json.dumps({f"seed {args.seed}": found}) + "\n")


if __name__ == "__main__":
    main()
