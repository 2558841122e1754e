"""Statistics of a training text's gradients, which dynamic evaluation divides by (Krause et al. 2018, section 4).

They are kept in a file for each model and choice of what changes. What a word has its own of moves by word to other dictionaries.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.dynamic import Leaves, Statistics
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.files import check_archive, replace_file
from fairseq_groc.models.matrices_file import add_tensors

FORMAT = 1  # of the file; raise whenever its meaning or that of the fingerprint changes


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


def path_of(folder: Path, digest: str, choice: str) -> Path:
    """Return the file of a model's statistics in a folder, by its ``rowless_fingerprint`` and the choice."""
    return folder / f"gradients-{digest[:16]}-{choice}.pt"


def save_statistics(path: Path, digest: str, statistics: Statistics, decoder: Any, leaves: Leaves, **about: Any) -> None:
    """Write the statistics of a model; the file appears whole or not at all.

    Args:
        about: how they were made
    """
    header = {"format": FORMAT, "model": digest, "words": decoder.dictionary.symbols, **about}
    tensors = {name: one.cpu() for name, one in statistics.rms.items()}
    with replace_file(path, "wb") as file:
        torch.save({**header, "rows": sorted(leaves.rows), "mean": statistics.mean, "rms": tensors}, file)


def load_statistics(folder: Path, decoder: Any, choice: str) -> Statistics:
    """Return a model's statistics from a folder, for its own dictionary.

    Words that the text's dictionary lacked have the mean of the others' rows.

    Raises:
        OptionError: there are none of this model.
        DataError: the file is damaged, or of another format.
    """
    digest = rowless_fingerprint(decoder)
    path = path_of(folder, digest, choice)
    make = f"python -m fairseq_groc gradient-statistics --path CHECKPOINT --data DATA --dynamic-parameters {choice}"
    if not path.is_file():
        raise OptionError(
            f"--dynamic-rate: {folder} has no gradient statistics of this model ({path.name}). Make them: {make}; or give their "
            "folder: --dynamic-statistics."
        )
    try:
        check_archive(path)
        saved = torch.load(path, map_location="cpu", weights_only=True)
        known, fitting = saved["format"], saved["model"] == digest
        rms, mean, words, rows = dict(saved["rms"]), float(saved["mean"]), list(saved["words"]), list(saved["rows"])
        for name in rows:
            rms[name] = moved(rms[name], words, decoder.dictionary.symbols)
    except Exception:  # whatever zipfile and torch make of a file that is cut
        raise DataError(f"{path} is damaged. Make it anew: {make}") from None
    if known != FORMAT or not fitting:
        raise DataError(f"{path} is of another format or model. Make it anew: {make}")
    device = next(decoder.parameters()).device
    return Statistics({name: one.to(device) for name, one in rms.items()}, mean)


def moved(rows: Tensor, words: list[str], others: list[str]) -> Tensor:
    """Return the rows of other words, (V', ...): those of the same words, and for new ones the mean of all rows, (V, ...)."""
    index = {word: i for i, word in enumerate(words)}
    source = torch.tensor([index.get(word, len(words)) for word in others], dtype=torch.long)
    return torch.cat([rows, rows.mean(0, keepdim=True)])[source]


def rowless_fingerprint(decoder: Any) -> str:
    """Return a digest of what a decoder has whatever its dictionary: all parameters but the rows of words."""
    rows = {f"{name}." for name, module in decoder.named_modules() if isinstance(module, WordRows)}
    named = decoder.named_parameters()
    return add_tensors(hashlib.sha256(), ((name, one) for name, one in named if not name.startswith(tuple(rows))))
