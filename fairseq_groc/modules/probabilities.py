"""Log-probabilities: mixtures, and what is refused as none.

V: words; N: positions.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.errors import DataError

LOG_ZERO = -1e30  # log-probability of the impossible: fairseq-eval-lm would drop -inf from sum and count


def is_impossible(lprobs: Any) -> Any:
    """Say of a log-probability, or a tensor of them, or a sum over a line, whether it is that of the impossible."""
    return lprobs <= LOG_ZERO / 2


def total_of(lprobs: Iterable[float]) -> float:
    """Return the sum of log-probabilities, -inf if one is of the impossible."""
    total = sum(lprobs)
    return -math.inf if is_impossible(total) else total


def numbers_of(name: str, lprobs: Tensor) -> Tensor:
    """Return log-probabilities that are numbers.

    Args:
        name: of what gives them

    Raises:
        DataError: some are not.
    """
    count = int(lprobs.isnan().sum())
    if count:
        raise DataError(
            f"the {name} gives {count:,} tokens no number (NaN): the checkpoint is broken, or --dynamic-rate is too large"
        )
    return lprobs


def perplexity(nats: float, tokens: int) -> float:
    """Return the perplexity of tokens whose losses, in nats, add up to *nats*: infinite beyond a float, NaN of no token."""
    try:
        return math.exp(nats / tokens) if tokens else math.nan
    except OverflowError:
        return math.inf


def masked_bias(bias: Tensor, impossible: Tensor) -> Tensor:
    """Give impossible words probability exactly 0, at the price of one pass over V numbers."""
    return bias.masked_fill(impossible, float("-inf"))


def uniform_mixture(lprobs: Tensor, weight: float, real: Tensor) -> Tensor:
    """Mix log-probabilities with the uniform distribution over the words: p = (1 - weight) p_model + weight / V.

    Args:
        lprobs: (..., V) log-probabilities of the model
        weight: of the uniform part, in (0, 1)
        real: mask of the real words, over which it is uniform (no special symbols, no fillers), (V) or (..., V)
    """
    uniform = torch.log(weight * real.to(lprobs.dtype) / real.sum(-1, keepdim=True))
    return torch.logaddexp(lprobs + torch.log1p(lprobs.new_tensor(-weight)), uniform)


def uniform_mixture_at(lprobs: Tensor, weight: float, real: Tensor, targets: Tensor) -> Tensor:
    """Do the same for targets alone: from log p_model(target) to log p(target), (N)."""
    uniform = weight * real[targets].to(lprobs.dtype) / real.sum()
    return torch.logaddexp(lprobs + torch.log1p(lprobs.new_tensor(-weight)), uniform.log())


def uniform_mass(mass: Tensor, weight: float, real: Tensor, chosen: Tensor) -> Tensor:
    """Do the same for the mass of some words together: from log p_model(chosen) to log p(chosen), (N).

    Args:
        weight: of the uniform part, in [0, 1)
        chosen: mask (V)
    """
    if weight == 0:
        return mass
    uniform = weight * (chosen & real).sum().to(mass.dtype) / real.sum()
    return torch.logaddexp(mass + torch.log1p(mass.new_tensor(-weight)), uniform.log())
