"""AWD-LSTM: LSTMs whose recurrent weights are dropped (Merity et al. 2018, section 3).

T: time; B: streams; d: embedding size; H: hidden units.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.encoders.base import State, register_encoder
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.registry import Option


@register_encoder(
    "awd_lstm",
    weight_dropout=Option(0.5, "dropout of the recurrent weights, the same for a whole block", "weight"),
    decoder_output_dim=Option(0, "units of the last recurrent layer; 0: the size of the embeddings", "natural"),
)
class AWDLSTMEncoder(LSTMEncoder):
    """Encode a prefix by LSTMs whose hidden-to-hidden weights lack a random half (DropConnect) in each block of training.

    The kernel is ``nn.LSTM``'s, given other weights: parameters keep their names, and neither copies of the module nor devices
    can lose the dropout or leave it on. Layers begin as PyTorch's do, within 1 / sqrt(H), whatever ``--init-range`` says.

    Args:
        dim, hidden, layers, dropout, dropout_in, dropout_out: as ``LSTMEncoder``'s
        weight_dropout: probability of dropping each recurrent weight, one mask for all times and streams of a block
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
        weight_dropout: float,
        width: int = 0,
    ):
        super().__init__(dim, hidden, layers, dropout, dropout_in, dropout_out, width)
        self.weight_dropout = weight_dropout

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> AWDLSTMEncoder:
        return cls(dim, *(settings[name] for name in AWDLSTMEncoder.options))

    def begin(self, limit: float) -> None:
        """Leave the layers as PyTorch has begun them."""

    def run(self, lstm: nn.LSTM, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        inputs, recurrent, *biases = lstm.all_weights[0]
        weights = [inputs, F.dropout(recurrent, self.weight_dropout, self.training), *biases]
        zeros = x.new_zeros(1, x.size(1), lstm.hidden_size)
        # cuDNN makes no gradients unless it is told to train, which evaluation may want them all the same; dropout is none of its
        train = self.training or torch.is_grad_enabled()
        x, h, c = torch.lstm(x, (zeros, zeros) if state is None else state, weights, True, 1, 0.0, train, False, False)
        return x, (h, c)

    def extra_repr(self) -> str:
        return f"weight_dropout={self.weight_dropout}"
