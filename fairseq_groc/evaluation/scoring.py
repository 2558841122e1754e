"""One pass of a model over a text.

n: tokens; B: streams; T: positions of a block; V: vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import utils
from torch import Tensor
from tqdm import tqdm

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.probabilities import numbers_of


@dataclass
class Place:
    """How a text is read.

    Args:
        streams: contiguous streams of all workers together
        block: tokens of a stream at a time
        worker, workers: which share of the streams
    """

    streams: int
    block: int
    worker: int = 0
    workers: int = 1


def blocks(model: Any, dataset: StreamDataset, place: Place, begin: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the batches of a worker's streams in their order, on the model's device; a bar shows how far it is.

    Each has as ``rows`` the ``(begin, end)`` of its rows in the text.

    Args:
        begin: leave out the blocks that begin before this token of their streams

    Raises:
        OptionError: more streams than tokens.
    """
    if place.streams > dataset.num_tokens_total:
        raise OptionError(f"--streams {place.streams:,}: the text has {dataset.num_tokens_total:,} tokens. Give fewer.")
    device = next(model.parameters()).device
    plans = dataset.plan(1, place.streams // place.workers, place.workers, place.block)[place.worker :: place.workers]
    left = [plan for plan in plans if plan.block.begin >= begin]
    for plan in tqdm(left, desc=dataset.name, unit=" batches", leave=False, disable=True if place.worker else None):
        sample = utils.apply_to_sample(lambda tensor: tensor.to(device), dataset[plan])
        yield {**sample, "rows": plan.rows}


@dataclass
class TokenScores:
    """What a pass found of every token.

    Args:
        targets: (n)
        places: of these in the text, (n)
        adapted: log-probabilities of the adapted model, (n)
        own: of the model alone, (n)
        error: largest |1 - sum| over the positions that were verified
        verified: how many these were
        mass: what the adapted model and the model alone gave to the words asked for there, summed over these positions, (2)
    """

    targets: list[Tensor] = field(default_factory=list)
    places: list[Tensor] = field(default_factory=list)
    adapted: list[Tensor] = field(default_factory=list)
    own: list[Tensor] = field(default_factory=list)
    error: float = 0.0
    verified: int = 0
    mass: Tensor = field(default_factory=lambda: torch.zeros(2, dtype=torch.float64))


@torch.no_grad()
def score(model: Any, dataset: StreamDataset, place: Place, verify_every: int = 0, chosen: Tensor | None = None) -> TokenScores:
    """Score every token of a worker's streams at the targets alone.

    Raises:
        DataError: a score is not a number.

    Args:
        verify_every: of so many blocks one is scored by its full distributions instead, whose sums are checked; 0: none
        chosen: mask (V) of those words whose mass is wanted of these
    """
    scores, padding = TokenScores(), dataset.dictionary.pad()
    for number, sample in enumerate(blocks(model, dataset, place)):
        target, real = sample["target"], sample["target"] != padding
        if verify_every and number % verify_every == 0:
            adapted, own = _by_full_distributions(model, sample, real, chosen, scores)
        else:
            losses = model.decoder.losses(*model.decoder.without_scores(model, sample["net_input"]), target)
            adapted, own = (-part for part in losses)
        scores.places += [torch.arange(begin, end) for begin, end in sample["rows"]]
        scores.targets.append(target[real].cpu())
        scores.adapted.append(numbers_of("adapted model", adapted)[real].cpu())
        scores.own.append(numbers_of("model", own)[real].cpu())
    return scores


def _by_full_distributions(
    model: Any, sample: dict[str, Any], real: Tensor, chosen: Tensor | None, scores: TokenScores
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the targets, (B, T), of the adapted model and the model alone."""
    output = model(**sample["net_input"])
    own = torch.log_softmax(output[0].float(), -1)
    adapted = model.get_normalized_probs(output, log_probs=True)
    probabilities = [lprobs[real].double().exp() for lprobs in (adapted, own)]
    error = (1 - probabilities[0].sum(-1)).abs()
    if len(error):
        scores.error = float(torch.maximum(torch.tensor(scores.error).double(), error.max()))  # NaN stays
    scores.verified += len(error)
    if chosen is not None:
        scores.mass += torch.stack([of[:, chosen].sum() for of in probabilities]).cpu()
    return tuple(lprobs.gather(2, sample["target"].unsqueeze(2))[..., 0] for lprobs in (adapted, own))  # type: ignore[return-value]
