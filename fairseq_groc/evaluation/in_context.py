"""What a model makes of lines in contexts that are not theirs: n: lines; C: contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.modules.probabilities import numbers_of


@torch.no_grad()
def token_scores(
    model: Any, dataset: StreamDataset, context: Contexts | None, batch_size: int, block: int, chunk: int = 16_384
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield of each batch of lines whose they are (B), the words (B, T), and their log-probabilities in a context, (B, T).

    Args:
        dataset: of independent lines
        context: one, in place of the lines' own; None: their own
        batch_size: lines at a time
        block: tokens of a line at a time
    """
    padding = dataset.dictionary.pad()
    for sample in blocks(model, dataset, Place(batch_size, block)):
        net_input, target = sample["net_input"], sample["target"]
        if context is not None:
            given = {name: one.to(target.device) for name, one in context.of_lines(np.zeros(len(target), np.int64)).items()}
            net_input = {**net_input, "context": given}
        losses, _ = model.decoder.losses(*model.decoder.without_scores(model, net_input), target, chunk)
        yield sample["id"], target, numbers_of("model", -losses).masked_fill(target == padding, 0)


def line_scores(model: Any, dataset: StreamDataset, contexts: Sequence[Contexts], batch_size: int, block: int) -> Tensor:
    """Return log p(line | context) of every line in each of several contexts, (n, C): what Bayes' rule wants.

    The arguments are those of ``token_scores``. Where adapters act, they do so in every line by itself.
    """
    scores = torch.zeros(len(dataset), len(contexts), dtype=torch.float64)
    for place, context in enumerate(contexts):
        for lines, _, lprobs in token_scores(model, dataset, context, batch_size, block):
            real = lines >= 0  # a batch has rows for lines that have ended
            scores[lines[real].cpu(), place] += lprobs[real].double().sum(1).cpu()
    return scores
