"""Word embeddings composed from spelling, relations and definitions (GroC, section 3.1).

V: words; F: forms; C: character features; d: embedding size; G: distinct n-grams of one width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm

from fairseq_groc.embeddings.base import WordEmbedding, register_embedding
from fairseq_groc.embeddings.vocabulary import Vocabulary, num_symbols
from fairseq_groc.modules.bags import Bags, average, convolve_and_pool, distinct, pick
from fairseq_groc.registry import Option

SOME = 1024  # words whose size stands for that of all
Encode = Callable[[Tensor, Tensor], Tensor]
SURFACE = {  # options besides --char-filters, which all that reads spellings has
    "char_embed_dim": Option(16, "size of a character's embedding", "count"),
    "highway_layers": Option(1, "highway layers over the character features", "natural"),
}
DEFAULT_CHUNK = 32_768  # forms at a time: up to 3 GB with the released model's filters


def filter_widths(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return (width, count) pairs from the counts for widths 1, 2, ..."""
    return [(width, count) for width, count in enumerate(counts, start=1) if count > 0]


class Highway(nn.Module):
    """y = t * relu(W x + b) + (1 - t) * x with t = sigmoid(W' x + b') (Srivastava et al. 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.projection = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        new, gate = self.projection(x).chunk(2, dim=-1)
        return torch.lerp(x.to(new.dtype), torch.relu(new), torch.sigmoid(gate))


class SurfaceEncoder(nn.Module):
    """Encode spellings: convolutions over characters, maximum over positions, highway, projection.

    Every distinct n-gram of a whole vocabulary meets the filters once, however many words contain it; the maximum is then
    taken over each form's bag of n-grams. That is the convolution with stride 1 and the maximum over time, reordered.

    Args:
        dim: size d of the encodings
        char_embed_dim: size of a character's embedding (16 in the released model)
        filters: (width, count) pairs; their counts add up to C
        highway_layers: how many highway layers follow
        chunk: forms that are encoded at a time
        units: of spellings, bytes or characters
    """

    def __init__(
        self,
        dim: int,
        char_embed_dim: int,
        filters: Sequence[tuple[int, int]],
        highway_layers: int,
        chunk: int = DEFAULT_CHUNK,
        units: str = "bytes",
    ):
        super().__init__()
        self.widths = [width for width, _ in filters]
        self.chunk = chunk
        self.characters = nn.Embedding(num_symbols(units), char_embed_dim)
        self.filters = nn.ModuleList(nn.Linear(width * char_embed_dim, count) for width, count in filters)
        features = sum(count for _, count in filters)
        self.highways = nn.Sequential(*(Highway(features) for _ in range(highway_layers)))
        self.projection = nn.Linear(features, dim, bias=False)

    @classmethod
    def from_settings(cls, dim: int, settings: dict[str, Any]) -> SurfaceEncoder:
        filters = filter_widths(settings["char_filters"])
        chunk = settings.get("encoding_chunk", DEFAULT_CHUNK)
        size, highways, units = (settings[name] for name in ("char_embed_dim", "highway_layers", "spelling_units"))
        return cls(dim, size, filters, highways, chunk, units)

    def forward(self, vocabulary: Vocabulary, forms: Tensor | None = None) -> Tensor:
        """Return the encodings of some forms, (f, d), by their numbers; None: of all.

        More than two ``chunk`` of forms are encoded in pieces, and once more in the backward pass, so that memory is bounded.
        """
        return self._in_chunks(self._encode, vocabulary, forms)

    def features(self, vocabulary: Vocabulary, forms: Tensor | None = None) -> Tensor:
        """Return what the projection gets, (f, C)."""
        return self._in_chunks(self._features, vocabulary, forms)

    def _in_chunks(self, encode: Callable[..., Tensor], vocabulary: Vocabulary, forms: Tensor | None) -> Tensor:
        count = vocabulary.num_forms if forms is None else len(forms)
        if count <= 2 * self.chunk:  # two pieces would save too little for encoding all of them twice
            return encode(vocabulary, forms)
        if forms is None:
            forms = torch.arange(count, device=self.characters.weight.device)
        chunks = forms.tensor_split(math.ceil(count / self.chunk))
        bar = tqdm(chunks, desc="words", unit=" chunks", leave=False, disable=True if self.training else None)
        return torch.cat([checkpoint(encode, vocabulary, chunk, use_reentrant=False) for chunk in bar])

    def _encode(self, vocabulary: Vocabulary, forms: Tensor | None) -> Tensor:
        return self.projection(self._features(vocabulary, forms))

    def _features(self, vocabulary: Vocabulary, forms: Tensor | None) -> Tensor:
        ngrams, windows = zip(*(vocabulary.spellings(width) for width in self.widths), strict=True)
        filters = [cast(nn.Linear, linear) for linear in self.filters]
        weights, biases = [f.weight for f in filters], [f.bias for f in filters]
        pooled = convolve_and_pool(ngrams, windows, self.characters.weight, weights, biases, forms)  # (f, C)
        # relu after the maximum: it is monotonic, and there are fewer forms than n-grams
        return self.highways(pooled.relu_())


@register_embedding(
    "compositional",
    **SURFACE,
    lexicon_parts=Option(
        "both", "what words are composed of besides their spelling", ("both", "relations", "definitions", "none")
    ),
)
class CompositionalEmbedding(WordEmbedding):
    """Compute e_x = W_c [c_x ; r_x ; d_x] for every word of a vocabulary.

    c_x is the encoding of the word's spelling, r_x and d_x the averages of the encodings of its related words and
    of the words of its gloss, zero where there are none. e_x depends on x alone, never on the other words. Without relations
    or definitions W_c has no columns for them (GroC, Table 3); without both, e_x = c_x.

    Args:
        surface: the encoder of spellings, to size d
        dim: d
        relations: whether r_x is there
        definitions: whether d_x is there
    """

    reads_spellings = can_be_sampled = True

    def __init__(self, surface: SurfaceEncoder, dim: int, relations: bool = True, definitions: bool = True):
        super().__init__()
        self.surface = surface
        self.relations, self.definitions = relations, definitions
        parts = 1 + relations + definitions
        self.compose = nn.Linear(parts * dim, dim, bias=False) if parts > 1 else None

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> CompositionalEmbedding:
        return cls(SurfaceEncoder.from_settings(dim, settings), dim, *cls.lexicon_parts(settings))

    @staticmethod
    def lexicon_parts(settings: dict[str, Any]) -> tuple[bool, bool]:
        return settings["lexicon_parts"] in ("both", "relations"), settings["lexicon_parts"] in ("both", "definitions")

    @torch.no_grad()
    def begin(self, vocabulary: Vocabulary, limit: float) -> None:
        """Begin at the size of rows whose numbers are drawn uniformly from -limit to limit, however many parts there are.

        Every word begins as its spelling alone, e_x = c_x with W_c = [I 0 0]. W_s does not see what all spellings share: features
        are maxima, none below 0, so nine tenths of every embedding would be their mean, and words nearly alike.
        """
        forms = torch.arange(min(SOME, vocabulary.num_forms), device=self.surface.projection.weight.device)
        features, weight = self.surface.eval().features(vocabulary, forms), self.surface.projection.weight  # not rounded
        self.surface.train()
        mean = features.mean(0)
        weight -= torch.outer(weight @ mean, mean) / mean.square().sum()
        weight *= limit / math.sqrt(3) / (features @ weight.t()).square().mean().sqrt()
        if self.compose is not None:
            nn.init.eye_(self.compose.weight)

    def forward(self, vocabulary: Vocabulary) -> Tensor:
        """Return the embeddings of all words, (V, d)."""
        forms = self.surface(vocabulary)  # (F, d): once each, however many words use it
        return self.combine(forms, vocabulary)

    def combine(self, forms: Tensor, vocabulary: Vocabulary) -> Tensor:
        """Return the embeddings (V, d) of all words from the encodings of all forms, (F, d)."""
        means = [bags.mean(forms) for bags in self.parts(vocabulary)]  # (V, d) each
        return self._join([forms[: vocabulary.num_words], *means])

    def of_words(self, vocabulary: Vocabulary, words: Tensor, encode: Encode | None = None) -> Tensor:
        """Return the embeddings of some words, (n, d), at the cost of the forms that they are made of.

        Args:
            words: their numbers, (n)
            encode: returns the encodings (f, d) of forms; its arguments are their numbers, (f), and how often each is among these
                words' relations and glosses, (f), infinitely often where it is one of the words. None: all are computed
        """
        picked = [pick(bags, words) for bags in self.parts(vocabulary)]
        forms, places = distinct(torch.cat([words, *(bags.items.long() for bags in picked)]), vocabulary.num_forms)
        own, *others = places.split([len(words), *(len(bags.items) for bags in picked)])
        if encode is None:
            encoded = self.surface(vocabulary, forms)
        else:
            uses = places[len(words) :].bincount(minlength=len(forms)).float()
            encoded = encode(forms, uses.index_fill(0, own, math.inf))
        means = [average(encoded, items, bags.starts) for items, bags in zip(others, picked, strict=True)]
        return self._join([encoded.index_select(0, own), *means])

    def _join(self, parts: list[Tensor]) -> Tensor:
        """Return W_c [c ; r ; d] from its parts, (n, d) each."""
        if self.compose is None:
            return parts[0]
        return self.compose(torch.cat(parts, dim=1))

    def parts(self, vocabulary: Vocabulary) -> list[Bags]:
        """Return every word's bags of forms that it is composed from, besides its own."""
        chosen = ((self.relations, vocabulary.relations), (self.definitions, vocabulary.definitions))
        return [bags() for present, bags in chosen if present]
