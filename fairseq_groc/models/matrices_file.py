"""Matrices of a vocabulary on disk, so that it need not be encoded again, and as word2vec text for other tools."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.errors import OptionError
from fairseq_groc.files import replace_file
from fairseq_groc.tensor_file import add_tensors, open_tensors, save_tensors

FORMAT = 2


def fingerprint(module: nn.Module, buffers: bool = True) -> str:
    """Return a digest of all parameters of a module and, unless told otherwise, of its buffers, vocabulary tables included."""
    digest = hashlib.sha256(repr(module).encode())
    for kind in (module.named_parameters(), module.named_buffers() if buffers else ()):
        add_tensors(digest, kind)
    return digest.hexdigest()


def save_matrices(path: Path, matrices: tuple[Tensor, ...], digest: str) -> None:
    """Write the matrices; the file appears whole or not at all.

    Raises:
        OptionError: the file exists and is something else.
    """
    path = Path(path)
    if path.exists() and _read(path) is None:
        raise OptionError(f"{path} exists and holds no embeddings: give --export-embeddings another name, or remove it")
    places = [(matrix.data_ptr(), matrix.shape) for matrix in matrices]
    order = [places.index(place) for place in places]  # what is the same, as rows of input and output may be, is written once
    tensors = {str(number): matrices[number] for number in set(order)}
    save_tensors(path, tensors, {"format": FORMAT, "fingerprint": digest, "matrices": order})


def load_matrices(path: Path, digest: str, device: torch.device) -> tuple[Tensor, ...] | None:
    """Return the saved matrices, or None if there are none, or those of another model or vocabulary."""
    saved = _read(Path(path))
    if saved is None or saved[0]["fingerprint"] != digest:
        return None
    header, tensors = saved
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    return tuple(tensors[str(number)] for number in header["matrices"])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    try:
        header, tensors = open_tensors(path)
    except (OSError, ValueError):
        return None
    return (header, tensors) if header.get("format") == FORMAT and "matrices" in header else None


def write_word2vec(path: Path, words: Sequence[str], embeddings: Tensor) -> None:
    """Write word2vec's text format: a line with V and d, then a word and its d numbers a line. It appears whole or not at all."""
    with replace_file(path) as file:
        file.write(f"{len(words)} {embeddings.size(1)}\n")
        # as numbers of Python they are 8 times as large
        rows = (row for piece in embeddings.split(4096) for row in piece.tolist())
        for word, row in zip(words, rows, strict=True):
            file.write(f"{word} {' '.join(f'{value:.6g}' for value in row)}\n")


def is_word2vec(path: Path) -> bool:
    """Say whether a file begins as word2vec's text format does: V and d, then a word with d numbers."""
    with open(path, "rb") as file:
        sizes, first = file.readline(100).split(), file.readline(1 << 20).split()
    return len(sizes) == 2 and all(size.isdigit() for size in sizes) and len(first) == 1 + int(sizes[1])
