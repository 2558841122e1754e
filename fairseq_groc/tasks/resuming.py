"""A training that was killed goes on: what the kill left of its checkpoints is mended before fairseq reads them.

fairseq writes a checkpoint whole under its first name, and copies it to ``checkpoint_best.pt`` and ``checkpoint_last.pt``.
A kill, or a full disk, in the middle of a copy leaves it cut, beside the one that it was copied from.
"""

import logging
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed.utils import get_global_rank
from fairseq.tasks import FairseqTask
from omegaconf import II

from fairseq_groc.embeddings.rows import rows_below
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.files import check_archive, replace_file
from fairseq_groc.tasks.workers import gather

logger = logging.getLogger(__name__)

LAST, BEST = "checkpoint_last.pt", "checkpoint_best.pt"


@dataclass
class ResumingConfig(FairseqDataclass):
    """Where fairseq's trainer looks for a checkpoint to go on from."""

    save_dir: str = II("checkpoint.save_dir")
    restore_file: str = II("checkpoint.restore_file")


def mend_before_resuming(cfg: ResumingConfig) -> None:
    """Mend the checkpoints of a training that goes on by itself; the first of several workers does it, and all wait for it.

    Args:
        cfg: of the task

    Raises:
        DataError: as *mend_checkpoints*.
    """
    if cfg.restore_file == LAST:
        if get_global_rank() == 0:
            mend_checkpoints(Path(cfg.save_dir))
        gather(None)


class ResumedTask(FairseqTask):
    """A task that refuses to go on over another dictionary: rows move by word, and what the optimizer has of each does not."""

    _stepped = False  # in training, since it began or went on

    def train_step(
        self, sample: dict[str, Any], model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> Any:
        goes_on = not self._stepped and update_num > 0 and any(rows.moved for rows in rows_below(model).values())
        if goes_on and getattr(optimizer.optimizer, "state", True):  # that of several optimizers has no one state
            raise OptionError(
                "the checkpoint's training had another dictionary, and its optimizer goes on by that: "
                "give --finetune-from-model, or --reset-optimizer --reset-lr-scheduler --reset-dataloader --reset-meters"
            )
        self._stepped = True
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)


def mend_checkpoints(folder: Path) -> None:
    """Put the newest checkpoint that can be read in the place of a last one that cannot, and set that aside.

    The best one is replaced only by one that has the best validation loss by its own record.

    Args:
        folder: of a training; if there is none, nothing happens

    Raises:
        DataError: the last checkpoint cannot be read, and no other can.
    """
    damaged = [path for path in (folder / LAST, folder / BEST) if path.exists() and _record(path) is None]
    if not damaged:
        return
    others = sorted(set(folder.glob("checkpoint*.pt")).difference(damaged), key=lambda path: -path.stat().st_mtime_ns)
    whole = {path: record for path in others if (record := _record(path)) is not None}
    if not whole:
        raise DataError(f"{damaged[0]} cannot be read, nor can another checkpoint beside it: remove it to begin anew")
    newest = next(iter(whole))
    lowest = whole[newest].get("best", math.nan)
    best = next((path for path, record in whole.items() if record.get("val_loss") == lowest), None)
    for path in damaged:
        aside = path.with_name(f"{path.name}.damaged")
        source = newest if path.name == LAST else best
        if source is None:
            os.replace(path, aside)
        else:  # at every moment there is a checkpoint of this name, or the next training would begin anew
            shutil.copyfile(path, aside)
            with open(source, "rb") as taken, replace_file(path, "wb") as file:
                shutil.copyfileobj(taken, file)
        what = "no other has the best loss" if source is None else f"{source.name} takes its place"
        logger.warning(f"{path} cannot be read: it is set aside as {aside.name}, and {what}")


def _record(path: Path) -> dict[str, Any] | None:
    """Return what fairseq saved beside a model, such as its validation loss and the best so far; None: the file is damaged.

    Raises:
        OSError: it may not be opened.
    """
    with open(path, "rb"):
        pass
    try:
        check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True).get("extra_state", {})
    except MemoryError:
        raise
    except Exception:  # whatever zipfile and torch make of a file that is cut; OSError, too
        return None
