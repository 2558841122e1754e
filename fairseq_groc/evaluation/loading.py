"""A trained model with the data that it is to score: checkpoint, text, and the lexicon that its words come from."""

import logging
import os
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, GrocError, LexiconError, OptionError
from fairseq_groc.files import check_archive
from fairseq_groc.lexicon import Lexicon, PieceLexicon, open_lexicons
from fairseq_groc.lexicon.tables import Origin
from fairseq_groc.tasks.checks import check_needed
from fairseq_groc.tasks.config import adapter_fields

logger = logging.getLogger(__name__)


def load(path: str, data: str, device: str = "cpu", corrections: bool = True, **options: Any) -> Any:
    """Return a checkpoint with the vocabulary of a data folder, as ``from_pretrained`` does, for evaluation.

    Args:
        device: where it computes; on a GPU without TF32, which has 10 bits
        corrections: whether words are corrected, where the model corrects them
        options: of the task

    Raises:
        DataError: there is no such checkpoint or folder, or it is broken.
        OptionError: this machine has no such device.
    """
    _check_device(device)
    checkpoint, folder = Path(path), Path(data).resolve()  # fairseq takes ./data for a folder beside the checkpoint
    if not checkpoint.is_file():
        raise DataError(f"{checkpoint}: no such checkpoint")
    if not (folder / "dict.txt").is_file():
        raise DataError(f"{folder}/dict.txt not found: --data wants a folder from scripts/preprocess.sh")
    for name in (checkpoint.name, str(folder)):
        if os.pathsep in name:
            raise DataError(f"{name}: fairseq takes {os.pathsep!r} for the end of a name. Rename it, or make a link to it.")
    from fairseq.models import FairseqLanguageModel

    # by section: else fairseq drops options that are newer than the checkpoint
    options["task"] = {**options, "data": str(folder)}
    try:
        check_archive(checkpoint)
        hub = FairseqLanguageModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(folder), **options).eval()
    except GrocError:
        raise
    except Exception as error:  # whatever torch and fairseq make of a file that is cut, or no checkpoint
        if getattr(error, "filename", None) is not None:  # another file, or one that may not be read
            raise
        said = str(error).partition(". ")[0]  # PyTorch goes on to advise what is not safe
        reason = textwrap.shorten(f"{type(error).__name__}: {said}", 300)
        raise DataError(f"{checkpoint} cannot be loaded as a language model's checkpoint ({reason}).") from error
    if device != "cpu":
        torch.backends.cudnn.allow_tf32 = False
    check_weights(hub.to(device).models[0], checkpoint)
    if not corrections:
        leave_out_corrections(hub.models[0].decoder)
    hub.task.prepare_scoring()
    return hub


def _check_device(device: str) -> None:
    try:
        torch.tensor(0, device=device)
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = textwrap.shorten(str(error), 100)
        raise OptionError(f"device={device}: not on this machine ({reason}). Give 'cpu', or 'cuda' with a GPU.") from None


def check_weights(model: Any, checkpoint: Path) -> None:
    """Refuse a model that no figure can come from.

    Raises:
        DataError: a parameter, or what it computes of a word, is infinite or not a number.
    """
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            what = f"{int((~parameter.isfinite()).sum()):,} of {name} are no finite numbers"
            raise DataError(f"{checkpoint}: {what}: its training has diverged. Give an earlier checkpoint.")
    with torch.no_grad():
        matrices = model.decoder.matrices()[:2]  # kept for what comes
    if not all(bool(matrix.isfinite().all()) for matrix in matrices):
        raise DataError(f"{checkpoint}: its word embeddings are no numbers (NaN): the checkpoint is broken. Give another one.")


def options_of(args: Namespace) -> dict[str, Any]:
    """Return what ``load`` is told: where to compute, the lines' context, and what is done about words that the model lacks.

    Adapters are as given or by default; a command without their options takes tuned ones if told to.
    """
    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    common = {"device": device, "any_lexicon": args.any_lexicon, "draw_new_rows": args.draw_new_rows}
    common["context"] = getattr(args, "context", None)
    if not hasattr(args, "uniform_weight"):
        return {"no_tuned_adapters": not getattr(args, "tuned_adapters", False), **common}
    check_needed(args)
    return {**{option.name: getattr(args, option.name) for option in adapter_fields()}, **common}


def load_as(args: Namespace, path: str | None = None) -> Any:
    """Return the loaded checkpoint, or the one at *path*, as the options of a command say."""
    return load(path or args.path, args.data, corrections=not getattr(args, "no_corrections", False), **options_of(args))


def open_model(args: Namespace) -> Any:
    """Return the loaded checkpoint, which is to read texts as the options say."""
    hub = load_as(args)
    cfg = hub.task.cfg  # the checkpoint's, where the commands of fairseq have their own
    cfg.sample_break_mode = getattr(args, "sample_break_mode", "none")
    if args.tokens_per_sample:
        cfg.tokens_per_sample = args.tokens_per_sample
    for model in hub.models:
        model.decoder.adapter_block(args.tokens_per_sample)
    hub.task.check_room()
    return hub


def read_split(hub: Any, split: str) -> StreamDataset:
    """Return a text of the data folder for a loaded checkpoint to score.

    Raises:
        DataError: no such split.
    """
    hub.task.load_dataset(split)
    dataset = hub.task.dataset(split)
    hub.task.prepare_scoring(dataset)
    return dataset


def open_split(args: Namespace) -> tuple[Any, StreamDataset]:
    """Return the loaded checkpoint and the text to score.

    Raises:
        DataError: no such split.
    """
    hub = open_model(args)
    return hub, read_split(hub, args.split)


def data_lexicon(origin: Origin | None, paths: Sequence[str] | None) -> Lexicon | None:
    """Return the lexicon to look words up in: the one at *paths*, or the one that the data's tables come from.

    Args:
        origin: of the tables; None: the model reads none

    Raises:
        DataError: no path is given, and the lexicon of the tables is not where it was, or has changed.
    """
    if origin is None:
        return None
    if paths:
        lexicon = _opened(paths, origin)
        if not origin.is_of(lexicon):
            logger.warning(f"words are looked up in another lexicon ({lexicon.fingerprint()}) than the data's ({origin})")
        return lexicon
    why = "nothing says where it is"
    if origin.sources:
        try:
            lexicon = _opened(origin.sources, origin)
        except LexiconError as error:
            why = str(error)
        else:
            if origin.is_of(lexicon):
                return lexicon
            why = f"what is there is {lexicon.fingerprint()}"
    raise DataError(f"the data's tables come from a lexicon ({origin}) that is needed again: {why}. Give --lexicon-path LEXICON.")


def _opened(paths: Sequence[str], origin: Origin) -> Lexicon:
    """Open lexicons for such words as the tables have."""
    lexicon = open_lexicons(paths)
    return PieceLexicon(lexicon, origin.piece_mark) if origin.piece_mark else lexicon


def leave_out_corrections(decoder: Any) -> None:
    """Make words what they are composed of alone: another model, which has no use for what was stored of this one.

    Raises:
        OptionError: they have no corrections.
    """
    if decoder.matrices.corrections is None:
        raise OptionError("--no-corrections: this model's words have none. Leave it out.")
    decoder.matrices.corrections = None
    decoder.forget_fingerprints()
