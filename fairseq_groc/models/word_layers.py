"""The layers of a language model that know its words: they take the place of any model's own.

A model reads through ``InputLayer`` and predicts through ``OutputLayer``; both use the matrices of one ``WordMatrices``, which
belongs to the model, not to them. T: time; B: batch.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.models.context_layers import ContextLayers
from fairseq_groc.models.word_matrices import WordMatrices
from fairseq_groc.modules.dropout import VariationalDropout, drop_words
from fairseq_groc.modules.per_thread import PerThread


class InputLayer(nn.Module):
    """Look words up in E_in: the interface of ``torch.nn.Embedding``.

    Args:
        matrices: of the model; computed here, once a forward pass
        dim: d
        padding_idx: the word that fills up, as fairseq's decoders want to know
        dropout: chance of a word to be zero in what a forward pass of training reads; what it predicts with stays whole
        contexts: of the lines that are read
    """

    def __init__(
        self, matrices: WordMatrices, dim: int, padding_idx: int, dropout: float = 0.0, contexts: ContextLayers | None = None
    ):
        super().__init__()
        self._matrices, self._contexts = [matrices], [contexts]  # not submodules: their parameters have one name
        self.embedding_dim, self.padding_idx, self.dropout = dim, padding_idx, dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (B, T, d)."""
        inputs = self._matrices[0].begin()[0]
        rows = F.embedding(tokens, inputs)
        if self.training and self.dropout:
            rows = drop_words(rows, tokens, len(inputs), self.dropout)
        return rows if self._contexts[0] is None else self._contexts[0].to_input(rows)


class OutputLayer(nn.Module):
    """From the prefix encodings h (B, T, width) to scores (B, T, V), -inf for impossible words.

    Args:
        matrices: of the model, as they were for the input
        width: size of h; where it is not the head's, h is projected first (width dim parameters)
        dim: of what the head takes
        dropout: variational, one mask over dim
        contexts: of the lines that are read
    """

    deferred = PerThread(False)  # whether to return h, for a loss that never holds all scores
    change = PerThread()  # what an adapter makes of h, in evaluation: from h to h; None: nothing
    features = PerThread()  # h of the last forward pass in evaluation, for caches
    met = PerThread()  # what met the output embeddings in it: h, and behind it what of contexts meets words

    def __init__(self, matrices: WordMatrices, width: int, dim: int, dropout: float, contexts: ContextLayers | None = None):
        super().__init__()
        self._matrices, self._contexts, self.dim = [matrices], [contexts], dim
        self.context: nn.Linear | None = nn.Linear(width, dim, bias=False) if width != dim else None
        self.dropout = VariationalDropout(dropout, shared=(0, 1))

    def forward(self, h: Tensor) -> Tensor:
        contexts = self._contexts[0]
        h = self.dropout(h if self.context is None else self.context(h))
        if contexts is not None:
            h = contexts.to_features(h)
        if self.change is not None and not self.training:
            h = self.change(h)
        self.features = None if self.training else h
        if contexts is not None:
            h = contexts.append(h)
        self.met = None if self.training else h
        if self.deferred:
            return h
        _, outputs, bias = self._matrices[0].end()
        return self._matrices[0].log_scores(h, outputs, bias)
