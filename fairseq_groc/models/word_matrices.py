"""Word embedding and head over one vocabulary: the matrices that a language model reads from and predicts with."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from fairseq_groc.embeddings.base import WordEmbedding
from fairseq_groc.embeddings.compositional import CompositionalEmbedding
from fairseq_groc.embeddings.corrections import Corrections
from fairseq_groc.embeddings.growth import GrowingRows, add_words, rows_of
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.embeddings.sampled_updates import ALL_UPDATES, SampledUpdates, Step, Updates, generator, is_frozen
from fairseq_groc.embeddings.sampled_words import SampledWords
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.heads import OutputHead
from fairseq_groc.lexicon.base import Entry
from fairseq_groc.models.matrices_file import fingerprint, load_matrices, save_matrices
from fairseq_groc.modules.checksum import Checksum
from fairseq_groc.modules.per_thread import PerThread
from fairseq_groc.modules.probabilities import masked_bias

logger = logging.getLogger(__name__)
Matrices = tuple[Tensor, Tensor, Tensor]  # E_in (V, d), E_out (V, d), bias (V) with -inf for impossible words


class WordMatrices(nn.Module):
    """Compute E_in, E_out and the bias in one pass, and keep them in evaluation while nothing changes.

    In evaluation they are computed once and dropped as soon as a parameter or the vocabulary changes: the parameters
    are compared by a checksum, so that a change through ``.data``, which PyTorch does not count, is seen too, until the model is
    made ready for generation (``make_generation_fast_``).

    Args:
        embedding: from the vocabulary to E_in, (V, d)
        head: from E_in to E_out and bias
        vocabulary: for embeddings and heads that read spellings; None for rows
        impossible: mask (V) of entries that are no words
        corrections: of the embeddings
        updates: what steps of training compute of composed words, once they are told of each (``begin_step``)
        file: where evaluation keeps its matrices, too, for other processes
        context_rows: of each word, what meets a line's context (Jaech and Ostendorf 2018, eq. 6): behind the numbers of E_out

    Sparse updates keep "the output embedding frozen" and train "the rest of the network" (GroC, appendix B.4). Its parameters
    are those of the input embedding as well, and the paper does not say whether these go on being trained through the
    input; here they do not, so that what is kept is never stale and resuming is bit-equal.
    """

    impossible: Tensor
    source = PerThread()  # what stands in for ``computed``; None: nothing
    own_limit = PerThread()  # the limit of this thread, in place of that of all
    _current = PerThread()

    def __init__(
        self,
        embedding: WordEmbedding,
        head: OutputHead,
        vocabulary: Vocabulary | None,
        impossible: Tensor,
        corrections: Corrections | None = None,
        updates: Updates = ALL_UPDATES,
        file: Path | None = None,
        context_rows: WordRows | None = None,
    ):
        super().__init__()
        self.embedding = embedding
        self.head = head
        self.corrections = corrections
        self.context_rows = context_rows
        self.vocabulary = vocabulary
        self.register_buffer("impossible", impossible, persistent=False)
        self._kept: Matrices | None = None
        self._kept_for: tuple[Any, ...] = ()
        self._checksum: Checksum | None = Checksum()
        self._step: Step | None = None
        self.updates = updates._replace(probability=1.0) if embedding.is_table else updates
        self.sampled: SampledUpdates | SampledWords | None = None
        if updates.fraction < 1 and embedding.can_be_sampled:
            kind = SampledUpdates if corrections is None else SampledWords
            self.sampled = kind(updates.fraction, updates.interval, updates.seed)
        self.file = file
        self.limit_of_all: Tensor | None = None  # mask (V) of words that no thread must predict at present
        self.added: dict[str, Entry] = {}  # what each word is made of that was added, in their order
        self._spelled: Vocabulary | None = None  # these words, once all of them are needed together
        self._growing = [GrowingRows() for _ in Matrices.__args__]  # type: ignore[attr-defined]

    @property
    def limit(self) -> Tensor | None:
        """The mask (V) of words that must not be predicted at present, by this thread; None: all may be."""
        own: Tensor | None = self.own_limit
        return self.limit_of_all if own is None else own

    def make_generation_fast_(self, **_: Any) -> None:
        """Trust PyTorch's count of changes: fairseq calls this in scoring and generation, after which no model can be trained."""
        self._checksum = None

    def begin_step(self, number: int, tokens: Tensor) -> None:
        """Say which training step comes: the number of updates before it, and the tokens of its batch."""
        self._step = Step(number, tokens)
        if self.corrections is not None:
            self.corrections.begin_step(generator(self.updates.seed + 2, number))

    def is_frozen(self) -> bool:
        """Say whether the step leaves embedding and head as they are."""
        return self._step is not None and is_frozen(self.updates.probability, self.updates.seed, self._step.number)

    def begin(self) -> Matrices:
        """Compute the matrices of a forward pass, and hold them for its ``end``."""
        self._current = self()
        return self._current

    def end(self) -> Matrices:
        """Return the matrices of the forward pass that was begun, and let them go."""
        current, self._current = self._current, None
        return self() if current is None else current

    def forward(self) -> Matrices:
        inputs, outputs, bias = self.computed() if self.source is None else self.source()
        if self.limit is not None and self.head.plain_softmax:
            bias = masked_bias(bias, self.limit.to(bias.device))
        return inputs, outputs, bias

    def output_embeddings(self) -> Tensor:
        """Return E_out without the numbers that meet contexts, (V, d)."""
        outputs = self()[1]
        return outputs if self.context_rows is None else outputs[:, : -self.context_rows.weight.size(1)]

    def log_scores(self, h: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return the head's scores, (..., V), -inf beyond the limit.

        A softmax without some words is the renormalised one; not so a mixture of softmaxes, whose scores are masked.
        """
        scores = self.head.log_scores(h, outputs, bias)
        if self.limit is None or self.head.plain_softmax:
            return scores
        return scores.masked_fill(self.limit.to(scores.device), float("-inf"))

    def computed(self) -> Matrices:
        """Return what the parameters make of the words, whatever the limit."""
        if not (self.head.computes or self.embedding.computes or self.context_rows is not None):  # rows cost nothing to compute
            return self._encode()
        if self.training and self.is_frozen():
            return self._frozen()
        if self.training and self.sampled is not None and self._step is not None and not self.added:
            self._kept = None
            embedding, vocabulary = cast(CompositionalEmbedding, self.embedding), cast(Vocabulary, self.vocabulary)
            return self.of_embeddings(self.sampled.embed(embedding, vocabulary, self._step))
        if self.training or torch.is_grad_enabled():
            self._kept = None
            return self._encode()
        # words that were added are this process's alone: the file would not tell one process's from another's
        return self._keep(self._encode if self.file is None or self.added else self._read_or_write)

    @torch.no_grad()
    def add_words(self, entries: dict[str, Entry]) -> None:
        """Append words, at the cost of these alone where matrices are kept.

        Args:
            entries: of every new word what its lexicon says, for embeddings that read it
        """
        kept = self._kept if self._kept is not None and self._kept_for == self._state() else None
        first, count = len(self.impossible), len(entries)
        add_words(self, list(entries))
        self.added.update(entries)
        self._spelled = None
        # masks are copied whole: a byte a word, which any prediction costs a thousandfold
        self.impossible = torch.cat([self.impossible, self.impossible.new_zeros(count)])
        if self.limit_of_all is not None:
            self.limit_of_all = torch.cat([self.limit_of_all, self.limit_of_all.new_zeros(count)])
        if self.own_limit is not None:
            self.own_limit = torch.cat([self.own_limit, self.own_limit.new_zeros(count)])
        if kept is None:
            self._kept = None
            return
        vocabulary = None if self.vocabulary is None else self.vocabulary.of_entries(entries)
        self._kept = self._appended(kept, self._part(vocabulary, slice(first, None)))
        self._kept_for = self._state()

    def _appended(self, kept: Matrices, new: Matrices) -> Matrices:
        shared = kept[1].data_ptr() == kept[0].data_ptr() and kept[1].shape == kept[0].shape  # E_out = E_in
        bias = self._growing[2].append(kept[2], new[2])
        inputs = self._growing[0].append(kept[0], new[0]) if self.embedding.computes else self.embedding()
        return inputs, inputs if shared else self._growing[1].append(kept[1], new[1]), bias

    def _keep(self, compute: Callable[[], Matrices]) -> Matrices:
        state = self._state()
        if self._kept is None or self._kept_for != state:
            self._kept, self._kept_for = compute(), state
        return self._kept

    def _encode(self) -> Matrices:
        if self.vocabulary is None or not self.added:
            return self.of_embeddings(self.embedding(self.vocabulary))
        if self._spelled is None:
            self._spelled = self.vocabulary.of_entries(self.added)
        first = self.vocabulary.num_words
        parts = self._part(self.vocabulary, slice(0, first)), self._part(self._spelled, slice(first, None))
        inputs, outputs, bias = (torch.cat(pieces) for pieces in zip(*parts, strict=True))
        return inputs, outputs, bias

    def _part(self, vocabulary: Vocabulary | None, part: slice) -> Matrices:
        """Compute the matrices of some words, which are all of *vocabulary*."""
        with rows_of(self, part):
            inputs, outputs, bias = self._predict(self.embedding(vocabulary), vocabulary)
        return inputs, outputs, masked_bias(bias, self.wordless()[part])

    def _predict(self, embeddings: Tensor, vocabulary: Vocabulary | None) -> Matrices:
        """Return E_in, E_out and b of embeddings, corrected."""
        outputs, bias = self.head(embeddings, vocabulary)
        if self.corrections is not None:
            embeddings, outputs, bias = self.corrections.correct(embeddings, outputs, bias)
        if self.context_rows is not None:
            outputs = torch.cat([outputs, self.context_rows().to(outputs)], dim=1)
        return embeddings, outputs, bias

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

    def of_embeddings(self, inputs: Any) -> Matrices:
        """Return the matrices that the head makes of the embedding's E_in, (V, d), or of what sampled updates have of it."""
        inputs, outputs, bias = self._predict(inputs, self.vocabulary)
        return inputs, outputs, masked_bias(bias, self.wordless())

    def wordless(self) -> Tensor:
        """Return the mask (V) of entries that are no words, or have no row."""
        unknown = self.head.unknown()
        return self.impossible if unknown is None else self.impossible | unknown

    def unpredictable(self) -> Tensor:
        """Return the mask (V) of entries with probability 0: no words, words without a row, words beyond the limit."""
        return self.wordless() if self.limit is None else self.wordless() | self.limit.to(self.impossible.device)

    def _state(self) -> tuple[Any, ...]:
        parameters: list[Any] = list(self.parameters())
        device = self.impossible.device.type
        versions = [(p.data_ptr(), p._version, p.dtype) for p in parameters]
        unknown = self.head.unknown()
        mask = None if unknown is None else (unknown.data_ptr(), unknown._version)
        precision = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        words = id(self.vocabulary), self.impossible.data_ptr(), len(self.impossible), mask
        return precision, words, versions, None if self._checksum is None else self._checksum(parameters)
