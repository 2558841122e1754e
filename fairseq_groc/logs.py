"""What fairseq says of itself while it is imported and loads, kept to warnings."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

TALKATIVE = ("fairseq", "fairseq_cli", "fairseq_groc")


@contextmanager
def warnings_alone() -> Iterator[None]:
    """Let fairseq's loggers and ours say nothing below a warning meanwhile."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(max(logger.getEffectiveLevel(), logging.WARNING))
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
