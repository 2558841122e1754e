"""Run fairseq commands and read what they print."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PLUGIN = ["--user-dir", str(ROOT / "fairseq_groc"), "--task", "wordnet_lexicon"]


def fairseq_train(data: Path, options: List, log: Path) -> str:
    """Run ``fairseq-train`` and return its output, which *log* keeps.

    Raises:
        RuntimeError: it failed; with the end of its output.
    """
    command = [str(part) for part in [BIN / "fairseq-train", data, "--num-workers", 0, "--log-format", "simple", *options]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ))
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(done.stdout)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}")
    return done.stdout


def parameters(output: str) -> int:
    """Return the number of parameters that fairseq-train printed."""
    return int(re.findall(r"num. shared model params: ([\d,]+)", output)[0].replace(",", ""))
