"""Output heads, by the names that ``--output-head`` takes."""

from fairseq_groc.modules.heads.base import ACTIVATIONS, HEADS, Head, OutputHead, register_head
from fairseq_groc.modules.heads.convolutional import ConvolutionalOutput
from fairseq_groc.modules.heads.hierarchical import HierarchicalOutput
from fairseq_groc.modules.heads.mappings import BilinearOutput, CompositionalOutput, DeepResidualOutput, DualNonlinearOutput
from fairseq_groc.modules.heads.mixture import MixtureOfSoftmaxes
from fairseq_groc.modules.heads.table import LookupOutput, TiedOutput

__all__ = [
    "ACTIVATIONS",
    "HEADS",
    "BilinearOutput",
    "CompositionalOutput",
    "ConvolutionalOutput",
    "DeepResidualOutput",
    "DualNonlinearOutput",
    "Head",
    "HierarchicalOutput",
    "LookupOutput",
    "MixtureOfSoftmaxes",
    "OutputHead",
    "TiedOutput",
    "register_head",
]
