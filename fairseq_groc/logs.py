"""What fairseq, other libraries and the package say while they are imported, load and work, kept to what matters."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

NOTICE = logging.INFO + 5  # what a command found or chose that its user should know, with --verbose or without
logging.addLevelName(NOTICE, "NOTICE")  # where a library's format shows it
FAIRSEQ = dict.fromkeys(("fairseq", "fairseq_cli"), logging.WARNING)
OURS = "fairseq_groc"
WARNINGS = {**FAIRSEQ, OURS: logging.WARNING}  # all that a program gets to see
LIBRARIES = ("faiss", "filelock", "matplotlib", "numba")


def quiet_libraries() -> None:
    """Let libraries whose level nobody has set show warnings alone: fairseq's root logger lets debugging through."""
    for logger in map(logging.getLogger, LIBRARIES):
        logger.setLevel(logger.level or logging.WARNING)


@contextmanager
def at_least(levels: Mapping[str, int]) -> Iterator[None]:
    """Let loggers say nothing below their levels meanwhile."""
    before = {name: logging.getLogger(name).level for name in levels}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.getEffectiveLevel(), level))
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def of_commands(verbose: bool) -> dict[str, int]:
    """Return from which level on a command shows what is logged.

    Args:
        verbose: also what fairseq and the package say of their work
    """
    return {} if verbose else {**FAIRSEQ, OURS: NOTICE, f"{OURS}.errors": logging.CRITICAL}  # an error is their last line


def show_log(anew: bool = False) -> None:
    """Write what is logged to standard error, the messages alone.

    Args:
        anew: in place of wherever it goes already: some library that fairseq imports sets up a log of its own
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=anew)


def begin_worker(verbose: bool) -> None:
    """Do in a worker, which is a new process, what a command does for its own log."""
    show_log(anew=True)
    for name, level in of_commands(verbose).items():
        logging.getLogger(name).setLevel(level)
