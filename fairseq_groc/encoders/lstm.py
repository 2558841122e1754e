"""Stacked LSTMs with variational dropout.

T: time; B: streams; d: embedding size; H: hidden units.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_groc.encoders.base import LineContexts, PrefixEncoder, State, register_encoder
from fairseq_groc.modules.dropout import VariationalDropout, mask_like
from fairseq_groc.registry import Option


@register_encoder(
    "lstm",
    decoder_hidden_size=Option(1024, "units of the recurrent layers before the last", "count"),
    decoder_layers=Option(2, "number of recurrent layers", "count"),
    dropout=Option(0.65, "variational dropout between layers", "dropout"),
    dropout_in=Option(0.4, "variational dropout of the input embeddings", "dropout"),
    dropout_out=Option(0.0, "variational dropout of the last layer", "dropout"),
)
class LSTMEncoder(PrefixEncoder):
    """Encode a prefix: ``layers`` LSTMs of ``hidden`` units, the last of size ``width`` (GroC, appendix B.1).

    The options' defaults are GroC's for Penn Treebank. A state has h and c of every layer, each (1, B, size).

    Args:
        dim: d, of the inputs
        hidden: H
        layers: how many
        dropout: between layers
        dropout_in: on the inputs
        dropout_out: on the outputs
        weight_dropout: of the weights from h to h, as ``run`` has it
        width: of the last layer; 0: d
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        layers: int,
        dropout: float,
        dropout_in: float,
        dropout_out: float,
        weight_dropout: float = 0.0,
        width: int = 0,
    ):
        super().__init__()
        self.width, self.weight_dropout = width or dim, weight_dropout
        sizes = [dim] + [hidden] * (layers - 1) + [self.width]
        self.layers = nn.ModuleList(nn.LSTM(a, b) for a, b in itertools.pairwise(sizes))
        rates = [dropout_in] + [dropout] * (layers - 1)
        self.dropouts = nn.ModuleList(VariationalDropout(p, shared=(0,)) for p in rates)
        self.dropout_out = VariationalDropout(dropout_out, shared=(0,))

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> LSTMEncoder:
        return cls(dim, *(settings[name] for name in LSTMEncoder.options))

    def forward(self, x: Tensor, state: State | None = None, context: LineContexts | None = None) -> tuple[Tensor, Tensor, State]:
        after = []
        for i, (dropout, lstm) in enumerate(zip(self.dropouts, self.layers, strict=True)):
            assert isinstance(lstm, nn.LSTM)
            x, h, c = run(lstm, dropout(x), None if state is None else state[i], self.weight_dropout)
            after.append((h, c))
        return self.dropout_out(x), x, after


def run(lstm: nn.LSTM, x: Tensor, state: Sequence[Tensor] | None, weight_dropout: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs (T, B, H) of an LSTM of one layer, and h and c after them.

    Without dropout of weights it is ``lstm(x, state)``, but has a gradient in evaluation too: cuDNN denies it to what is not
    said to train.

    Args:
        lstm: whose parameters are used; dropout acts while it trains
        x: inputs, (T, B, size)
        state: h and c before them, (1, B, H) each; None: zeros
        weight_dropout: chance of a weight from h to h to be 0 at all steps of all streams; what is left is divided by 1 - p
    """
    if state is None:
        zeros = x.new_zeros(1, x.size(1), lstm.hidden_size)
        state = zeros, zeros
    weights: list[Tensor] = [*lstm.all_weights[0]]
    if weight_dropout and lstm.training:
        weights[1] = weights[1] * mask_like(weights[1], weights[1].shape, weight_dropout)
    return torch.lstm(x, tuple(state), weights, True, 1, 0.0, lstm.training or torch.is_grad_enabled(), False, False)
