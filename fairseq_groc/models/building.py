"""Put a word embedding and a head together by name."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from torch import nn

from fairseq_groc.embeddings.adaptive_rows import AdaptiveRows
from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder, filter_widths
from fairseq_groc.embeddings.corrections import Corrections
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS, Head, OutputHead
from fairseq_groc.registry import find


def _compositional(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> nn.Module:
    filters = filter_widths(settings["char_filters"])
    surface = SurfaceEncoder(dim, settings["char_embed_dim"], filters, settings["highway_layers"])
    relations, definitions = (settings["lexicon_parts"] in ("both", part) for part in ("relations", "definitions"))
    return CompositionalEmbedding(surface, dim, relations, definitions)


def _adaptive(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> nn.Module:
    return AdaptiveRows(words, dim, settings["output_cutoffs"], settings["output_factor"])


EMBEDDINGS: Dict[str, Callable[[Sequence[str], int, Dict[str, Any]], nn.Module]] = {
    "rows": lambda words, dim, settings: WordRows(words, dim),
    "adaptive": _adaptive,
    "compositional": _compositional,
}


def build_embedding(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> nn.Module:
    """Return the word embedding that goes with a head: from a vocabulary to E_in, (V, d).

    Args:
        words: of the vocabulary
        dim: d
        settings: the options of ``options.HeadConfig`` by name
    """
    return find(EMBEDDINGS, "word embedding", _head(settings).embedding)(words, dim, settings)


def build_head(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> OutputHead:
    """Return the head that ``settings["output_head"]`` names."""
    return _head(settings).build(words, dim, settings)


def build_corrections(words: Sequence[str], dim: int, settings: Dict[str, Any]) -> Optional[Corrections]:
    """Return the corrections that ``settings["corrections"]`` asks for.

    Raises:
        OptionError: the word embeddings are not composed.
    """
    where = settings["corrections"]
    if where == "none":
        return None
    if _head(settings).embedding != "compositional":
        raise OptionError(f"--corrections {where} goes with composed words: --output-head compositional_output")
    return Corrections(words, dim, settings["correction_dim"], settings["correction_dropout"], where)


def _head(settings: Dict[str, Any]) -> Head:
    return find(HEADS, "output head", settings["output_head"])


def ngram_widths(settings: Dict[str, Any]) -> List[int]:
    """Return the widths of the n-grams that the filters read."""
    return [width for width, _ in filter_widths(settings["char_filters"])]


def needs_spellings(settings: Dict[str, Any]) -> bool:
    """Say whether word embedding or head need the vocabulary's spellings."""
    head = _head(settings)
    return head.needs_spellings or head.embedding == "compositional"


def needs_lexicon(settings: Dict[str, Any]) -> bool:
    """Say whether the word embedding needs relations or definitions."""
    return _head(settings).embedding == "compositional" and settings["lexicon_parts"] != "none"
