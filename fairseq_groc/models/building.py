"""Put a word embedding and a head together by name."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from fairseq_groc.embeddings import EMBEDDINGS, WordEmbedding
from fairseq_groc.embeddings.compositional import filter_widths
from fairseq_groc.embeddings.corrections import Corrections
from fairseq_groc.heads import HEADS, Head, OutputHead


def build_embedding(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> WordEmbedding:
    """Return the word embedding that goes with a head: from a vocabulary to E_in, (V, d).

    Args:
        words: of the vocabulary
        dim: d
        settings: the options of the head and of its embedding, by name
    """
    return _embedding(settings).from_settings(words, dim, settings)


def build_head(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> OutputHead:
    """Return the head that ``settings["output_head"]`` names."""
    return _head(settings).kind.from_settings(words, dim, settings)


def build_corrections(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> Optional[Corrections]:
    """Return the corrections that ``settings["corrections"]`` asks for, which only composed words have."""
    where = settings.get("corrections", "none")
    if where == "none":
        return None
    return Corrections(words, dim, settings["correction_dim"], settings["correction_dropout"], where)


def _head(settings: Dict[str, Any]) -> Head:
    return HEADS.find(settings["output_head"])


def _embedding(settings: Dict[str, Any]) -> Type[WordEmbedding]:
    return EMBEDDINGS.find(_head(settings).embedding)


def ngram_widths(settings: Dict[str, Any]) -> List[int]:
    """Return the widths of the n-grams that the filters read."""
    return [width for width, _ in filter_widths(settings["char_filters"])]


def needs_spellings(settings: Dict[str, Any]) -> bool:
    """Say whether word embedding or head need the vocabulary's spellings."""
    return _head(settings).kind.needs_spellings or _embedding(settings).reads_spellings


def lexicon_parts(settings: Dict[str, Any]) -> Tuple[bool, bool]:
    """Say whether the word embedding reads relations, and whether definitions."""
    return _embedding(settings).lexicon_parts(settings)
