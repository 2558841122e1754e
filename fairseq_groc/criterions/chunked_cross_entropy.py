"""``chunked_cross_entropy``: fairseq's ``cross_entropy`` with memory flat in the vocabulary."""

from dataclasses import dataclass, field
from typing import Tuple

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from torch import Tensor

from fairseq_groc.errors import OptionError
from fairseq_groc.models.word_decoder import WordDecoder
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK


@dataclass
class ChunkedCrossEntropyConfig(CrossEntropyCriterionConfig):
    """Options of the criterion."""

    vocabulary_chunk: int = field(default=DEFAULT_CHUNK, metadata={"help": "words whose logits are held at a time"})


@register_criterion("chunked_cross_entropy", dataclass=ChunkedCrossEntropyConfig)
class ChunkedCrossEntropyCriterion(CrossEntropyCriterion):
    """The loss of ``cross_entropy``, exactly, in chunks of the vocabulary: the logits of all words are never held.

    Raises:
        OptionError: a chunk of no words.
    """

    def __init__(self, task, sentence_avg: bool, vocabulary_chunk: int):
        super().__init__(task, sentence_avg)
        if vocabulary_chunk < 1:
            raise OptionError(f"--vocabulary-chunk {vocabulary_chunk}: expected a positive number")
        self.vocabulary_chunk = vocabulary_chunk

    def forward(self, model, sample, reduce=True):
        """Return the loss (base e), the sample size and what to log, as ``cross_entropy`` does."""
        losses, _ = self.losses(model, sample)
        return self.reduced(losses, sample, reduce)

    def losses(self, model, sample) -> Tuple[Tensor, Tensor]:
        """Return -log p of every target, of the adapted model and of the model alone, (B T); 0 for padding."""
        decoder = getattr(model, "decoder", model)  # fairseq's wrappers of several workers pass it on
        if not isinstance(decoder, WordDecoder):
            name = self.__class__.__name__
            raise OptionError(f"the criterion {name} needs --task wordnet_lexicon, not a {type(decoder).__name__}")
        target = model.get_targets(sample, None)
        adapted, own = decoder.losses(*decoder.without_scores(model, sample["net_input"]), target, self.vocabulary_chunk)
        return adapted.flatten(), own.flatten()

    def reduced(self, losses: Tensor, sample, reduce: bool):
        """Return loss, sample size and what to log."""
        sentences = sample["target"].size(0)
        size = sentences if self.sentence_avg else sample["ntokens"]
        loss = losses.sum() if reduce else losses
        log = {"loss": loss.detach(), "ntokens": sample["ntokens"], "nsentences": sentences, "sample_size": size}
        return loss, size, log
