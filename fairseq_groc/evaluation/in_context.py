"""What a model makes of lines in contexts that need not be theirs. n: lines; C: contexts; V: vocabulary."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.modules.per_thread import having
from fairseq_groc.modules.probabilities import is_impossible, numbers_of


def variable_of(schema: Schema | None, name: str) -> tuple[int, Variable]:
    """Return a category that the model knows, and its place among the categories.

    Raises:
        OptionError: the model knows none of that name.
    """
    names = [variable.name for variable in schema.categories] if schema else []
    if schema is None or name not in names:
        known = ", ".join(names) or "no category"
        raise OptionError(f"--variable {name}: this model's contexts have {known}. Give one of them, or a model that has it.")
    return names.index(name), schema.categories[names.index(name)]


def in_context(dataset: StreamDataset, contexts: Contexts) -> AbstractContextManager[None]:
    """Let lines have other contexts: one each, or one for all."""
    return having(dataset, "contexts", contexts)


@torch.no_grad()
def token_scores(model: Any, dataset: StreamDataset, batch_size: int, block: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield of each batch of lines which they are (B), -1: none, its words (B, T), and their log-probabilities (B, T).

    Padding has log-probability 0.

    Args:
        dataset: of independent lines
        batch_size: lines at a time
        block: tokens of a line at a time
    """
    for sample in blocks(model, dataset, Place(min(batch_size, len(dataset)), block)):
        losses, _ = model.decoder.losses(*model.decoder.without_scores(model, sample["net_input"]), sample["target"])
        yield sample["id"], sample["target"], numbers_of("model", -losses)


def log_likelihoods(model: Any, dataset: StreamDataset, contexts: Sequence[Contexts], batch_size: int, block: int) -> Tensor:
    """Return log p(line | context) of every line in each of several contexts, (n, C), which Bayes' rule wants.

    Args:
        contexts: each of all lines, or one for every line
        batch_size, block: as ``token_scores`` has them

    Raises:
        DataError: a line is impossible.
    """
    scores = torch.zeros(len(dataset), len(contexts), dtype=torch.float64)
    for place, given in enumerate(contexts):
        with in_context(dataset, given):
            for lines, _, lprobs in token_scores(model, dataset, batch_size, block):
                real = (lines >= 0).cpu()  # a batch may have rows without a line
                scores[lines.cpu()[real], place] += lprobs.double().sum(1).cpu()[real]
    if len(lost := is_impossible(scores).any(1).nonzero()):
        raise DataError(f"line {int(lost[0]) + 1} of '{dataset.name}' has words that the model has not, and is impossible")
    return scores


def word_gains(
    model: Any, dataset: StreamDataset, given: Contexts, other: Contexts, batch_size: int, block: int
) -> tuple[Tensor, Tensor]:
    """Return how much more log-probability words have on a text in one context than in another: the sum (V), and how many (V)."""
    size = len(dataset.dictionary)
    sums, counts = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.long)
    for contexts, sign in ((given, 1.0), (other, -1.0)):
        with in_context(dataset, contexts):
            for _, words, lprobs in token_scores(model, dataset, batch_size, block):
                sums.index_add_(0, words.flatten().cpu(), sign * lprobs.double().flatten().cpu())
                if sign > 0:
                    counts += torch.bincount(words.flatten().cpu(), minlength=size)
    counts[dataset.dictionary.pad()] = 0
    return sums, counts


@torch.no_grad()
def boosts(decoder: Any, contexts: Contexts) -> Tensor:
    """Return the score of each word by itself in each context, without the prefix encoder, (C, V).

    That is b + Q c, or b + E_out P c (Jaech and Ostendorf 2018, Table 5).

    Raises:
        OptionError: contexts do nothing to words by themselves.
    """
    if decoder.contexts is None or (decoder.contexts.shift is None and not decoder.contexts.appended):
        raise OptionError("this model's words have nothing for contexts (--context-bias none): see what is measured on text")
    with decoder.contexts.reading(contexts.of_lines(contexts.index)):
        h = next(decoder.parameters()).new_zeros(len(contexts.index), 1, decoder.contexts.width)
        scores = decoder.matrices.log_scores(decoder.contexts.append(decoder.contexts.to_features(h)), *decoder.matrices()[1:])
    return scores[:, 0]
