"""Adapters: what turns a trained model's distribution into one that fits the text at hand, without training.

All of them are proper distributions over the whole vocabulary; none knows of encoders, heads or fairseq.
"""

from fairseq_groc.adapters.adapter import Adapter, Memory, View
from fairseq_groc.adapters.base import (
    ADAPTERS,
    CACHES,
    OPTIONS,
    AdapterSettings,
    Cache,
    TextAdapter,
    register_adapter,
    register_cache,
)
from fairseq_groc.adapters.caches import LocalCache, UnigramCache
from fairseq_groc.adapters.dynamic import DynamicEvaluation
from fairseq_groc.adapters.mass import Distribution, Seen
from fairseq_groc.adapters.ngram import NGramBeside
from fairseq_groc.adapters.statistics import Statistics
from fairseq_groc.adapters.unbounded import UnboundedCache
from fairseq_groc.registry import Option

__all__ = [
    "ADAPTERS",
    "CACHES",
    "OPTIONS",
    "Adapter",
    "AdapterSettings",
    "Cache",
    "Distribution",
    "DynamicEvaluation",
    "LocalCache",
    "Memory",
    "NGramBeside",
    "Option",
    "Seen",
    "Statistics",
    "TextAdapter",
    "UnboundedCache",
    "UnigramCache",
    "View",
    "register_adapter",
    "register_cache",
]
