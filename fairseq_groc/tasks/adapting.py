"""Adapters as the task's options and data folder say them."""

import logging
from pathlib import Path
from typing import Any

import torch
from fairseq import utils

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.adapters.search import Search
from fairseq_groc.data.fingerprint import digest, trained_words
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.dictionary import real_words
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.gradients import load_statistics
from fairseq_groc.evaluation.stored import open_remembered

logger = logging.getLogger(__name__)


def make_adapter(
    cfg: Any, decoder: Any, settings: AdapterSettings, text: str | None = None, statistics: str | None = None
) -> Adapter:
    """Return what some settings make of a trained model's probabilities.

    Args:
        cfg: the task's options
        text: folder of a text that an unbounded cache sees, too
        statistics: folder of gradient statistics, for dynamic evaluation; None: the data folder

    Raises:
        OptionError: a limited vocabulary, and a text that may have any word; no statistics of this model.
    """
    if text and decoder.matrices.limit is not None:
        raise OptionError("a limited vocabulary does not go with --cache-text, whose words may be any: leave one out")
    store = Search(open_remembered(Path(text), decoder)) if text else None
    gradients = None
    if settings.dynamic_rate > 0:
        folder = Path(statistics or utils.split_paths(cfg.data)[0])
        gradients = load_statistics(folder, decoder, settings.dynamic_parameters)
    return Adapter(settings, decoder.real_words(), new_words(cfg, decoder.dictionary, settings), store, gradients)


def check_order(adapter: Adapter | None, dataset: StreamDataset) -> None:
    """Refuse to learn from a text whose lines begin anew.

    Raises:
        OptionError: the lines are independent.
    """
    if adapter is not None and adapter.settings.dynamic_rate > 0 and dataset.independent_lines:
        raise OptionError(
            "--sample-break-mode eos: every line begins anew, and dynamic evaluation would learn nothing. Leave out one of them."
        )


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


def check_remembered(cfg: Any, adapter: Adapter | None, dataset: StreamDataset) -> None:
    """Refuse to score a text that the unbounded cache remembers beforehand: it would know the answers.

    Raises:
        DataError: the remembered text is this one.
    """
    if adapter is None or adapter.remembered is None:
        return
    for folder in utils.split_paths(cfg.data):
        path = Path(folder, f"{dataset.name}.bin")
        if path.is_file() and digest(path) == adapter.remembered.store.about["text"]:
            raise DataError(f"{path} is the text that --cache-text remembers: a cache must not know what it is to predict")


def report_impossible(decoder: Any, dataset: StreamDataset) -> None:
    """Say how many tokens of a text the model gives probability 0, which makes the perplexity infinite."""
    unknown = decoder.matrices.head.unknown()
    count = 0 if unknown is None else sum(int(unknown[line.long()].sum()) for line in dataset.lines)
    if count:
        caches = " but for what its caches remember" if decoder.adapter and decoder.adapter.settings.caches() else ""
        logger.warning(
            f"{count:,} of {dataset.num_tokens_total:,} tokens of '{dataset.name}' are words that the model has no row "
            f"for: they are impossible{caches} and the perplexity is inf. Give --uniform-weight W to mix in the uniform "
            "distribution."
        )
