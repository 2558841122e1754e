"""Output heads: from input embeddings E_in (V, d) to output embeddings E_out (V, d) and a bias b (V).

p(x | h) = softmax(E_out h + b). A head knows nothing of the prefix encoder that makes h.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.modules.rows import WordRows

LOG_ZERO = -1e30  # log-probability of the impossible: fairseq-eval-lm would drop -inf from sum and count
ACTIVATIONS = {
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "selu": nn.SELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


class OutputHead(nn.Module):
    """What every head is: a function of E_in.

    ``unknown`` names the words that it cannot predict, as a mask (V), or None where it knows every word.
    """

    def forward(self, embeddings: Tensor) -> Tuple[Tensor, Tensor]:
        raise NotImplementedError

    def unknown(self) -> Optional[Tensor]:
        return None


class CompositionalOutput(OutputHead):
    """E^(0) = E_in, E^(j) = g_j(E^(j-1)) + E_in for j = 1..k, b = sigma(E_out w + a) (GroC, eq. 4 and 5).

    Parameters: k (d^2 + d) + d + 1, whatever V.

    Args:
        dim: d
        depth: k; with 0, E_out is E_in
        activation: of the layers g_j, a name of ACTIVATIONS
        dropout: variational dropout between the layers, one mask for all words
        bias_activation: sigma, which the paper leaves open
    """

    def __init__(self, dim: int, depth: int, activation: str, dropout: float, bias_activation: str):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), ACTIVATIONS[activation]()) for _ in range(depth))
        self.dropout = VariationalDropout(dropout, shared=(0,))
        self.bias = nn.Linear(dim, 1)
        self.bias_activation = ACTIVATIONS[bias_activation]()

    def forward(self, embeddings: Tensor) -> Tuple[Tensor, Tensor]:
        output = embeddings
        for j, layer in enumerate(self.layers):
            output = layer(self.dropout(output) if j else output) + embeddings  # (V, d)
        return output, self.bias_activation(self.bias(output)).squeeze(1)  # (V, d), (V)


class TiedOutput(OutputHead):
    """E_out = E_in with a bias a word (Press and Wolf 2017). Parameters: V."""

    def __init__(self, words: Sequence[str]):
        super().__init__()
        self.bias = WordRows(words, 1)

    def forward(self, embeddings: Tensor) -> Tuple[Tensor, Tensor]:
        return embeddings, self.bias.weight.squeeze(1)

    def unknown(self) -> Optional[Tensor]:
        return self.bias.unknown()


class LookupOutput(OutputHead):
    """An output row and a bias a word, of their own (GroC, section 4.1). Parameters: V (d + 1)."""

    def __init__(self, words: Sequence[str], dim: int):
        super().__init__()
        self.rows = WordRows(words, dim)
        self.bias = WordRows(words, 1)

    def forward(self, embeddings: Tensor) -> Tuple[Tensor, Tensor]:
        return self.rows.weight, self.bias.weight.squeeze(1)

    def unknown(self) -> Optional[Tensor]:
        return self.rows.unknown()


def predictable_words(words: Sequence[str]) -> List[bool]:
    """Say of every entry of a fairseq dictionary whether it may be predicted.

    ``</s>`` and ``<unk>`` may; ``<s>``, ``<pad>`` and the ``madeupword`` fillers are no words of any text.
    """
    return [i >= 4 and not is_filler(word) or i in (2, 3) for i, word in enumerate(words)]


def is_filler(word: str) -> bool:
    """Say whether fairseq made *word* up to fill its dictionary to a multiple of 8."""
    return word.startswith("madeupword") and word[10:].isdigit() and len(word) == 14


def masked_bias(bias: Tensor, impossible: Tensor) -> Tensor:
    """Give impossible words probability exactly 0, at the price of one pass over V numbers."""
    return bias.masked_fill(impossible, float("-inf"))


def uniform_mixture(lprobs: Tensor, weight: float, words: Tensor) -> Tensor:
    """Mix log-probabilities with the uniform distribution over the words: p = (1 - weight) p_model + weight / V.

    Args:
        lprobs: (..., V) log-probabilities of the model
        weight: of the uniform part, in (0, 1)
        words: mask (V) of the real words, over which it is uniform (no special symbols, no fillers)
    """
    uniform = torch.log(weight * words.to(lprobs.dtype) / words.sum())
    return torch.logaddexp(lprobs + torch.log1p(lprobs.new_tensor(-weight)), uniform)


def uniform_mixture_at(losses: Tensor, weight: float, words: Tensor, targets: Tensor) -> Tensor:
    """Do the same for targets alone: from -log p_model(target) to -log p(target), (N)."""
    uniform = weight * words[targets].to(losses.dtype) / words.sum()
    return -torch.logaddexp(torch.log1p(losses.new_tensor(-weight)) - losses, uniform.log())
