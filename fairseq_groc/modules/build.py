"""Put a word embedding and a head together by name."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from torch import nn

from fairseq_groc.modules.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.modules.heads import CompositionalOutput, LookupOutput, OutputHead, TiedOutput
from fairseq_groc.modules.rows import WordRows


def filter_widths(counts: Sequence[int]) -> List[Tuple[int, int]]:
    """Return (width, count) pairs from the counts for widths 1, 2, ..."""
    return [(width, count) for width, count in enumerate(counts, start=1) if count > 0]


def build_embedding(
    output_head: str, words: Sequence[str], dim: int, char_embed_dim: int, char_filters: Sequence[int], highway_layers: int
) -> nn.Module:
    """Return the word embedding that goes with a head: compositional, or a row a word."""
    if output_head != "compositional_output":
        return WordRows(words, dim)
    surface = SurfaceEncoder(dim, char_embed_dim, filter_widths(char_filters), highway_layers)
    return CompositionalEmbedding(surface, dim)


def build_head(
    output_head: str,
    words: Sequence[str],
    dim: int,
    output_depth: int,
    output_activation: str,
    output_dropout: float,
    bias_activation: str,
) -> OutputHead:
    """Return the head of that name."""
    if output_head == "tied":
        return TiedOutput(words)
    if output_head == "lookup":
        return LookupOutput(words, dim)
    return CompositionalOutput(dim, output_depth, output_activation, output_dropout, bias_activation)
