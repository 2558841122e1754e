"""AWD-LSTM: LSTMs whose recurrent weights are dropped."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from fairseq_groc.encoders.base import register_encoder
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.registry import Option


@register_encoder(
    "awd_lstm",
    weight_dropout=Option(0.5, "of recurrent weights, the same for all steps and streams of a block", "dropout"),
    decoder_output_dim=Option(0, "units of the last recurrent layer; 0: the embedding size", "natural"),
)
class AWDLSTMEncoder(LSTMEncoder):
    """``LSTMEncoder`` with dropout of the weights from h to h, one mask a layer and block (Merity et al. 2018, section 2).

    Input weights and biases stay whole. Layers begin as PyTorch's, uniformly within 1 / sqrt(H) of their own H, as in the
    released program.
    """

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> AWDLSTMEncoder:
        # cuDNN's, at every step: it wants a layer's weights in one piece, and dropped ones cannot be a part of that
        warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")
        return cls(dim, *(settings[name] for name in AWDLSTMEncoder.options))

    def begin(self, limit: float) -> None:
        """Set all parameters as PyTorch does: *limit* concerns rows and head alone."""
        for lstm in self.layers:
            assert isinstance(lstm, nn.LSTM)
            lstm.reset_parameters()

    def extra_repr(self) -> str:
        return f"weight_dropout={self.weight_dropout}"
