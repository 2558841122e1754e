"""What an output head is, and the names that heads are registered by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.embeddings.base import EMBEDDINGS, FILTERS
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK, chunked_cross_entropy
from fairseq_groc.registry import Option, Registry

ACTIVATIONS = {"identity": nn.Identity, "relu": nn.ReLU, "selu": nn.SELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class OutputHead(nn.Module):
    """From input embeddings E_in (V, d) to output embeddings E_out (V, width) and a bias b (V), and from these to scores.

    p(x | h) = softmax(E_out h + b) unless ``log_scores`` and ``losses`` say otherwise. A head knows nothing of the prefix encoder
    that makes h.
    """

    options: Mapping[str, Option] = {}  # those that it takes, by name
    needs_spellings = False  # whether forward uses the vocabulary
    computes = True  # whether forward costs more than passing parameters on
    plain_softmax = True  # whether p(x | h) = softmax(E_out query(h) + b)
    appended = 0  # numbers behind those of h that meet numbers behind those of E_out as they are: of a line's context

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> OutputHead:
        """Return a head over the words of a dictionary and embeddings of size d by its options, by name; here cls(words, dim)."""
        return cls(words, dim)

    @staticmethod
    def takes_any_width(settings: dict[str, Any]) -> bool:
        """Say whether it takes h of whatever size: ``from_settings`` gets that for d then. Otherwise h is mapped to d first."""
        return False

    def begin(self, limit: float) -> None:
        """Set the parameters that training begins with: uniformly from -limit to limit, ``--init-range``."""
        for parameter in self.parameters():
            parameter.data.uniform_(-limit, limit)

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        """Return E_out (V, width) and b (V).

        Args:
            embeddings: E_in, (V, d)
            vocabulary: the words' spellings, for heads that need them
        """
        raise NotImplementedError

    def log_scores(self, h: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return numbers (..., V) whose softmax is the distribution.

        Args:
            h: (..., d)
            outputs: E_out
            bias: b, -inf for impossible words
        """
        return F.linear(self.meeting(h), outputs, bias)

    def losses(
        self, h: Tensor, outputs: Tensor, bias: Tensor, targets: Tensor, ignore_index: int, chunk: int = DEFAULT_CHUNK
    ) -> Tensor:
        """Return -log p(target), (N) in float32, without the scores of more than ``chunk`` words at a time.

        Args:
            h: (N, d)
            targets: (N), words or ``ignore_index``, where the loss is 0
        """
        return chunked_cross_entropy(self.meeting(h), outputs, bias, targets, ignore_index, chunk)

    def query(self, h: Tensor) -> Tensor:
        """Return what meets the output embeddings, (..., width)."""
        return h

    def meeting(self, h: Tensor) -> Tensor:
        """Return what meets all numbers that words have: ``query`` of h, and what is appended to h for contexts."""
        if not self.appended:
            return self.query(h)
        return torch.cat([self.query(h[..., : -self.appended]), h[..., -self.appended :]], dim=-1)

    def unknown(self) -> Tensor | None:
        """Return the words that it cannot predict, as a mask (V), or None where it knows every word."""
        return None


class Head(NamedTuple):
    """A registered head, and the word embedding that goes with it: a name of ``embeddings.EMBEDDINGS``."""

    kind: type[OutputHead]
    embedding: str


HEADS: Registry[Head] = Registry("output head", EMBEDDINGS.options)


def register_head(name: str, embedding: str = "rows", **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``OutputHead`` as a choice of ``--output-head``.

    Args:
        embedding: the word embedding that goes with it, a name of ``embeddings.EMBEDDINGS``
        options: that it takes, besides those of the class it is made from, by the name that the command line gives them

    Raises:
        OptionError: a name that is taken.
    """
    return HEADS.decorator(name, options, lambda cls: FILTERS if cls.needs_spellings else {}, lambda cls: Head(cls, embedding))
