"""Tensors and what is known of them in one file of safetensors: mapped into memory, and read only as they were written."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fairseq_groc.files import replace_file

HEADER, DIGEST = "header", "sha256"  # in the file's metadata


def save_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors that share no memory, and a header of what JSON can say; the file appears whole or not at all.

    Raises:
        OSError: it cannot be written, as where a disk is full.
    """
    text = json.dumps(header)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replace_file(path, "wb") as file:
        try:
            save_file(plain, file.name, {HEADER: text, DIGEST: _digest(text, plain)})
            _open(Path(file.name))
        except (OSError, ValueError, SafetensorError) as error:
            raise OSError(f"{path}: {error}") from None


def open_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the header and the tensors, which are mapped: processes that open one file hold it once.

    Raises:
        OSError: there is no such file.
        ValueError: it is damaged, or another kind of file.
    """
    try:
        return _open(path)
    except OSError:
        raise
    except Exception as error:  # whatever safetensors and json make of a file that is not theirs
        raise ValueError(f"{path.name} is damaged ({str(error) or type(error).__name__})".splitlines()[0]) from None


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if about[DIGEST] != _digest(about[HEADER], tensors):
        raise ValueError("its checksum does not fit")
    return json.loads(about[HEADER]), tensors


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    return add_tensors(hashlib.sha256(header.encode()), tensors.items())


def add_tensors(digest: Any, named: Iterable[tuple[str, Tensor]]) -> str:
    """Add tensors to a digest in the order of their names, and return what it is then."""
    for name, tensor in sorted(named):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        flat = tensor.detach().reshape(-1).cpu()
        if flat.stride(0) != 1:  # as of none or one
            flat = torch.empty(flat.shape, dtype=flat.dtype).copy_(flat)
        digest.update(flat.view(torch.uint8).numpy())
    return str(digest.hexdigest())
