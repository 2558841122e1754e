"""A trained model in a program: scores without a command line, from many threads, with a vocabulary for each call."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairseq_groc.serving.scorer import LineScore, Scorer, load
    from fairseq_groc.serving.stream import Stream

__all__ = ["LineScore", "Scorer", "Stream", "load"]


def __getattr__(name: str) -> Any:
    """Import what needs fairseq when it is first asked for, so that ``serving.service`` needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fairseq_groc.serving import scorer

    return getattr(scorer, name)
