"""What the benchmarks share: fairseq commands, vocabularies of any size, and memory kept between steps."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

from fairseq_groc.cli.programs import BIN, MEMORY


def keep_memory() -> None:
    """Start this program again with glibc told to keep freed memory, so that all programs compared here have it."""
    if not set(MEMORY) <= set(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MEMORY})


def fairseq_train(data: Path, options: List, log: Path) -> Tuple[str, float]:
    """Run ``fairseq-train`` and return its output, which *log* keeps, and its peak memory in GiB.

    Raises:
        RuntimeError: it failed; with the end of its output.
    """
    command = [str(part) for part in [BIN / "fairseq-train", data, "--num-workers", 0, "--log-format", "simple", *options]]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    output = log.read_text()
    if status:
        raise RuntimeError(f"{' '.join(command)}\n{output[-2000:]}")
    return output, usage.ru_maxrss / 2**20


def parameters(output: str) -> int:
    """Return the number of parameters that fairseq-train printed."""
    return int(re.findall(r"num. shared model params: ([\d,]+)", output)[0].replace(",", ""))
