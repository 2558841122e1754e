"""What a prefix encoder is, and the names that encoders are registered by. T: time; B: streams; d: embedding size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from fairseq_groc.registry import Option, Registry

State = Any  # a tree of tensors in tuples, lists and dicts, each (n, B, ...)


class LineContexts(NamedTuple):
    """What is known of a batch's lines besides their words: C distinct contexts, and which of them is whose."""

    vectors: Tensor  # c of each context, (C, k)
    index: Tensor  # type: ignore[assignment]  # the context of each stream, (B), or of each position, (T, B)


class PrefixEncoder(nn.Module):
    """From the embeddings of what was read to h, which meets the output embeddings; it knows no word.

    What it remembers is its state alone, which others carry from block to block, cut from the graph, and reorder by stream.
    """

    options: Mapping[str, Option] = {}  # those that it takes, by name
    takes_context = False  # whether it reads contexts itself; otherwise they are added to its input
    width: int  # of h: where it is not d, the model maps h to d without a bias

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> PrefixEncoder:
        """Return an encoder of embeddings of size d by its options, by name."""
        raise NotImplementedError

    def begin(self, limit: float) -> None:
        """Set the parameters that training begins with: uniformly from -limit to limit, ``--init-range``."""
        for parameter in self.parameters():
            parameter.data.uniform_(-limit, limit)

    def forward(self, x: Tensor, state: State | None = None, context: LineContexts | None = None) -> tuple[Tensor, Tensor, State]:
        """Return h (T, B, width), what h was before its dropout (same shape), and the state after it.

        Args:
            x: embeddings, (T, B, d)
            state: after what was read before; None: nothing was
            context: of the lines, for an encoder that takes it; None: nothing is known of them
        """
        raise NotImplementedError


ENCODERS: Registry[type[PrefixEncoder]] = Registry("prefix encoder")


def register_encoder(name: str, **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``PrefixEncoder`` as a choice of ``--prefix-encoder``.

    Args:
        options: that it takes, besides those of the class it is made from, by the name that the command line gives them

    Raises:
        OptionError: a name that is taken.
    """
    return ENCODERS.decorator(name, options)
