"""Read a text with a model and store what an unbounded cache needs of it: --cache-text then lets any scoring see it."""

import hashlib
import logging
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from fairseq_groc.adapters.store import REMEDY, EntryStore
from fairseq_groc.arguments import add_text
from fairseq_groc.errors import CacheError, DataError
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.files import check_archive, digest, replace_file, writing_to

logger = logging.getLogger(__name__)
COMMIT = 10  # seconds between commits
STATE = "state.pt"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("dest", type=Path, help="folder to write; continued if it is unfinished")
    add_text(parser, "train")


def run(args: Namespace) -> None:
    args.dest.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(args.dest / ".lock", timeout=0), writing_to(args.dest):
            remember(args)
    except Timeout:
        raise CacheError(f"another process writes to {args.dest}. Wait for it, or give another folder.") from None


@torch.no_grad()
def remember(args: Namespace) -> None:
    """Read the text from where the folder ends, and store it."""
    hub, dataset = open_split(args)
    model, padding = hub.models[0], dataset.dictionary.pad()
    model.decoder.adapter = None
    block = hub.task.block_length()
    about = {"model": model.decoder.fingerprint(), "text": digest(Path(args.data, f"{args.split}.bin")), "block": block}
    if dataset.contexts is not None:
        about["contexts"] = hashlib.sha256(b"".join(part.tobytes() for part in dataset.contexts)).hexdigest()
    store = EntryStore(args.dest, model.decoder.scoring_layer.dim, about)
    done, committed = resume(args.dest, model, store), time.monotonic()
    for sample in blocks(model, dataset, Place(1, block), begin=done):
        model.decoder.without_scores(model, sample["net_input"])
        h = model.decoder.scoring_layer.features  # (B, T, d), without what is behind it of contexts
        real = sample["target"] != padding
        store.append(h[real].float().cpu().numpy(), sample["target"][real].cpu().numpy())
        if time.monotonic() - committed > COMMIT:
            committed = time.monotonic()
            logger.info(f"{commit(args.dest, model, store):,} of {dataset.num_tokens_total:,} words stored")
    count = commit(args.dest, model, store)
    if count != dataset.num_tokens_total:
        raise DataError(f"{count:,} words were stored of a text of {dataset.num_tokens_total:,}: this is a bug, report it")
    print(f"{args.dest}: {count:,} words stored")


def commit(folder: Path, model: Any, store: EntryStore) -> int:
    """Store everything up to now, with the state to go on from; return how many words these are."""
    carried = model.decoder.carried
    with replace_file(folder / f"{store.count}.{STATE}", "wb") as file:
        torch.save({"carried": carried[False].state_dict() if carried else {}}, file)
    count = store.commit()
    for old in folder.glob(f"*.{STATE}"):  # only now is the last one not needed any more
        if old.name != f"{count}.{STATE}":
            old.unlink()
    return count


def resume(folder: Path, model: Any, store: EntryStore) -> int:
    """Let the model go on from where the store ends; return how many words it has."""
    state = folder / f"{store.count}.{STATE}"
    if not store.count:
        return 0
    try:
        check_archive(state)
        saved = torch.load(state, weights_only=True)
    except Exception:  # whatever torch.load makes of a file that is missing or cut
        raise CacheError(f"{state}, the model's state after the last word stored, is missing or damaged. {REMEDY}") from None
    if model.decoder.carried:
        parameter = next(model.parameters())
        model.decoder.carried[False].load_state_dict(saved["carried"], parameter.device, parameter.dtype)
    logger.info(f"{folder}: going on after {store.count:,} words")
    return store.count
