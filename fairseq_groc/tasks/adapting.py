"""Adapters as the task's options and data folder say them."""

import logging
from pathlib import Path
from typing import Any

import torch
from fairseq import utils

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.dictionary import real_words
from fairseq_groc.errors import DataError
from fairseq_groc.files import digest

logger = logging.getLogger(__name__)


def make_adapter(cfg: Any, decoder: Any, settings: AdapterSettings) -> Adapter:
    """Return what some settings make of a trained model's probabilities.

    Args:
        cfg: the task's options

    Raises:
        OptionError: a limited vocabulary that an adapter does not go with; nothing of this model in a folder.
    """
    if decoder.matrices.limit is not None:
        settings.refuse("limit")
    opened = settings.open(decoder, Path(utils.split_paths(cfg.data)[0]))
    return Adapter(settings, decoder.real_words(), new_words(cfg, decoder.dictionary, settings), opened)


def new_words(cfg: Any, dictionary: Any, settings: AdapterSettings) -> torch.Tensor:
    """Return the mask (V) of words that the training text lacks.

    Raises:
        DataError: a discount needs it, and nothing says which they are.
    """
    known = trained_words(Path(utils.split_paths(cfg.data)[0]), len(dictionary))
    if known is None and settings.new_word_discount != 1:
        raise DataError(f"{cfg.data}: nothing says which words are new. Make the folder with scripts/preprocess.sh.")
    real = torch.tensor(real_words(dictionary.symbols))
    return torch.zeros_like(real) if known is None else real & ~torch.from_numpy(known)


def check_text(cfg: Any, adapter: Adapter | None, dataset: StreamDataset, generates: bool = False) -> None:
    """Refuse to adapt to a text of lines by themselves where an adapter does not, or to one that an adapter has read already: it
    would know the answers.

    Args:
        generates: lines are gone on from, not scored; then an adapter refuses by itself

    Raises:
        OptionError, DataError: which.
    """
    if adapter is None:
        return
    if dataset.independent_lines and not generates:
        adapter.settings.refuse("lines")
    known = {found["text"]: name for name, found in adapter.about().items() if "text" in found}
    for folder in utils.split_paths(cfg.data) if known else ():
        path = Path(folder, f"{dataset.name}.bin")
        if path.is_file() and (found := known.get(digest(path))):
            raise DataError(f"{path} is the text that the adapter {found!r} has read: it must not know what it is to predict")


def report_impossible(decoder: Any, dataset: StreamDataset) -> None:
    """Say how many tokens of a text the model gives probability 0, which makes the perplexity infinite."""
    unknown = decoder.matrices.head.unknown()
    if unknown is not None and (count := int(unknown.cpu().numpy()[dataset.text].sum())):
        caches = " but for what its caches remember" if decoder.adapter and decoder.adapter.settings.caches() else ""
        logger.warning(
            f"{count:,} of {dataset.num_tokens_total:,} tokens of '{dataset.name}' are words that the model has no row "
            f"for: they are impossible{caches} and the perplexity is inf. Give --uniform-weight W to mix in the uniform "
            "distribution."
        )
