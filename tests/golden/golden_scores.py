"""What the checkpoints in ``tests/fixtures/golden`` say of a few lines."""

import gzip
from pathlib import Path

import torch

from fairseq_groc.evaluation.line_scores import score_lines
from fairseq_groc.evaluation.loading import load
from fairseq_groc.evaluation.results import machine

GOLDEN = Path(__file__).resolve().parents[1] / "fixtures" / "golden"
LINES = ["the cat sat", "a zebra and the naïve lion run", "unheard puppy"]
UNIFORM = dict(uniform_weight=0.1)
REMEMBERING = dict(**UNIFORM, cache_text=str(GOLDEN / "remembered"), unbounded_weight=0.2, cache_theta=1.0, cache_neighbors=4)


def unpacked(name: str, folder: Path) -> Path:
    """Return a model's checkpoint as fairseq-train wrote it."""
    path = folder / f"{name}.pt"
    path.write_bytes(gzip.decompress((GOLDEN / f"{name}.pt.gz").read_bytes()))
    return path


def scores_of(name: str, folder: Path) -> list[list[str]]:
    """Return the log-probabilities of the lines as hexadecimal: alone with the uniform distribution, as tuned, remembering."""
    path = str(unpacked(name, folder))
    ways = [UNIFORM, {}, *([REMEMBERING] if name == "tied" else [])]
    hubs = [load(path, str(GOLDEN / "data"), **options) for options in ways]
    running = name != "transformer"  # which carries nothing from line to line
    return [[score.hex() for score, _ in score_lines(hub, LINES, running)] for hub in hubs]


def this_machine() -> str:
    """Return what sums of floats may depend on."""
    return f"{machine()}, {torch.backends.cpu.get_cpu_capability()}"
