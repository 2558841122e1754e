"""fairseq-train that also saves by the clock, and when it is told to end: `python timed_train.py DATA ...`, arguments as there.

A kill costs at most SAVE_SECONDS of the environment and a validation, SIGTERM an update: what goes on is bit-equal to one run.
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
from fairseq import checkpoint_utils

from fairseq_groc.programs import FOLDER

SECONDS = 480  # a validation, in which nothing is saved, still ends within ten minutes of the last save
TOLD = 128 + signal.SIGTERM  # exit code of what was told to end
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


def with_code(kept: dict[str, Any], save: Path, changed: bool) -> dict[str, Any]:
    """Return how an unfinished run was made, its code being today's; refuse other code unless it is said to have changed."""
    code = code_fingerprint()
    if kept.get("code") == code:
        return kept
    if not changed:
        sys.exit(f"{save} was begun by other code ({kept.get('code')}, now {code}): --code-changed goes on, or remove it")
    return {**kept, "code": code, "code_before": [*kept.get("code_before", []), kept.get("code")]}


def left(train_epoch, cfg, trainer, *args):
    """Train for an epoch as fairseq does, if an update is left: of what was killed at its very end fairseq makes one more."""
    ended = trainer.get_num_updates() >= (cfg.optimization.max_update or math.inf)
    return ([None], True) if ended else train_epoch(cfg, trainer, *args)


def main() -> None:
    clock = Clock(float(os.environ.get("SAVE_SECONDS", SECONDS)))
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
