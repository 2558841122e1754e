"""FactorCell: LSTMs whose weights change with the context."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from torch import Tensor, nn

from fairseq_groc.encoders.awd_lstm import AWDLSTMEncoder
from fairseq_groc.encoders.base import LineContexts, PrefixEncoder, State, register_encoder
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.modules.factor_cell import FactorCell
from fairseq_groc.registry import Option


@register_encoder(
    "factor_cell",
    **LSTMEncoder.options,
    decoder_output_dim=AWDLSTMEncoder.options["decoder_output_dim"],
    context_rank=Option(12, "rank r of the change of the recurrent layers' weights by the context; 0: none", "natural"),
    recurrent_dropout=Option(0.0, "of what enters the memory, at every step anew", "dropout"),
    layer_norm=Option("none", "whether each gate is normalised at every step", ("none", "gates")),
    factor_init=Option(
        "glorot", "how Z_R begins; zero-right: 0, so that training begins with ConcatCell", ("glorot", "zero-right")
    ),
)
class FactorCellEncoder(PrefixEncoder):
    """Encode a prefix in its context: LSTMs with coupled gates, each of them adapted (Jaech and Ostendorf 2018).

    The published model has one layer. ``--context-adaptation`` says what a context changes: none (Unadapted, SoftmaxBias),
    concat (the gates' biases: ConcatCell), factor (the weights, too). A state has h and m of every layer, each (1, B, size).

    Args:
        dim: e, of the inputs
        settings: those of the registration, with ``context_dim`` (k) and ``context_adaptation``

    Raises:
        OptionError: weights that change without contexts.
    """

    takes_context = True

    def __init__(self, dim: int, settings: dict[str, Any]):
        super().__init__()
        context = settings["context_dim"]
        self.adaptation = settings["context_adaptation"] if context else "none"
        if settings["context_adaptation"] == "factor" and not context:
            raise OptionError("--context-adaptation factor: contexts have no vectors. Give --context-dim K, or leave it out.")
        layers = settings["decoder_layers"]
        self.width = settings["decoder_output_dim"] or dim
        sizes = [dim] + [settings["decoder_hidden_size"]] * (layers - 1) + [self.width]
        options = (
            context if self.adaptation != "none" else 0,
            settings["context_rank"] if self.adaptation == "factor" else 0,
            settings["recurrent_dropout"],
            settings["layer_norm"] == "gates",
            settings["factor_init"] == "zero-right",
        )
        self.layers = nn.ModuleList(FactorCell(a, b, *options) for a, b in itertools.pairwise(sizes))
        rates = [settings["dropout_in"]] + [settings["dropout"]] * (layers - 1)
        self.dropouts = nn.ModuleList(VariationalDropout(p, shared=(0,)) for p in rates)
        self.dropout_out = VariationalDropout(settings["dropout_out"], shared=(0,))

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> FactorCellEncoder:
        # cuDNN's, at every step: it wants a layer's weights in one piece, and those of coupled gates are made at each
        warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")
        return cls(dim, settings)

    def begin(self, limit: float) -> None:
        """Set all parameters as ``FactorCell`` does. Within *limit*, Z_L and Z_R would change nothing and hardly learn."""
        for layer in self.layers:
            assert isinstance(layer, FactorCell)
            layer.reset_parameters()

    def forward(self, x: Tensor, state: State | None = None, context: LineContexts | None = None) -> tuple[Tensor, Tensor, State]:
        if self.adaptation == "none":
            context = None
        elif context is None:
            raise OptionError(
                f"--prefix-encoder factor_cell --context-adaptation {self.adaptation}: expected the contexts of a batch's lines, "
                "got none. Give data with contexts, or --context."
            )
        after = []
        for i, (dropout, layer) in enumerate(zip(self.dropouts, self.layers, strict=True)):
            assert isinstance(layer, FactorCell)
            zeros = x.new_zeros(x.size(1), layer.units)
            h, m = (zeros, zeros) if state is None else (before.squeeze(0) for before in state[i])
            x, m = layer(dropout(x), h, m, *(context or ()))
            after.append((x[-1:].clone(), m.unsqueeze(0)))  # not a view, with which all steps would be carried
        return self.dropout_out(x), x, after

    def extra_repr(self) -> str:
        return f"adaptation={self.adaptation}"
