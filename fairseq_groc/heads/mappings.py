"""Heads that map the input embeddings to the output embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.heads.base import ACTIVATIONS, OutputHead, register_head
from fairseq_groc.heads.table import BiasedOutput
from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.registry import Option

ACTIVATION = Option("relu", "of the output network, and of dual_nonlinear", ACTIVATIONS)


@register_head("bilinear")
class BilinearOutput(BiasedOutput):
    """E_out = E_in W, W (d, d) (Gulordava et al. 2018; DRILL, eq. 3). Parameters: d^2 + V."""

    def __init__(self, words: Sequence[str], dim: int):
        super().__init__(words)
        self.mapping = nn.Linear(dim, dim, bias=False)

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        return self.mapping(embeddings), self.biases()


@register_head(
    "dual_nonlinear",
    output_joint_dim=Option(0, "joint size of dual_nonlinear; 0: that of the embeddings", "natural"),
    output_activation=ACTIVATION,
)
class DualNonlinearOutput(BiasedOutput):
    """p = softmax(act(E U + b_u) act(V h + b_v) + b) (Pappas et al. 2018; DRILL, eq. 5). Parameters: 2 j (d + 1) + V.

    Args:
        words: of the vocabulary
        dim: d, of embeddings and of h
        joint: j, size of the joint space
        activation: a name of ACTIVATIONS
    """

    def __init__(self, words: Sequence[str], dim: int, joint: int, activation: str):
        super().__init__(words)
        self.output = nn.Linear(dim, joint)
        self.context = nn.Linear(dim, joint)
        self.activation = ACTIVATIONS[activation]()

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> DualNonlinearOutput:
        return cls(words, dim, settings["output_joint_dim"] or dim, settings["output_activation"])

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        return self.activation(self.output(embeddings)), self.biases()

    def query(self, h: Tensor) -> Tensor:
        return self.activation(self.context(h))


class OutputNetwork(nn.Module):
    """E^(0) = E, E^(j) = dropout(act(E^(j-1) U_j + u_j)) + E for j = 1..k (DRILL, eq. 8 to 12; GroC, eq. 4).

    With dropout at the inputs, as DRILL's program has it, E^(j) = act(dropout(E^(j-1)) U_j + u_j) + E. Parameters: k (d^2 + d).

    Args:
        dim: d
        depth: k; with 0, E^(k) is E
        activation: a name of ACTIVATIONS
        dropout: of each layer's output, or input
        kind: ``variational``, one mask for all words, or ``standard``
        to_previous: add E^(j-1) to each layer's output as well (eq. 10)
        at_inputs: drop what a layer reads, not what it gives
    """

    options = {
        "output_depth": Option(0, "depth k of the output network (GroC, eq. 4; DRILL, eq. 8)", "natural"),
        "output_activation": ACTIVATION,
        "output_dropout_kind": Option("variational", "inside the output network", ("variational", "standard")),
        "output_dropout_at": Option(
            "outputs", "what layers of the output network drop: what they give (DRILL, eq. 12), or read", ("outputs", "inputs")
        ),
        "output_residual": Option(
            "input", "what each layer of the output network adds (DRILL, eq. 10)", ("input", "input+previous")
        ),
    }

    def __init__(
        self,
        dim: int,
        depth: int,
        activation: str,
        dropout: float,
        kind: str = "variational",
        to_previous: bool = False,
        at_inputs: bool = False,
    ):
        super().__init__()
        layers = (nn.Sequential(nn.Linear(dim, dim), ACTIVATIONS[activation]()) for _ in range(depth))
        self.layers = nn.ModuleList(layers)
        self.dropout = VariationalDropout(dropout, shared=(0,) if kind == "variational" else ())
        self.to_previous, self.at_inputs = to_previous, at_inputs

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> OutputNetwork:
        """Build from ``options``, and the dropout of all heads."""
        kind, to_previous = settings["output_dropout_kind"], settings["output_residual"] == "input+previous"
        depth, activation, dropout = (settings[name] for name in ("output_depth", "output_activation", "output_dropout"))
        return cls(dim, depth, activation, dropout, kind, to_previous, settings["output_dropout_at"] == "inputs")

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return E^(k), (V, d), from E, (V, d)."""
        output = embeddings
        for layer in self.layers:
            projected = layer(self.dropout(output)) if self.at_inputs else self.dropout(layer(output))
            output = (projected + output if self.to_previous else projected) + embeddings
        return output


@register_head("deep_residual", "rows", **OutputNetwork.options)
class DeepResidualOutput(BiasedOutput):
    """E_out = network(E_in) with a bias a word (Pappas and Henderson 2019). Parameters: k (d^2 + d) + V.

    Args:
        words: of the vocabulary
        network: from E_in to E_out
    """

    def __init__(self, words: Sequence[str], network: OutputNetwork):
        super().__init__(words)
        self.network = network

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> DeepResidualOutput:
        return cls(words, OutputNetwork.from_settings(dim, settings))

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        return self.network(embeddings), self.biases()


@register_head(
    "compositional_output",
    embedding="compositional",
    **OutputNetwork.options,
    output_query=Option("identity", "what h is made of before it meets output embeddings", ("identity", "linear")),
    bias_activation=Option("identity", "of the predicted bias", ACTIVATIONS),
)
class CompositionalOutput(OutputHead):
    """E_out = network(E_in), b = sigma(E_out w + a) (GroC, eq. 4 and 5): no word has a parameter of its own.

    With a query map W (d, d) scores are E_out W h + b: the bilinear mapping of E_out, at a cost that does not grow with V.

    Parameters: k (d^2 + d) + d + 1, whatever V, and d^2 of a query map.

    Args:
        dim: d
        network: from E_in to E_out
        bias_activation: sigma, which the paper leaves open
        query_map: whether there is W
    """

    def __init__(self, dim: int, network: OutputNetwork, bias_activation: str, query_map: bool = False):
        super().__init__()
        self.network = network
        self.bias = nn.Linear(dim, 1)
        self.bias_activation = ACTIVATIONS[bias_activation]()
        self.query_map = nn.Linear(dim, dim, bias=False) if query_map else nn.Identity()

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> CompositionalOutput:
        network, mapped = OutputNetwork.from_settings(dim, settings), settings["output_query"] == "linear"
        return cls(dim, network, settings["bias_activation"], mapped)

    def forward(self, embeddings: Tensor, vocabulary: Vocabulary | None = None) -> tuple[Tensor, Tensor]:
        output = self.network(embeddings)  # (V, d)
        return output, self.bias_activation(self.bias(output)).squeeze(1)  # (V)

    def query(self, h: Tensor) -> Tensor:
        return self.query_map(h)
