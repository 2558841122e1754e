"""``cache_interpolated_cross_entropy``: the loss of the adapted model, and beside it that of the model alone."""

import math
from collections.abc import Sequence
from typing import Any

from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from torch import Tensor

from fairseq_groc.criterions.chunked_cross_entropy import ChunkedCrossEntropyConfig, ChunkedCrossEntropyCriterion
from fairseq_groc.modules.probabilities import is_impossible


@register_criterion("cache_interpolated_cross_entropy", dataclass=ChunkedCrossEntropyConfig)
class CacheInterpolatedCrossEntropyCriterion(ChunkedCrossEntropyCriterion):
    """In training the loss of ``cross_entropy``; in evaluation that of the task's adapters, computed at the targets alone.

    Logs besides ``loss`` and ``ppl`` of the adapted model those of the model alone (``model_loss``, ``model_ppl``), and how many
    tokens are impossible; with any, the perplexity is infinite.
    """

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        losses, own, penalty = self.losses(model, sample)
        loss, size, log = self.reduced(losses, penalty, sample, reduce)
        log.update(model_loss=own.detach().sum(), impossible=is_impossible(-losses).sum())
        return loss, size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Aggregate what the workers logged; losses in base 2."""
        super().reduce_metrics(logging_outputs)
        tokens = sum(log.get("ntokens", 0) for log in logging_outputs)
        own = sum(log.get("model_loss", 0) for log in logging_outputs)
        metrics.log_scalar("model_loss", own / tokens / math.log(2), tokens, round=3)
        metrics.log_derived("model_ppl", lambda meters: utils.get_perplexity(meters["model_loss"].avg))
        metrics.log_scalar_sum("impossible", sum(log.get("impossible", 0) for log in logging_outputs))
