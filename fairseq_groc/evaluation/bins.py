"""Loss by how often a word occurs in the training text (GroC, Figure 3; DRILL, Figure 3).

n: tokens of a text; V: vocabulary.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_groc.dictionary import UNK
from fairseq_groc.errors import counted
from fairseq_groc.evaluation.results import aligned, color_of, pyplot, save_figure

# bins that have as many words of Penn Treebank's test text as GroC's Figure 3 says: up to 50 occurrences, 250, 2,500, more
EDGES = (0, 50, 250, 2_500)


@dataclass
class Bin:
    """The words with more than *least* and at most *most* occurrences (None: any number), and how two models predict them.

    Without *least* it is ``<unk>``, which stands for words whose occurrences nobody counted.

    Args:
        words, tokens: of the text that are in the bin
        mean, median: over tokens, of the baseline's loss less the model's, in nats; of two in the middle, the median is the lower
        word_median: over words, of their mean differences
        relative: the same of all tokens together, in percent of the baseline's loss
    """

    least: int | None
    most: int | None
    words: int
    tokens: int
    mean: float
    median: float
    word_median: float
    relative: float

    def label(self) -> str:
        """Return the range as text."""
        if self.least is None:
            return "<unk>"
        if self.most is None:
            return f"> {self.least:,}"
        return f"{self.most:,}" if self.least + 1 == self.most else f"{self.least + 1:,} to {self.most:,}"


def bins_table(compared: Mapping[str, Sequence[Bin]]) -> str:
    """Return a line for each baseline and bin."""
    columns = ["baseline", "occurrences", "words", "tokens", "mean", "median", "of words", "relative"]
    lines = []
    for name, b in ((name, b) for name, bins in compared.items() for b in bins):
        means = (f"{value:.3f}" for value in (b.mean, b.median, b.word_median))
        lines.append([name, b.label(), f"{b.words:,}", f"{b.tokens:,}", *means, f"{b.relative:.1f}%"])
    return aligned(columns, lines) + "\nbaseline's loss less the model's, nats a token: above 0 the model is better"


def draw_bins(compared: Mapping[str, Sequence[Bin]], path: Path) -> None:
    """Save the median differences as bars, as GroC's Figure 3."""
    first = next(iter(compared.values()))
    figure, axes = pyplot().subplots(figsize=(max(7, 1.2 * len(first)), 3.8))
    width, ticks = 0.8 / len(compared), [f"{b.label()}\n({counted(b.words, 'word')})" for b in first]
    for number, (name, bins) in enumerate(compared.items()):
        places, values = [i + number * width for i in range(len(bins))], [b.median for b in bins]
        axes.bar(places, values, width, label=name, color=color_of(name, number))
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(first))], ticks, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlabel="occurrences in the training text", ylabel="nats that the model gains, median token")
    axes.legend(fontsize=9, frameon=False, title="compared with")
    save_figure(figure, path)


def by_frequency(targets: Tensor, ours: Tensor, baseline: Tensor, counts: Tensor, edges: Sequence[int]) -> list[Bin]:
    """Compare two models on the same text, bin by bin.

    Words that do not occur in the training text have the first bin to themselves, ``<unk>`` has the last one.

    Args:
        targets: (n)
        ours, baseline: log-probabilities of the targets, (n)
        counts: occurrences of each word in the training text, (V)
        edges: where bins begin, exclusive, in rising order
    """
    differences = (ours - baseline).double()  # of losses, baseline's less ours
    known, occurrences = targets != UNK, counts[targets]
    ranges: list[tuple[int | None, int | None]] = [*itertools.pairwise([*edges, None]), (None, None)]
    if bool((known & (occurrences == 0)).any()):
        ranges.insert(0, (-1, 0))
    bins = []
    for least, most in ranges:
        inside = ~known if least is None else known & (occurrences > least)
        inside &= occurrences <= (occurrences.max() if most is None else most)
        if bool(inside.any()):
            bins.append(_bin(least, most, targets[inside], differences[inside], -baseline[inside].double()))
    return bins


def _bin(least: int | None, most: int | None, targets: Tensor, differences: Tensor, losses: Tensor) -> Bin:
    tokens, places = targets.unique(return_inverse=True)
    sums = differences.new_zeros(len(tokens)).index_add_(0, places, differences)
    means = sums / torch.bincount(places, minlength=len(tokens))
    figures = differences.mean(), differences.median(), means.median(), 100 * differences.sum() / losses.sum()
    return Bin(least, most, len(tokens), len(targets), *map(float, figures))
