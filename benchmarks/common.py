"""What the benchmarks share: fairseq commands, vocabularies of any size, and memory kept between steps."""

import os
import resource
import sys
from pathlib import Path

import torch

from fairseq_groc.programs import MEMORY, measured


def keep_memory() -> None:
    """Start this program again with glibc told to keep freed memory, so that all programs compared here have it."""
    if not set(MEMORY) <= set(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MEMORY})


def fairseq_train(data: Path, options: list, log: Path) -> str:
    """Run ``fairseq-train`` and return its output, which *log* keeps.

    Raises:
        RuntimeError: it failed; with the end of its output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    code, _ = measured("fairseq-train", data, "--num-workers", 0, "--log-format", "simple", *options, log=log)
    output = log.read_text()
    if code:
        raise RuntimeError(f"fairseq-train {options}\n{output[-2000:]}")
    return output


def peak() -> float:
    """Return the most memory that this process has had, in GiB: of the GPU where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
