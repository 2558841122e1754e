"""Adapters: what turns a trained model's distribution into one that fits the text at hand, without training.

All of them are proper distributions over the whole vocabulary; none knows of encoders, heads or fairseq.
"""

from fairseq_groc.adapters.adapter import Adapter, Memory, View
from fairseq_groc.adapters.base import CACHES, OPTIONS, AdapterSettings, Cache, register_cache
from fairseq_groc.adapters.caches import LocalCache, UnigramCache
from fairseq_groc.adapters.mass import Seen
from fairseq_groc.adapters.unbounded import UnboundedCache
from fairseq_groc.registry import Option

__all__ = [
    "CACHES",
    "OPTIONS",
    "Adapter",
    "AdapterSettings",
    "Cache",
    "LocalCache",
    "Memory",
    "Option",
    "Seen",
    "UnboundedCache",
    "UnigramCache",
    "View",
    "register_cache",
]
