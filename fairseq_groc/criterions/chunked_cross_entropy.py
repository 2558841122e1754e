"""``chunked_cross_entropy``: fairseq's ``cross_entropy`` with memory flat in the vocabulary."""

from dataclasses import dataclass
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from torch import Tensor

from fairseq_groc.errors import OptionError
from fairseq_groc.models.word_decoder import WordDecoder
from fairseq_groc.modules.activation_penalty import activation_penalty
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK
from fairseq_groc.options import described
from fairseq_groc.registry import expect


@dataclass
class ChunkedCrossEntropyConfig(CrossEntropyCriterionConfig):
    """Options of the criterion."""

    vocabulary_chunk: int = described(DEFAULT_CHUNK, "words whose logits are held at a time")
    activation_regularization: float = described(
        0.0, "in training, so many times the mean square of the encodings h is added (AWD-LSTM: 2)"
    )
    temporal_activation_regularization: float = described(
        0.0, "the same of how h changes from one token to the next (AWD-LSTM: 1)"
    )


@register_criterion("chunked_cross_entropy", dataclass=ChunkedCrossEntropyConfig)
class ChunkedCrossEntropyCriterion(CrossEntropyCriterion):
    """The loss of ``cross_entropy``, exactly, in chunks of the vocabulary: the logits of all words are never held.

    In training ``activation_penalty`` may be added to it; what is logged is without.

    Raises:
        OptionError: a chunk of no words, or a negative weight.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        vocabulary_chunk: int,
        activation_regularization: float = 0.0,  # defaults for checkpoints of before these were options
        temporal_activation_regularization: float = 0.0,
    ):
        super().__init__(task, sentence_avg)
        self.penalties = size, change = activation_regularization, temporal_activation_regularization
        expect("count", vocabulary_chunk=vocabulary_chunk)
        expect("natural", activation_regularization=size, temporal_activation_regularization=change)
        self.vocabulary_chunk = vocabulary_chunk

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss (base e), the sample size and what to log, as ``cross_entropy`` does."""
        losses, _, penalty = self.losses(model, sample)
        return self.reduced(losses, penalty, sample, reduce)

    def losses(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, Tensor, Any]:
        """Return -log p of every target, of the adapted model and of the model alone, (B T), 0 for padding; and the penalty."""
        decoder = getattr(model, "decoder", model)  # fairseq's wrappers of several workers pass it on
        if not isinstance(decoder, WordDecoder):
            name = self.__class__.__name__
            raise OptionError(f"the criterion {name} needs --task wordnet_lexicon, not a {type(decoder).__name__}")
        target = model.get_targets(sample, None)
        h, extra, matrices = decoder.without_scores(model, sample["net_input"])
        adapted, own = decoder.losses(h, extra, matrices, target, self.vocabulary_chunk)
        return adapted.flatten(), own.flatten(), self.penalty(decoder, extra, target) if model.training else 0.0

    def penalty(self, decoder: WordDecoder, extra: dict[str, Any], target: Tensor) -> Any:
        """Return what training adds to the mean loss of a token.

        Raises:
            OptionError: the decoder does not give its encodings.
        """
        if not any(self.penalties):
            return 0.0
        if "last" not in extra:
            name = type(decoder).__name__
            raise OptionError(f"--activation-regularization and the temporal one need --arch groc_lstm_lm, not a {name}")
        return activation_penalty(extra["features"], extra["last"], target.ne(self.padding_idx), *self.penalties)

    def reduced(
        self, losses: Tensor, penalty: Tensor | float, sample: dict[str, Any], reduce: bool
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss with the penalty, the sample size, and what to log: the loss without.

        The blocks of an update, of several workers or of --update-freq, weigh by their size: the penalty is that of all at once.
        """
        sentences = sample["target"].size(0)
        size = sentences if self.sentence_avg else sample["ntokens"]
        loss = losses.sum() if reduce else losses
        log = {"loss": loss.detach(), "ntokens": sample["ntokens"], "nsentences": sentences, "sample_size": size}
        return loss + size * penalty if reduce else loss, size, log
