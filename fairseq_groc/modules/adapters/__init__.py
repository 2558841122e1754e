"""Adapters: what turns a trained model's distribution into one that fits the text at hand, without training.

All of them are proper distributions over the whole vocabulary; none knows of encoders, heads or fairseq.
"""

from fairseq_groc.modules.adapters.adapter import Adapter, AdapterSettings, Memory, View

__all__ = ["Adapter", "AdapterSettings", "Memory", "View"]
