"""Word embeddings composed from spelling, relations and definitions (GroC, section 3.1).

V: words; F: forms; C: character features; d: embedding size; G: distinct n-grams of one width.
"""

from __future__ import annotations

import logging
import math
from typing import Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fairseq_groc.modules.bags import convolve_and_pool
from fairseq_groc.modules.vocabulary import NUM_SYMBOLS, Forms, Vocabulary

logger = logging.getLogger(__name__)
DEFAULT_CHUNK = 65_536  # forms at a time: up to 6 GB with the released model's filters


class Highway(nn.Module):
    """y = t * relu(W x + b) + (1 - t) * x with t = sigmoid(W' x + b') (Srivastava et al. 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        new, gate = self.projection(x).chunk(2, dim=-1)
        return torch.lerp(x, torch.relu(new), torch.sigmoid(gate))


class SurfaceEncoder(nn.Module):
    """Encode spellings: convolutions over characters, maximum over positions, highway, projection.

    Every distinct n-gram meets the filters once, however many words contain it; the maximum is then taken over
    each form's bag of n-grams. That is the convolution with stride 1 and the maximum over time, reordered.

    Args:
        dim: size d of the encodings
        char_embed_dim: size of a character's embedding (16 in the released model)
        filters: (width, count) pairs; their counts add up to C
        highway_layers: how many highway layers follow
    """

    def __init__(self, dim: int, char_embed_dim: int, filters: Sequence[Tuple[int, int]], highway_layers: int):
        super().__init__()
        self.widths = [width for width, _ in filters]
        self.chunk = DEFAULT_CHUNK
        self.characters = nn.Embedding(NUM_SYMBOLS, char_embed_dim)
        self.filters = nn.ModuleList(nn.Linear(width * char_embed_dim, count) for width, count in filters)
        features = sum(count for _, count in filters)
        self.highways = nn.Sequential(*(Highway(features) for _ in range(highway_layers)))
        self.projection = nn.Linear(features, dim, bias=False)

    def forward(self, vocabulary: Union[Vocabulary, Forms]) -> Tensor:
        """Return the encodings of all forms, (F, d).

        More than ``chunk`` forms are encoded in pieces, and once more in the backward pass, so that memory is bounded.
        """
        if not isinstance(vocabulary, Vocabulary) or vocabulary.num_forms <= self.chunk:
            return self._encode(vocabulary)
        forms = torch.arange(vocabulary.num_forms, device=self.characters.weight.device)
        encoded = []
        for piece in forms.tensor_split(math.ceil(len(forms) / self.chunk)):
            encoded.append(checkpoint(self._encode, vocabulary.subset(piece), use_reentrant=False))
            if not self.training:
                logger.info(f"encoded {int(piece[-1]) + 1:,} of {len(forms):,} forms")
        return torch.cat(encoded)

    def _encode(self, forms: Union[Vocabulary, Forms]) -> Tensor:
        ngrams, windows = zip(*(forms.spellings(width) for width in self.widths))
        filters = [cast(nn.Linear, linear) for linear in self.filters]
        weights, biases = [f.weight for f in filters], [f.bias for f in filters]
        pooled = convolve_and_pool(ngrams, windows, self.characters.weight, weights, biases)  # (F, C)
        # relu after the maximum: it is monotonic, and there are fewer forms than n-grams
        return self.projection(self.highways(pooled.relu_()))


class CompositionalEmbedding(nn.Module):
    """Compute e_x = W_c [c_x ; r_x ; d_x] for every word of a vocabulary.

    c_x is the encoding of the word's spelling, r_x and d_x the averages of the encodings of its related words and
    of the words of its gloss, zero where there are none. e_x depends on x alone, never on the other words.

    Args:
        surface: the encoder of spellings, to size d
        dim: d
    """

    def __init__(self, surface: SurfaceEncoder, dim: int):
        super().__init__()
        self.surface = surface
        self.compose = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, vocabulary: Vocabulary) -> Tensor:
        """Return the embeddings of all words, (V, d)."""
        forms = self.surface(vocabulary)  # (F, d): once each, however many words use it
        return self.combine(forms, vocabulary)

    def combine(self, forms: Tensor, vocabulary: Vocabulary) -> Tensor:
        """Return the embeddings (V, d) of all words from the encodings of all forms, (F, d)."""
        surface = forms[: vocabulary.num_words]  # (V, d)
        relational = vocabulary.relations().mean(forms)  # (V, d)
        definitional = vocabulary.definitions().mean(forms)  # (V, d)
        return self.compose(torch.cat([surface, relational, definitional], dim=1))
