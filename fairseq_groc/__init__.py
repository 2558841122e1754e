"""fairseq_groc: word-level language models with a vocabulary that can change at any time, as a fairseq plugin.

Registered with fairseq on import (``--user-dir fairseq_groc``):

- task ``wordnet_lexicon``
- task ``translation_output_head``
- architecture ``groc_lstm_lm`` and the papers' models by name (docs/presets.md)
- criteria ``chunked_cross_entropy`` and ``cache_interpolated_cross_entropy``
- optimizer ``nt_asgd``
- learning-rate schedules ``resumable_reduce_lr_on_plateau`` and ``until_non_monotonic``

In a program: ``fairseq_groc.load(CHECKPOINT, DATA).score(lines)`` (docs/serving.md).

Without fairseq nothing is registered, and the modules that need none can be imported: arithmetic, lexicons, contexts, embeddings,
encoders, heads, adapters and ``serving.service``.
"""

import argparse
import os
from typing import Any

import torch

__version__ = "0.2.0"  # here alone: pyproject.toml reads it

from fairseq_groc.logs import WARNINGS, at_least, quiet_libraries

_MISSING: Exception | None = None


def require_fairseq() -> None:
    """Refuse to go on without fairseq.

    Raises:
        ImportError: with what to do.
    """
    if _MISSING is not None:
        raise ImportError(
            f"fairseq_groc needs a working fairseq, and `import fairseq` failed: {_MISSING}. "
            "Install one: pip install fairseq-fixed (fairseq's main branch, mended for Python 3.11)."
        ) from _MISSING


try:
    with at_least(WARNINGS):
        import fairseq  # noqa: F401
except Exception as error:  # missing, or broken: fairseq 0.12.2 fails with ValueError on Python 3.11
    _MISSING = error
    if not (isinstance(error, ModuleNotFoundError) and error.name == "fairseq"):  # whoever has installed one wants it
        require_fairseq()

quiet_libraries()

# large blocks in huge pages: the system clears far fewer of them anew at each step on CPUs
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# fairseq's checkpoints hold one class beside plain types; torch >= 2.6 loads them safely once it is named
torch.serialization.add_safe_globals([argparse.Namespace])

if _MISSING is None:
    from fairseq_groc.criterions import cache_interpolated_cross_entropy, chunked_cross_entropy  # noqa: F401
    from fairseq_groc.models import groc_lstm_lm  # noqa: F401
    from fairseq_groc.optim import nt_asgd, resumable_plateau, until_non_monotonic  # noqa: F401
    from fairseq_groc.serving.scorer import Scorer, load  # noqa: F401
    from fairseq_groc.serving.stream import Stream  # noqa: F401
    from fairseq_groc.tasks import translation_output_head, wordnet_lexicon  # noqa: F401


def __getattr__(name: str) -> Any:
    """Say why what needs fairseq is not there; a module that needs none is imported by its own name."""
    if name in ("Scorer", "Stream", "load"):
        require_fairseq()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
