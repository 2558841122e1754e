"""Statistics of a training text's gradients, which dynamic evaluation divides by (Krause et al. 2018, section 4)."""

import itertools
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.dynamic import Leaves
from fairseq_groc.adapters.statistics import Statistics
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError
from fairseq_groc.evaluation.scoring import Place, blocks


def mean_squares(model: Any, leaves: Leaves, dataset: StreamDataset, place: Place, most: int = 0) -> dict[str, Tensor]:
    """Return by name of each tensor the mean over a text's batches of its squared gradients, of the batch's mean loss.

    The model is in evaluation, without adapters; its state is carried from block to block, without gradients.

    Args:
        leaves: what changes; all streams share it
        place: how the text is read
        most: batches that are read; 0: all
    """
    sums = {name: torch.zeros_like(one) for name, one in leaves.tensors.items()}
    number = 0
    for sample in itertools.islice(blocks(model, dataset, place), most or None):
        with torch.set_grad_enabled(leaves.learns), leaves.acting():
            h, _, _ = model.decoder.without_scores(model, sample["net_input"])
        with torch.enable_grad(), leaves.acting():
            loss = leaves.loss(leaves.read(h), sample["target"])
            gradients = torch.autograd.grad(loss, list(leaves.tensors.values()), allow_unused=True)
        for total, gradient in zip(sums.values(), gradients, strict=True):
            if gradient is not None:
                total.addcmul_(gradient, gradient)
        number += 1
    return {name: total / number for name, total in sums.items()}


def statistics_of(squares: dict[str, Tensor]) -> Statistics:
    """Return their roots, and the mean of the tensors' means.

    Raises:
        DataError: they are no numbers, or all 0.
    """
    rms = {name: square.sqrt() for name, square in squares.items()}
    mean = sum(float(one.double().mean()) for one in rms.values()) / len(rms)
    if not 0 < mean < float("inf"):
        raise DataError(f"the mean size of gradients is {mean}: nothing can be learned from them. Is the checkpoint trained?")
    return Statistics(rms, mean)
