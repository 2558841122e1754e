"""How a text becomes batches: contiguous streams, cut into blocks. Plain arithmetic, no text is read here.

A *stream* is a stretch of text that is read from the zero state, ``</s>`` first. A *group* is the streams of one
batch; it is read block after block with the state carried over. A text is one group per worker, or, where lines are
independent, many groups of lines.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]  # tokens [begin, end) of a text


@dataclass(frozen=True)
class Block:
    """Which piece of text a batch is; what a carried state is filed under.

    Args:
        text: name of the split
        epoch: number of the pass over the text
        group: number of the group of streams
        begin, end: offsets within the streams; the state before ``begin`` is needed, the one at ``end`` results
    """

    text: str
    epoch: int
    group: int
    begin: int
    end: int


@dataclass(frozen=True)
class BatchPlan:
    """One batch: a row for every stream of the group, empty where the stream is over.

    Args:
        block: its place in the text
        rows: ``(begin, end)`` of each row in the text
        streams: where each row's stream begins in the text
    """

    block: Block
    rows: tuple[Span, ...]
    streams: tuple[int, ...]


def split_streams(num_tokens: int, num_streams: int) -> list[Span]:
    """Cut a text into contiguous streams whose lengths differ by one at most; every token is in exactly one."""
    bounds = [i * num_tokens // num_streams for i in range(num_streams + 1)]
    return list(itertools.pairwise(bounds))


def fixed_lengths(longest: int, block: int) -> list[int]:
    """Return block lengths that cover *longest* tokens."""
    return [min(block, longest - i) for i in range(0, longest, block)]


def varied_lengths(longest: int, block: int, seed: int, epoch: int) -> list[int]:
    """Return random block lengths as AWD-LSTM draws them (Merity et al. 2018, section 4.1), from (seed, epoch) alone.

    The mean is *block* with probability 0.95, else half of it; the standard deviation is 5; at least 5 tokens.
    """
    rng = np.random.default_rng((seed, epoch))
    lengths, left = [], longest
    while left > 0:
        mean = block if rng.random() < 0.95 else block / 2
        lengths.append(min(max(5, int(rng.normal(mean, 5))), left))
        left -= lengths[-1]
    return lengths


def plan_group(text: str, epoch: int, group: int, streams: Sequence[Span], lengths: Sequence[int]) -> Iterator[BatchPlan]:
    """Yield the batches of one group of streams."""
    begin = 0
    for length in lengths:
        end = begin + length
        rows = tuple((min(a + begin, b), min(a + end, b)) for a, b in streams)
        yield BatchPlan(Block(text, epoch, group, begin, end), rows, tuple(a for a, _ in streams))
        begin = end


def similar_lengths(sizes: NDArray[Any], step: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw an order of lines in which every *step* of them have similar lengths, and which are together differs each time.

    Were they shuffled, half of a batch would be padding; were they ordered by length, a batch would have the same lines in every
    epoch. So they are ordered by their lengths times random factors, from 1 to 1.25, and cut into steps, which are shuffled.

    Args:
        sizes: lengths of the lines
        step: lines that are read at the same time, by all workers
    """
    order = np.argsort(sizes * rng.uniform(1, 1.25, len(sizes)), kind="stable")
    whole = len(order) // step
    first = int(rng.integers(whole + 1)) * step  # of the lines that make no whole step: they come last, whatever their lengths
    rest = slice(first, first + len(order) % step)
    steps = rng.permutation(np.delete(order, rest).reshape(whole, step))
    return np.concatenate([steps.ravel(), order[rest]])


def plan_streams(
    text: str,
    epoch: int,
    streams: Sequence[Span],
    batch_size: int,
    num_shards: int,
    block: int,
    vary: bool = False,
    seed: int = 1,
) -> list[BatchPlan]:
    """Plan groups of ``batch_size`` streams for ``num_shards`` workers: batch i is for worker i mod N.

    Args:
        streams: where each lies in the text: one for each row and worker, or lines, in the order in which they are put together
        vary: block lengths
    """
    groups = [streams[k : k + batch_size] for k in range(0, len(streams), batch_size)]
    groups += [[(0, 0)]] * (-len(groups) % num_shards)
    batches: list[BatchPlan] = []
    for first in range(0, len(groups), num_shards):
        step = groups[first : first + num_shards]
        longest = max(b - a for group in step for a, b in group)
        lengths = varied_lengths(longest, block, seed, epoch) if vary else fixed_lengths(longest, block)
        plans = [plan_group(text, epoch, first + i, group, lengths) for i, group in enumerate(step)]
        batches += [plan for batch in zip(*plans, strict=True) for plan in batch]
    return batches
