"""Stacked LSTMs with variational dropout.

T: time; B: streams; d: embedding size; H: hidden units.
"""

from __future__ import annotations

from typing import Optional, Tuple

from torch import Tensor, nn

from fairseq_groc.encoders.base import PrefixEncoder, State
from fairseq_groc.modules.dropout import VariationalDropout


class LSTMEncoder(PrefixEncoder):
    """Encode a prefix: ``layers`` LSTMs of ``hidden`` units, the last of size ``dim`` (GroC, appendix B.1).

    Args:
        dim: d, of the inputs and of the last layer
        hidden: H
        layers: how many
        dropout: between layers
        dropout_in: on the inputs
        dropout_out: on the outputs
    """

    def __init__(self, dim: int, hidden: int, layers: int, dropout: float, dropout_in: float, dropout_out: float):
        super().__init__()
        sizes = [dim] + [hidden] * (layers - 1) + [dim]
        self.layers = nn.ModuleList(nn.LSTM(a, b) for a, b in zip(sizes, sizes[1:]))
        rates = [dropout_in] + [dropout] * (layers - 1)
        self.dropouts = nn.ModuleList(VariationalDropout(p, shared=(0,)) for p in rates)
        self.dropout_out = VariationalDropout(dropout_out, shared=(0,))

    def forward(self, x: Tensor, state: Optional[State] = None) -> Tuple[Tensor, State]:
        after: State = []
        for i, (dropout, lstm) in enumerate(zip(self.dropouts, self.layers)):
            x, end = lstm(dropout(x), None if state is None else state[i])
            after.append(end)
        return self.dropout_out(x), after
