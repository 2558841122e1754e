"""Word error rates of n-best lists, and the weights of scores that make them small. N: hypotheses; U: utterances; F: features."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_groc.errors import OptionError, imported
from fairseq_groc.evaluation.nbest import Floats, NBest, best_of

STEPS = 100  # of L-BFGS from each beginning
SAME = 1e-9  # of the largest: a deviation that rounding of means has made
NEARLY = 0.01  # what no weight of a score begins below: at 0 the square's gradient is 0


def errors_of(references: Sequence[str], hypotheses: Sequence[str]) -> NDArray[np.int64]:
    """Return the least number of words that are substituted, left out or put in, hypothesis by hypothesis, (N).

    Raises:
        OptionError: jiwer is not installed.
    """
    missing = OptionError("word errors are counted by jiwer, which is not installed: pip install 'jiwer>=4'")
    found = imported("jiwer", missing).process_words(list(references), list(hypotheses)).alignments
    counts = (
        sum(max(c.ref_end_idx - c.ref_start_idx, c.hyp_end_idx - c.hyp_start_idx) for c in chunks if c.type != "equal")
        for chunks in found
    )
    return np.fromiter(counts, np.int64)


def tuned_weights(nbest: NBest, features: Floats, errors: NDArray[np.int64], chosen: NDArray[np.bool_]) -> Floats:
    """Return the weights of features, (F), with the fewest errors of the best hypotheses of some utterances.

    The number is constant nearly everywhere. What is minimised is the mean number of errors under p(hypothesis) = softmax of
    the weighted sums, by L-BFGS from each score alone and from all of them, where scores have weights of 0 or more (minimum
    risk: Smith and Eisner 2006). Of all that is found and began, the weights win whose best hypotheses have the fewest errors,
    then the smaller mean. Features are divided by their standard deviations within utterances first.

    Args:
        features: (N, F)
        errors: (N)
        chosen: which hypotheses are of these utterances, (N)
    """
    possible = chosen & np.isfinite(features).all(1)
    if not possible.any():
        return np.ones(features.shape[1])
    numbers, utterance = np.unique(nbest.utterance[possible], return_inverse=True)
    own = features[possible]
    means = np.stack([np.bincount(utterance, column) / np.bincount(utterance) for column in own.T], axis=1)[utterance]
    scale = (own - means).std(0)
    constant = scale <= SAME * np.abs(own).max(0)  # within every utterance
    scale[constant] = 1.0
    values, wrong = torch.from_numpy((own - means) / scale), torch.from_numpy(errors[possible].astype(np.float64))
    of = torch.from_numpy(utterance)

    def risk(weights: torch.Tensor) -> torch.Tensor:
        sums = values @ weights
        largest = sums.new_full((len(numbers),), -torch.inf).scatter_reduce(0, of, sums.detach(), "amax")
        shares = (sums - largest[of]).exp()
        return (shares * wrong / shares.new_zeros(len(numbers)).index_add(0, of, shares)[of]).sum()

    candidates = []
    for begin in (*np.eye(len(scale))[:-1], np.array([1.0] * (len(scale) - 1) + [0.0])):  # the last feature is no score
        candidates += [begin, _minimum(risk, begin)]
    if not constant.all():  # nothing says what these are worth where they differ
        candidates = [kept for one in candidates if (kept := np.where(constant, 0.0, one)).any()]
    quality = [
        (total_errors(nbest, features, errors, chosen, one / scale), float(risk(torch.from_numpy(one)))) for one in candidates
    ]
    best: Floats = candidates[quality.index(min(quality))] / scale
    unit = np.abs(best[0]) or np.abs(best).max()  # the first feature's weight is 1, if it has any
    return best / unit if unit > 0 else best


def _minimum(risk: Any, begin: Floats) -> Floats:
    roots = torch.from_numpy(np.append(np.sqrt(begin[:-1] + NEARLY), begin[-1])).requires_grad_()

    def weights() -> torch.Tensor:
        return torch.cat([roots[:-1].square(), roots[-1:]])

    optimizer = torch.optim.LBFGS([roots], max_iter=STEPS, line_search_fn="strong_wolfe")

    def step() -> Any:
        optimizer.zero_grad()
        loss = risk(weights())
        loss.backward()
        return loss

    optimizer.step(step)
    found: Floats = weights().detach().numpy()
    return found if np.isfinite(found).all() else begin


def total_errors(nbest: NBest, features: Floats, errors: NDArray[np.int64], chosen: NDArray[np.bool_], weights: Floats) -> int:
    """Return the errors of the best hypotheses of the chosen utterances."""
    best = best_of(nbest, features, weights)
    return int(errors[best[chosen[best]]].sum())
