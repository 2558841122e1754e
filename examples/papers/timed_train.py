"""fairseq-train that also saves by the clock, and when it is told to end: `python timed_train.py DATA ...`, arguments as there.

A kill costs at most SAVE_SECONDS of the environment and a validation, SIGTERM an update: what goes on is bit-equal to one run.
Checkpoints carry a fingerprint of the code, and go on with other code if CODE_CHANGED of the environment is not empty.
"""

import hashlib
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import fairseq_cli.train as train
import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_groc.programs import FOLDER

SECONDS = 480  # a validation, in which nothing is saved, still ends within ten minutes of the last save
TOLD = 128 + signal.SIGTERM  # exit code of what was told to end
LAST, UNKNOWN = "checkpoint_last.pt", ["unknown"]  # what training goes on from; the code of one that does not say
UNTRAINED = ("cli", "arguments.py", "programs.py")  # of the package: they do not change what training does


class Clock:
    """When to save next, and whether to end.

    Args:
        seconds: from one save to the next
    """

    def __init__(self, seconds: float):
        self.seconds, self.due = seconds, time.monotonic() + seconds
        self.told, self.updating = False, False

    def end(self, *_) -> None:
        """End after this update, or at once where none is under way: in the beginning, and in validation."""
        if not self.updating:
            sys.exit(TOLD)
        self.told = True

    def validate(self, validate, *args):
        """Validate as fairseq does; told to end then or right before, what was trained since the last save is lost."""
        if self.told:
            sys.exit(TOLD)
        self.updating = False
        losses = validate(*args)
        self.updating = True
        return losses

    def after_update(self, validate_and_save, cfg, trainer, task, epoch_itr, subsets, end_of_epoch: bool):
        """Validate and save as fairseq does, and save when that is due."""
        self.updating = True
        losses, ends = validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)
        if end_of_epoch:
            self.due = time.monotonic()  # a schedule that goes on from this save would miss the loss of the epoch: save once more
        elif losses[0] is None and not ends and (self.told or time.monotonic() >= self.due):
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
            self.due = time.monotonic() + self.seconds
            if self.told:
                sys.exit(TOLD)
        return losses, ends


def code_fingerprint() -> str:
    """Return a hash of the package's code that training runs."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.py")):
        place = path.relative_to(FOLDER)
        if place.parts[0] not in UNTRAINED:
            digest.update(f"{place.as_posix()}\0{path.read_text(encoding='utf-8')}\0".encode())
    return digest.hexdigest()[:16]


class Codes:
    """Fingerprints of the code that has trained a model, oldest first, which its checkpoints carry.

    Args:
        changed: whether a run that other code has begun may go on
    """

    def __init__(self, changed: bool):
        self.found, self.changed = [code_fingerprint()], changed

    def load(self, load_checkpoint, cfg, *args, **options):
        """Load as fairseq does; refuse to go on with a run of other code."""
        resumed = cfg.restore_file == LAST and Path(cfg.save_dir, LAST).exists()
        state, batches = load_checkpoint(cfg, *args, **options)
        if resumed and state is not None:
            before, (now,) = state.get("code", UNKNOWN), self.found
            if before[-1] != now and not self.changed:
                how = f"by other code ({before[-1]}, now {now}): --code-changed or CODE_CHANGED=1 goes on, or remove it"
                sys.exit(f"{cfg.save_dir} was begun {how}")
            self.found = before if before[-1] == now else [*before, now]
        return state, batches

    def save(self, save_checkpoint, trainer, path: str, state: dict[str, Any]):
        """Save as fairseq does, with the fingerprints."""
        return save_checkpoint(trainer, path, {**state, "code": self.found})


def codes_of(checkpoint: Path) -> list[str]:
    """Return the fingerprints of the code that trained a checkpoint, oldest first."""
    state: dict[str, Any] = torch.load(checkpoint, map_location="cpu", mmap=True, weights_only=True)["extra_state"]
    return state.get("code", UNKNOWN)


def left(train_epoch, cfg, trainer, *args):
    """Train for an epoch as fairseq does, if an update is left: of what was killed at its very end fairseq makes one more."""
    ended = trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf)
    return ([None], True) if ended else train_epoch(cfg, trainer, *args)


def main() -> None:
    clock = Clock(float(os.environ.get("SAVE_SECONDS", SECONDS)))
    codes = Codes(bool(os.environ.get("CODE_CHANGED")))
    load, save = checkpoint_utils.load_checkpoint, Trainer.save_checkpoint
    checkpoint_utils.load_checkpoint = lambda *args, **options: codes.load(load, *args, **options)
    Trainer.save_checkpoint = lambda *args: codes.save(save, *args)
    validate, validate_and_save, train_epoch = train.validate, train.validate_and_save, train.train
    train.train = lambda *args: left(train_epoch, *args)
    train.validate = lambda *args: clock.validate(validate, *args)
    train.validate_and_save = lambda *args: clock.after_update(validate_and_save, *args)
    signal.signal(signal.SIGTERM, clock.end)
    try:
        train.cli_main()
    except SystemExit as ended:
        if ended.code != TOLD:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(TOLD)  # a thread that reads ahead may abort Python's own end


if __name__ == "__main__":
    main()
