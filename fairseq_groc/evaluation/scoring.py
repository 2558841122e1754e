"""One pass of a model over a text.

n: tokens; m: those whose distributions are verified; B: streams; T: positions of a block; V: vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq import utils
from torch import Tensor
from tqdm import tqdm

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.probabilities import numbers_of

NO_WORDS = torch.zeros(0, dtype=torch.long)


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


class TokenScores(NamedTuple):
    """What a pass found of every token, in the order in which they were read.

    Args:
        targets: (n)
        places: of these in the text, (n)
        adapted: log-probabilities of the adapted model, (n)
        own: of the model alone, (n)
        sums: of the adapted model's probabilities at the positions that were verified, (m)
        masses: what the adapted model and the model alone gave there to the words asked for, (m, 2)
    """

    targets: Tensor
    places: Tensor
    adapted: Tensor
    own: Tensor
    sums: Tensor
    masses: Tensor


@torch.no_grad()
def score(model: Any, dataset: StreamDataset, place: Place, verify_every: int = 0, chosen: Tensor = NO_WORDS) -> TokenScores:
    """Score every token of a worker's streams at the targets alone.

    Raises:
        DataError: a score is not a number.

    Args:
        verify_every: of so many blocks one is scored by its full distributions instead, whose sums are kept; 0: none
        chosen: mask (V) of those words whose mass is wanted of these
    """
    padding = dataset.dictionary.pad()
    parts: list[tuple[Tensor, ...]] = []
    for number, sample in enumerate(blocks(model, dataset, place)):
        target, real = sample["target"], sample["target"] != padding
        places = torch.cat([torch.arange(begin, end) for begin, end in sample["rows"]])
        sums, masses = torch.zeros(0, dtype=torch.float64), torch.zeros(0, 2, dtype=torch.float64)
        if verify_every and number % verify_every == 0:
            output = model(**sample["net_input"])
            both = model.get_normalized_probs(output, log_probs=True), torch.log_softmax(output[0].float(), -1)  # (B, T, V)
            of_adapted, of_own = (lprobs[real].double().exp() for lprobs in both)
            sums, masses = of_adapted.sum(1), torch.stack([of[:, chosen].sum(1) for of in (of_adapted, of_own)], dim=1)
            adapted, own = (lprobs.gather(2, target.unsqueeze(2))[..., 0] for lprobs in both)
        else:
            losses = model.decoder.losses(*model.decoder.without_scores(model, sample["net_input"]), target)
            adapted, own = (-part for part in losses)
        found = target[real], places, numbers_of("adapted model", adapted)[real], numbers_of("model", own)[real], sums, masses
        parts.append(tuple(part.cpu() for part in found))
    return TokenScores(*map(torch.cat, zip(*parts, strict=True)))
