"""Word embeddings composed from spelling, relations and definitions (GroC, section 3.1).

V: words; F: forms; C: character features; d: embedding size; G: distinct n-grams of one width.
"""

from __future__ import annotations

from typing import Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.modules.vocabulary import NUM_SYMBOLS, Bag, Vocabulary


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
        self.characters = nn.Embedding(NUM_SYMBOLS, char_embed_dim)
        self.filters = nn.ModuleList(nn.Linear(width * char_embed_dim, count) for width, count in filters)
        features = sum(count for _, count in filters)
        self.highways = nn.Sequential(*(Highway(features) for _ in range(highway_layers)))
        self.projection = nn.Linear(features, dim, bias=False)

    def forward(self, vocabulary: Vocabulary) -> Tensor:
        """Return the encodings of all forms, (F, d)."""
        pooled = []
        for width, convolve in zip(self.widths, self.filters):
            characters = self.characters(vocabulary.ngrams(width))  # (G, width, char_embed_dim)
            responses = convolve(characters.flatten(1))  # (G, count)
            pooled.append(_bags(responses, vocabulary.windows(width), "max"))  # (F, count)
        # relu after the maximum: it is monotonic, and there are fewer forms than n-grams
        return self.projection(self.highways(torch.relu(torch.cat(pooled, dim=1))))


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
        surface = forms[: vocabulary.num_words]  # (V, d)
        relational = _bags(forms, vocabulary.relations(), "mean")  # (V, d)
        definitional = _bags(forms, vocabulary.definitions(), "mean")  # (V, d)
        return self.compose(torch.cat([surface, relational, definitional], dim=1))


def _bags(rows: Tensor, bags: Bag, mode: str) -> Tensor:
    items, starts = bags
    if rows.device.type == "cpu" and rows.dtype in (torch.float16, torch.bfloat16):
        # embedding_bag has no such kernel on CPUs; the maximum is exact either way
        return F.embedding_bag(items, rows.float(), starts, mode=mode, include_last_offset=True).to(rows.dtype)
    return F.embedding_bag(items, rows, starts, mode=mode, include_last_offset=True)
