"""Word embeddings: from the words of a vocabulary to E_in, and how a training step computes them."""

from fairseq_groc.embeddings.adaptive_rows import AdaptiveRows
from fairseq_groc.embeddings.base import EMBEDDINGS, WordEmbedding, register_embedding
from fairseq_groc.embeddings.compositional import CompositionalEmbedding
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.registry import Option

__all__ = ["EMBEDDINGS", "AdaptiveRows", "CompositionalEmbedding", "Option", "WordEmbedding", "WordRows", "register_embedding"]
