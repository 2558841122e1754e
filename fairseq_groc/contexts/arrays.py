"""The contexts of a binarised text in a file of safetensors beside it, mapped into memory and known by its lines' lengths."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_groc.contexts.variables import SplitContexts, Variable
from fairseq_groc.errors import DataError
from fairseq_groc.tensor_file import open_tensors, save_tensors

AGAIN = "Preprocess the text again with its --context-train, --context-valid or --context-test."
FORMAT = 2  # raise whenever the file or the meaning of what is in it changes
EARLIER = "context.json"  # of format 1, beside two arrays for each split
_SUFFIX = ".contexts"  # safetensors; with a second point fairseq-train would take that of valid1 for one more text


def path_of(prefix: Path) -> Path:
    """Return the file of a split's contexts, by the prefix of the text: its path without .bin."""
    return Path(f"{prefix}{_SUFFIX}")


def write_contexts(prefix: Path, contexts: SplitContexts, lengths: NDArray[Any]) -> None:
    """Write the contexts of a split.

    Args:
        prefix: of the text
        lengths: how many tokens each of its lines has
    """
    known = {of: [variable.as_dict() for variable in getattr(contexts, of)] for of in ("variables", "earlier")}
    arrays = {name: torch.tensor(getattr(contexts, name)) for name in ("categories", "numbers")}
    save_tensors(path_of(prefix), arrays, {"format": FORMAT, "text": _digest(lengths), **known})


def open_contexts(prefix: Path, lengths: NDArray[Any]) -> SplitContexts | None:
    """Return the contexts of a split; None: it has none.

    Args:
        prefix: of the text
        lengths: how many tokens each of its lines has

    Raises:
        DataError: they are damaged, or of another text.
    """
    path = path_of(prefix)
    if not os.path.lexists(path):
        return None
    contexts, text = _opened(path)
    if text != _digest(lengths):
        there, here = len(contexts.categories), len(lengths)
        other = "as many lines, of other lengths" if there == here else f"that one has {there:,} lines, this one {here:,}"
        raise DataError(f"{path}: of another text ({other}). {AGAIN}")
    return contexts


def earlier_contexts(folder: Path) -> tuple[Variable, ...]:
    """Return what an earlier training knows, of which a folder's vocabulary is; nothing: there is none, or no contexts.

    Raises:
        DataError: they are damaged, or of an earlier version.
    """
    if (folder / EARLIER).exists():
        raise DataError(f"{folder} has contexts of an earlier version ({EARLIER}). {AGAIN}")
    return next((_opened(path)[0].earlier for path in sorted(folder.glob(f"*{_SUFFIX}"))), ())


def _opened(path: Path) -> tuple[SplitContexts, str]:
    """Return what a file has: contexts, and the digest of the text that they are of."""
    try:
        header, tensors = open_tensors(path)
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']}, expected {FORMAT}")
        own, earlier = (tuple(map(Variable.from_dict, header[of])) for of in ("variables", "earlier"))
        categories, numbers = (tensors[name].numpy() for name in ("categories", "numbers"))
        contexts, text = SplitContexts(str(path).removesuffix(_SUFFIX), own, categories, numbers, earlier), str(header["text"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read ({error}). {AGAIN}") from None
    return contexts, text


def _digest(lengths: NDArray[Any]) -> str:
    return hashlib.sha256(np.asarray(lengths, "<i8").tobytes()).hexdigest()
