"""Output heads, by the names that ``--output-head`` takes."""

from fairseq_groc.heads.adaptive import HierarchicalOutput
from fairseq_groc.heads.base import ACTIVATIONS, HEADS, Head, OutputHead, register_head
from fairseq_groc.heads.convolutional import ConvolutionalOutput
from fairseq_groc.heads.mappings import BilinearOutput, CompositionalOutput, DeepResidualOutput, DualNonlinearOutput
from fairseq_groc.heads.mixture import MixtureOfSoftmaxes
from fairseq_groc.heads.table import LookupOutput, TiedOutput
from fairseq_groc.registry import Option

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
    "Option",
    "OutputHead",
    "TiedOutput",
    "register_head",
]
