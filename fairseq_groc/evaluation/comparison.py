"""How sure a difference between two models on one text is: a paired bootstrap by line.

L: lines; R: resamples.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.modules.probabilities import perplexity

AT_ONCE = 1 << 22  # line numbers that are drawn at a time


def seeds(tokens: NDArray[np.float64], nats: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    """Return the perplexities of a model's seeds on a text, their mean, and their standard deviation; None: of one seed.

    Args:
        tokens: of each line, (L)
        nats: losses of each line, (L), of each seed
    """
    found = tuple(perplexity(float(of.sum()), int(tokens.sum())) for of in nats)
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return {"perplexities": found, "mean": statistics.fmean(found), "deviation": deviation}


def paired_bootstrap(
    tokens: NDArray[np.float64],
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    confidence: float,
    resamples: int,
    seed: int,
) -> dict[str, float]:
    """Return the ratio of two models' perplexities and its interval, "low" to "high".

    It is the percentile interval of the bootstrap (Efron and Tibshirani 1993, chapter 13).
    Lines are drawn with replacement, R times L of them, and both models are compared on the same ones. Lines are taken for
    independent; models count for what they are, whatever other seeds would give.

    Args:
        tokens: of each line, (L)
        ours, theirs: losses of each line in nats, the means over seeds where there are several, (L)
        confidence: of the interval, between 0 and 1
        resamples: R
    """
    differences = ours - theirs
    rng, lines = np.random.default_rng(seed), len(tokens)
    ratios: list[NDArray[np.float64]] = []
    step = max(1, AT_ONCE // lines)
    for done in range(0, resamples, step):
        drawn = rng.integers(0, lines, (min(step, resamples - done), lines))
        with np.errstate(all="ignore"):  # where only lines without such tokens were drawn
            ratios.append(np.exp(differences[drawn].sum(1) / tokens[drawn].sum(1)))
    tail = 100 * (1 - confidence) / 2
    low, high = np.nanpercentile(np.concatenate(ratios), [tail, 100 - tail])
    return {"ratio": float(np.exp(differences.sum() / tokens.sum())), "low": float(low), "high": float(high)}
