"""A trained model in a program: scores without a command line, from many threads, with a vocabulary for each call."""

from fairseq_groc.serving.scorer import LineScore, Scorer, load
from fairseq_groc.serving.stream import Stream

__all__ = ["LineScore", "Scorer", "Stream", "load"]
