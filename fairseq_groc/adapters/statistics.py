"""Statistics of a training text's gradients, which dynamic evaluation divides by (Krause et al. 2018, section 4), in files.

There is a file for each model and choice of what changes. What a word has its own of moves by word to other dictionaries.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.tensor_file import open_tensors, save_tensors

FORMAT = 2  # of the file; raise whenever its meaning or that of the fingerprint changes


class Statistics(NamedTuple):
    """Sizes of a training text's gradients.

    Args:
        rms: root mean square over the text of every number's gradient, by the name of its tensor
        mean: of the means of these tensors
    """

    rms: Mapping[str, Tensor]
    mean: float


def path_of(folder: Path, digest: str, choice: str) -> Path:
    """Return the file of a model's statistics in a folder, by its ``rowless_fingerprint`` and the choice."""
    return folder / f"gradients-{digest[:16]}-{choice}.safetensors"


def save_statistics(path: Path, digest: str, statistics: Statistics, decoder: Any, rows: Iterable[str], **about: Any) -> None:
    """Write the statistics of a model; the file appears whole or not at all.

    Args:
        rows: names of tensors that have a row a word
        about: how they were made
    """
    header = {"format": FORMAT, "model": digest, "words": decoder.dictionary.symbols, **about}
    save_tensors(path, statistics.rms, {**header, "rows": sorted(rows), "mean": statistics.mean})


def check_part(path: Path) -> None:
    """Refuse that statistics of some batches (--max-batches) take the place of a whole text's, or of who knows what.

    Raises:
        OptionError: they would.
    """
    with suppress(ValueError):  # damaged: nothing is lost
        if path.is_file() and not open_tensors(path)[0].get("max_batches"):
            raise OptionError(f"--max-batches: {path} may be of a whole text: give another --dest, or remove it")


def load_statistics(folder: Path, decoder: Any, choice: str) -> Statistics:
    """Return a model's statistics from a folder, for its own dictionary.

    Words that the text's dictionary lacked have the mean of the others' rows.

    Raises:
        OptionError: there are none of this model.
        DataError: the file is damaged, or of another format.
    """
    digest = decoder.rowless_fingerprint()
    path = path_of(folder, digest, choice)
    make = f"python -m fairseq_groc gradient-statistics --path CHECKPOINT --data DATA --dynamic-parameters {choice}"
    if not path.is_file():
        raise OptionError(
            f"--dynamic-rate: {folder} has no gradient statistics of this model ({path.name}). Make them: {make}; or give their "
            "folder: --dynamic-statistics."
        )
    try:
        about, rms = open_tensors(path)
    except ValueError as error:
        raise DataError(f"{path.parent}/{error}. Make it anew: {make}") from None
    if about.get("format") != FORMAT or about["model"] != digest:
        raise DataError(f"{path} is of another format or model. Make it anew: {make}")
    rms |= {name: moved(rms[name], about["words"], decoder.dictionary.symbols) for name in about["rows"]}
    device = next(decoder.parameters()).device
    return Statistics({name: one.to(device) for name, one in rms.items()}, about["mean"])


def moved(rows: Tensor, words: list[str], others: list[str]) -> Tensor:
    """Return the rows of other words, (V', ...): those of the same words, and for new ones the mean of all rows, (V, ...)."""
    index = {word: i for i, word in enumerate(words)}
    source = torch.tensor([index.get(word, len(words)) for word in others], dtype=torch.long)
    return torch.cat([rows, rows.mean(0, keepdim=True)])[source]
