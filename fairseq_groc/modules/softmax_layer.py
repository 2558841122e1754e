"""Word embedding and head over one vocabulary: the matrices that a language model reads from and predicts with."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Callable, List, Optional, Tuple, cast

import torch
from torch import Tensor, nn

from fairseq_groc.modules.compositional import CompositionalEmbedding
from fairseq_groc.modules.export import fingerprint, load_matrices, save_matrices
from fairseq_groc.modules.heads import OutputHead
from fairseq_groc.modules.probabilities import masked_bias
from fairseq_groc.modules.rows import WordRows
from fairseq_groc.modules.updates import SampledUpdates, Step, is_frozen
from fairseq_groc.modules.vocabulary import Vocabulary
from fairseq_groc.modules.vocabulary_dropout import LexiconDropout, VocabularyDropout

logger = logging.getLogger(__name__)
Matrices = Tuple[Tensor, Tensor, Tensor]  # E_in (V, d), E_out (V, d), bias (V) with -inf for impossible words


class WordMatrices(nn.Module):
    """Compute E_in, E_out and the bias in one pass, and keep them in evaluation while nothing changes.

    In evaluation they are computed once and dropped as soon as a parameter or the vocabulary changes: the parameters
    are compared by a checksum, so that a change through ``.data``, which PyTorch does not count, is seen too.

    Args:
        embedding: from the vocabulary to E_in, (V, d)
        head: from E_in to E_out and bias
        vocabulary: for embeddings and heads that read spellings; None for rows
        impossible: mask (V) of entries that are no words

    In training every step computes all of them, unless ``full_probability`` is below 1 (the paper's sparse updates) or
    ``sampled`` is given; both need to be told of each step by ``begin_step``, as do ``vocabulary_dropout`` and
    ``lexicon_dropout``. With ``file``, evaluation keeps its matrices there, too, for other processes.
    """

    impossible: Tensor

    def __init__(self, embedding: nn.Module, head: OutputHead, vocabulary: Optional[Vocabulary], impossible: Tensor):
        super().__init__()
        self.embedding = embedding
        self.head = head
        self.vocabulary = vocabulary
        self.register_buffer("impossible", impossible, persistent=False)
        self._kept: Optional[Matrices] = None
        self._kept_for: Tuple = ()
        self._weights = torch.empty(0)  # of the checksums
        self._current: Optional[Matrices] = None
        self._step: Optional[Step] = None
        self.full_probability, self.seed = 1.0, 1
        self.sampled: Optional[SampledUpdates] = None
        self.vocabulary_dropout: Optional[VocabularyDropout] = None
        self.lexicon_dropout: Optional[LexiconDropout] = None
        self.file: Optional[Path] = None

    def begin_step(self, number: int, words: Tensor) -> None:
        """Say which training step comes: the number of updates before it, and the words of its batch."""
        self._step = Step(number, words)
        if self.lexicon_dropout is not None:
            embedding = cast(CompositionalEmbedding, self.embedding)
            embedding.lacking = self.lexicon_dropout.lacking(len(self.impossible), number)

    def is_frozen(self) -> bool:
        """Say whether the step leaves embedding and head as they are."""
        return self._step is not None and is_frozen(self.full_probability, self.seed, self._step.number)

    def begin(self) -> Matrices:
        """Compute the matrices of a forward pass, and hold them for its ``end``."""
        self._current = self()
        return self._current

    def end(self) -> Matrices:
        """Return the matrices of the forward pass that was begun, and let them go."""
        current, self._current = self._current, None
        return self() if current is None else current

    def forward(self) -> Matrices:
        inputs, outputs, bias = self._matrices()
        if self.training and self.vocabulary_dropout is not None and self._step is not None:
            bias = self.vocabulary_dropout(bias, self._step)
        return inputs, outputs, bias

    def _matrices(self) -> Matrices:
        if not self.head.computes and isinstance(self.embedding, WordRows):  # rows cost nothing to compute
            return self._encode()
        if self.training and self.is_frozen():
            return self._frozen()
        if self.training and self.sampled is not None and self._step is not None:
            self._kept = None
            embedding, vocabulary = cast(CompositionalEmbedding, self.embedding), cast(Vocabulary, self.vocabulary)
            return self._mask(self.sampled.embed(embedding, vocabulary, self._step))
        if self.training or torch.is_grad_enabled():
            self._kept = None
            return self._encode()
        return self._keep(self._encode if self.file is None else self._read_or_write)

    def _keep(self, compute: Callable[[], Matrices]) -> Matrices:
        state = self._state()
        if self._kept is None or self._kept_for != state:
            self._kept, self._kept_for = compute(), state
        return self._kept

    def _encode(self) -> Matrices:
        return self._mask(self.embedding(self.vocabulary))

    def _read_or_write(self) -> Matrices:
        """Read the matrices from ``file`` if they are this model's and vocabulary's, else compute and write them."""
        assert self.file is not None
        digest = fingerprint(self)
        saved = load_matrices(self.file, digest, self.impossible.device)
        if saved is not None:
            logger.info(f"{self.file}: embeddings of {len(saved[0]):,} words read")
            return saved[0], saved[1], saved[2]
        matrices = self._encode()
        save_matrices(self.file, matrices, digest)
        logger.info(f"{self.file}: embeddings of {len(matrices[0]):,} words written")
        return matrices

    def _frozen(self) -> Matrices:
        """Return what the parameters give now, as constants; the optimizer must leave the parameters alone."""
        self.eval()  # kept matrices hold no dropout, or its one mask would stay
        with torch.no_grad():
            inputs, outputs, bias = self._keep(self._encode)
        self.train()
        nothing = sum((p.sum() for p in self.parameters()), bias.new_zeros(())) * 0  # workers expect every gradient
        return inputs, outputs, bias + nothing

    def _mask(self, inputs: Any) -> Matrices:
        outputs, bias = self.head(inputs, self.vocabulary)
        return inputs, outputs, masked_bias(bias, self.unpredictable())

    def unpredictable(self) -> Tensor:
        """Return the mask (V) of entries with probability 0: no words, and words that the head has no row for."""
        unknown = self.head.unknown()
        return self.impossible if unknown is None else self.impossible | unknown

    def _state(self) -> Tuple:
        parameters: List[Any] = list(self.embedding.parameters()) + list(self.head.parameters())
        device = self.impossible.device.type
        with torch.autocast(device, enabled=False):
            checksums = torch.stack([self._checksum(p) for p in parameters]).tolist()
        versions = [(p.data_ptr(), p._version, p.dtype) for p in parameters]
        unknown = self.head.unknown()
        mask = None if unknown is None else (unknown.data_ptr(), unknown._version)
        precision = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        return precision, id(self.vocabulary), self.impossible.data_ptr(), mask, tuple(versions), tuple(checksums)

    def _checksum(self, parameter: Tensor) -> Tensor:
        """Return a weighted sum: unlike a norm, it changes when signs or places do."""
        flat = parameter.detach().flatten().float()
        if len(self._weights) < len(flat) or self._weights.device != flat.device:
            self._weights = torch.arange(1, len(flat) + 1, device=flat.device, dtype=torch.float32).cos_()
        return flat @ self._weights[: len(flat)]
