"""What fairseq says of itself while it is imported, loads and works, kept to warnings."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FAIRSEQ = ("fairseq", "fairseq_cli")
LIBRARIES = ("filelock", "faiss")
TALKATIVE = (*FAIRSEQ, "fairseq_groc")


@contextmanager
def warnings_alone(*names: str) -> Iterator[None]:
    """Let some loggers, fairseq's and ours where none are named, say nothing below a warning meanwhile."""
    loggers = [logging.getLogger(name) for name in names or TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.getEffectiveLevel(), logging.WARNING))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def show_log(anew: bool = False) -> None:
    """Write what is logged to standard error, the messages alone.

    Args:
        anew: in place of wherever it goes already: some library that fairseq imports sets up a log of its own
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=anew)


def begin_worker(verbose: bool) -> None:
    """Do in a worker, which is a new process, what a command does for its own log.

    Args:
        verbose: with what fairseq logs
    """
    show_log(anew=True)
    for name in (*LIBRARIES, *(() if verbose else FAIRSEQ)):
        logging.getLogger(name).setLevel(logging.WARNING)
