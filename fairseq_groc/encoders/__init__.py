"""Prefix encoders: from the embeddings of what was read to h, by the names that ``--prefix-encoder`` takes."""

from fairseq_groc.encoders.awd_lstm import AWDLSTMEncoder
from fairseq_groc.encoders.base import ENCODERS, LineContexts, PrefixEncoder, State, register_encoder
from fairseq_groc.encoders.factor_cell import FactorCellEncoder
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.registry import Option

__all__ = [
    "ENCODERS",
    "AWDLSTMEncoder",
    "FactorCellEncoder",
    "LSTMEncoder",
    "LineContexts",
    "Option",
    "PrefixEncoder",
    "State",
    "register_encoder",
]
