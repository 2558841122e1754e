"""Lines of numbers in batches: which go together, and what of them is computed once. B: lines; T: positions; d: size of h."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.contexts.schema import Contexts, distinct_rows
from fairseq_groc.data.streams import Block
from fairseq_groc.modules.normalizers import log_normalizers
from fairseq_groc.modules.probabilities import LOG_ZERO, numbers_of

TOGETHER = 1_024  # positions of a batch
PREFIX = 3  # lines that begin with so many words alike stay together
_TEXTS = itertools.count()


def batches_of(lines: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield which lines are read together: those of about one length, and those that begin alike whatever their lengths."""
    starts, longest = [tuple(line[:PREFIX]) for line in lines], dict[tuple[int, ...], int]()
    for line, start in zip(lines, starts, strict=True):
        longest[start] = max(longest.get(start, 0), len(line))
    batch: list[int] = []
    widest = 0
    for i in sorted(range(len(lines)), key=lambda i: (longest[starts[i]], starts[i], len(lines[i]))):
        widest = max(widest, len(lines[i]))
        if batch and widest * (len(batch) + 1) > TOGETHER:
            yield batch
            batch, widest = [], len(lines[i])
        batch.append(i)
    if batch:
        yield batch


class Edges(NamedTuple):
    """The distinct words of a batch's lines, each after one beginning: what lines that begin alike have in common.

    Args:
        of: which of them each token is, line after line
        places: row and position where each is for the first time
        prefixes: which of the distinct beginnings each comes after
        first: of the edges after each beginning
    """

    of: list[int]
    places: list[tuple[int, int]]
    prefixes: NDArray[np.int64]
    first: NDArray[np.int64]


def edges_of(lines: Sequence[Sequence[int]], roots: Sequence[int]) -> Edges:
    """Find them.

    Args:
        roots: what each line begins with before its first word: the number of its context
    """
    found: dict[tuple[int, int], int] = {}  # by what comes before: an edge, or a root below 0
    of, places = list[int](), list[tuple[int, int]]()
    for row, (line, root) in enumerate(zip(lines, roots, strict=True)):
        before = -1 - root
        for position, word in enumerate(line):
            number = found.setdefault((before, word), len(found))
            if number == len(places):
                places.append((row, position))
            of.append(number)
            before = number
    _, first, prefixes = np.unique([before for before, _ in found], return_index=True, return_inverse=True)
    return Edges(of, places, prefixes, first)


def log_probabilities(model: Any, lines: Sequence[Sequence[int]], contexts: Contexts | None, block: int) -> list[list[float]]:
    """Return the log-probability of every token of some lines, which are read side by side, each from the zero state.

    Args:
        model: in evaluation
        lines: numbers, ``</s>`` at the end of each
        contexts: one a line; None: nothing is known, or what the model was told of all lines
        block: tokens that are read at a time
    """
    decoder, device = model.decoder, model.decoder.matrices.impossible.device
    pad, eos = decoder.dictionary.pad(), decoder.dictionary.eos()
    width = max(map(len, lines))
    target = torch.tensor([[*line, *[pad] * (width - len(line))] for line in lines], device=device)  # (B, T)
    source = torch.cat([target.new_full((len(lines), 1), eos), target[:, :-1]], dim=1)
    context = {} if contexts is None else {"context": contexts.of_lines(np.arange(len(lines)))}
    remembering = decoder.adapter is not None and decoder.adapter.settings.adapters()
    text, states, losses = f"scored {next(_TEXTS)}", [], []
    try:
        for begin in range(0, width, block):
            end = min(begin + block, width)
            place = Block(text, 0, 0, begin, end)
            net_input = {"src_tokens": source[:, begin:end], "block": place, **context}
            h, extra, matrices = decoder.without_scores(model, net_input)
            if remembering:
                losses.append(decoder.losses(h, extra, matrices, target[:, begin:end])[0])
            states.append(h)
    finally:
        if decoder.carried is not None:
            decoder.carried[False].forget(text)
    if remembering:
        found = numbers_of("model", -torch.cat(losses, dim=1))
        return [row[: len(line)] for row, line in zip(found.tolist(), lines, strict=True)]
    roots = [0] * len(lines)  # a number for each line's context, the same for the same
    if contexts is not None:
        roots = distinct_rows(contexts.categories[contexts.index], contexts.numbers[contexts.index])[1].tolist()
    edges = edges_of(lines, roots)
    rows, positions = torch.tensor(edges.places, device=device).unbind(1)
    h, targets = torch.cat(states, dim=1)[rows, positions], target[rows, positions]  # (edges, d), (edges)
    if decoder.matrices.head.plain_softmax and (decoder.adapter is None or decoder.adapter.settings.new_word_discount == 1):
        found = _of_edges(decoder, edges, h, targets, *matrices)
    else:
        found = -decoder.losses(h.unsqueeze(0), extra, matrices, targets.unsqueeze(0))[0][0]
    values, tokens = numbers_of("model", found).tolist(), iter(edges.of)
    return [[values[next(tokens)] for _ in line] for line in lines]


def _of_edges(decoder: Any, edges: Edges, h: Tensor, targets: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
    """Return the log-probabilities of words by a softmax that is normalised once for each beginning, (edges)."""
    met = decoder.matrices.head.meeting(h)
    sums = log_normalizers(met[edges.first], outputs, bias)
    scores = (met * F.embedding(targets, outputs)).sum(-1) + bias[targets]
    lprobs = scores.float() - sums[edges.prefixes]
    if decoder.adapter is not None:
        lprobs = decoder.adapter.uniform_at(lprobs, targets)
    return lprobs.clamp(min=LOG_ZERO)
