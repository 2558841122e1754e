"""Stacked LSTMs with variational dropout.

T: time; B: streams; d: embedding size; H: hidden units.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

from torch import Tensor, nn

from fairseq_groc.encoders.base import PrefixEncoder, State, register_encoder
from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.registry import Option


@register_encoder(
    "lstm",
    decoder_hidden_size=Option(1024, "units of the recurrent layers before the last", "count"),
    decoder_layers=Option(2, "number of recurrent layers", "count"),
    dropout=Option(0.65, "variational dropout between layers", "weight"),
    dropout_in=Option(0.4, "variational dropout of the input embeddings", "weight"),
    dropout_out=Option(0.0, "variational dropout of the last layer", "weight"),
)
class LSTMEncoder(PrefixEncoder):
    """Encode a prefix: ``layers`` LSTMs of ``hidden`` units, the last of size ``dim`` (GroC, appendix B.1).

    The options' defaults are GroC's for Penn Treebank. A state has h and c of every layer, each (1, B, size).

    Args:
        dim: d, of the inputs and of the last layer
        hidden: H
        layers: how many
        dropout: between layers
        dropout_in: on the inputs
        dropout_out: on the outputs
        width: of the last layer; 0: d
    """

    def __init__(self, dim: int, hidden: int, layers: int, dropout: float, dropout_in: float, dropout_out: float, width: int = 0):
        super().__init__()
        self.width = width or dim
        sizes = [dim] + [hidden] * (layers - 1) + [self.width]
        self.layers = nn.ModuleList(nn.LSTM(a, b) for a, b in itertools.pairwise(sizes))
        rates = [dropout_in] + [dropout] * (layers - 1)
        self.dropouts = nn.ModuleList(VariationalDropout(p, shared=(0,)) for p in rates)
        self.dropout_out = VariationalDropout(dropout_out, shared=(0,))

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> LSTMEncoder:
        return cls(dim, *(settings[name] for name in LSTMEncoder.options))

    def forward(self, x: Tensor, state: State | None = None, context: Any | None = None) -> tuple[Tensor, Tensor, State]:
        after = []
        for i, (dropout, lstm) in enumerate(zip(self.dropouts, self.layers, strict=True)):
            x, end = self.run(
                cast(nn.LSTM, lstm), dropout(x), None if state is None else tuple(state[i])
            )  # checkpoints of before have lists
            after.append(end)
        return self.dropout_out(x), x, after

    def run(self, lstm: nn.LSTM, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Return the outputs of one layer, (T, B, size), and its state after them."""
        return lstm(x, state)
