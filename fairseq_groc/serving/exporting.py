"""Write a model as a folder that ``service.py`` reads by itself: matrices of its words, encoders, word list."""

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.dictionary import spelling
from fairseq_groc.embeddings import CompositionalEmbedding, WordRows
from fairseq_groc.embeddings.vocabulary import BYTES
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.files import check_place, writing_to
from fairseq_groc.heads import HEADS
from fairseq_groc.serving import service

LSTMS = ("lstm", "awd_lstm")  # prefix encoders
SERVED = ("compositional_output", "tied", "lookup", "bilinear", "deep_residual")  # heads
ACTIVATIONS = {nn.Identity: "positive", nn.ReLU: "relu", nn.SELU: "selu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}  # of torch
PARTS = ("relations", "definition")
SUPPORTED = f"--prefix-encoder {' or '.join(LSTMS)}, --output-head {', '.join(SERVED)}, with or without --corrections"
FILES = {"service.py", "service.json", "words.txt", "reader.pt", "encoder.pt", "embeddings.pt"}


def check_folder(folder: Path) -> None:
    """Refuse, before the work, a folder that cannot be written or that holds something else.

    Raises:
        OptionError: with what is there.
    """
    if not folder.is_symlink() and folder.is_dir():
        others = sorted({path.name for path in folder.iterdir()} - FILES - {"__pycache__"})
        if others:
            raise OptionError(f"--service {folder} holds something else, {others[0]} among it: give another name")
        check_place("--service", folder / "service.json")
    elif folder.is_symlink() or folder.exists():
        raise OptionError(f"--service {folder} exists and is no folder: give another name")
    else:
        check_place("--service", folder)


def check_supported(decoder: Any) -> None:
    """Refuse a model that is made of other parts than the service has.

    Raises:
        OptionError: with the part, and those that it has.
    """
    parts: list[tuple[str, Any, Sequence[type[nn.Module]]]] = [
        ("encoder", getattr(decoder, "encoder", decoder), [ENCODERS[name] for name in LSTMS]),
        ("head", decoder.matrices.head, [HEADS[name].kind for name in SERVED]),
        ("embedding", decoder.matrices.embedding, (CompositionalEmbedding, WordRows)),
    ]
    other = next((f"{what} {type(part).__name__}" for what, part, known in parts if type(part) not in known), None)
    vocabulary = decoder.matrices.vocabulary
    if vocabulary is not None and vocabulary.spelled != BYTES:
        other = "spellings of pieces" if vocabulary.spelled.mark else "spellings in characters"
    if decoder.contexts is not None:
        other = "contexts"
    if other is not None:
        raise OptionError(
            f"--service: this model has the {other}, which is not exported. Expected {SUPPORTED}, without contexts."
        )


@torch.no_grad()
def write_service(decoder: Any, folder: Path) -> None:
    """Write a model in evaluation, over the vocabulary that it has now; the folder appears whole or not at all.

    Args:
        decoder: a ``WordDecoder``
        folder: new, or an earlier one, which is replaced: processes that have it open go on with what they have read

    Raises:
        OptionError: a model with other parts, or a folder with other files.
    """
    check_supported(decoder)
    check_folder(folder)
    target = Path(os.path.realpath(folder))
    scratch, old = (target.with_name(f".{uuid.uuid4().hex}.part") for _ in range(2))
    try:
        with writing_to(folder):
            scratch.mkdir()
            _write(decoder, scratch)
            if target.exists():
                target.rename(old)
            scratch.rename(target)
    except BaseException:  # also an interrupt, after which the earlier folder would be removed below
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        for litter in (scratch, old):
            shutil.rmtree(litter, ignore_errors=True)


def _write(decoder: Any, folder: Path) -> None:
    words = decoder.dictionary.symbols
    inputs, outputs, bias = decoder.matrices()
    embeddings = {"inputs": _plain(inputs), "outputs": _plain(outputs), "bias": _plain(bias)}
    if outputs.data_ptr() == inputs.data_ptr() and outputs.shape == inputs.shape:  # written once
        embeddings["outputs"] = embeddings["inputs"]
    reader, sizes = reader_of(decoder)
    encoder, about = encoder_of(decoder.matrices)
    for name, tensors in (("embeddings", embeddings), ("reader", reader), ("encoder", encoder)):
        if tensors:
            torch.save(tensors, folder / f"{name}.pt")
    (folder / "words.txt").write_bytes(spelling("\n".join(words)))
    settings = {"format": service.FORMAT, "reader": sizes, "encoder": about}
    (folder / "service.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    shutil.copyfile(service.__file__, folder / "service.py")


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().float().cpu().clone(memory_format=torch.contiguous_format)


def reader_of(decoder: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the parameters and sizes of ``service.Reader``."""
    layer, head = decoder.scoring_layer, decoder.matrices.head
    maps = [one for one in (layer.context, getattr(head, "query_map", None)) if isinstance(one, nn.Linear)]
    lstms = list(decoder.encoder.layers)
    sizes = {
        "lstms": [[lstm.input_size, lstm.hidden_size] for lstm in lstms],
        "maps": [[one.in_features, one.out_features] for one in maps],
    }
    return _named({"lstms": nn.ModuleList(lstms), "maps": nn.ModuleList(maps)}), sizes


def encoder_of(matrices: Any) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Return the parameters and sizes of ``service.WordEncoder``; nothing where words have rows."""
    embedding, head = matrices.embedding, matrices.head
    if not isinstance(embedding, CompositionalEmbedding):
        return {}, None
    surface, network = embedding.surface, head.network
    tensors = _named({"": surface, "compose": embedding.compose, "layers": network.layers, "bias": head.bias})
    read = zip(PARTS, (embedding.relations, embedding.definitions), strict=True)
    activations = {type(layer[1]) for layer in network.layers} or {nn.Identity}
    return tensors, {
        "widths": surface.widths,
        "highways": len(surface.highways),
        "parts": [part for part, present in read if present],
        "depth": len(network.layers),
        "to_previous": network.to_previous,
        "activation": ACTIVATIONS[activations.pop()],
        "bias_activation": ACTIVATIONS[type(head.bias_activation)],
    }


def _named(modules: dict[str, nn.Module | None]) -> dict[str, Tensor]:
    """Return the parameters of modules by name."""
    return {
        f"{prefix}.{name}" if prefix else name: _plain(tensor)
        for prefix, module in modules.items()
        if module is not None
        for name, tensor in module.named_parameters()
    }
