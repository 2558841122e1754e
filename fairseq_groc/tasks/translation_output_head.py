"""``translation_output_head``: fairseq's translation with a head of the package's on the decoder (DRILL, section 4.2)."""

import functools
from dataclasses import dataclass
from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_groc.embeddings import EMBEDDINGS
from fairseq_groc.embeddings.vocabulary import Spelling, Vocabulary
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.models.attaching import attach_head
from fairseq_groc.models.building import lexicon_parts, needs_spellings, ngram_widths
from fairseq_groc.options import HeadConfig, head_settings, refuse_unused_of_task, widen
from fairseq_groc.tasks.resuming import ResumedTask, ResumingConfig, mend_before_resuming


@dataclass
class TranslationOutputHeadConfig(HeadConfig, TranslationConfig, ResumingConfig):
    """Options of fairseq's task and of the head, whose defaults are DRILL's (section 4.2)."""

    output_head: str = "deep_residual"
    output_depth: int = 2
    output_activation: str = "sigmoid"


TASK = "translation_output_head"


@register_task(TASK, dataclass=TranslationOutputHeadConfig)
class TranslationOutputHeadTask(ResumedTask, TranslationTask):
    """Encoder-decoder models whose decoder has one of the package's heads; everything else is fairseq's."""

    cfg: TranslationOutputHeadConfig

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build fairseq's model and give its decoder the head; its settings are the checkpoint's in generation.

        Raises:
            OptionError: a head that needs a lexicon, or embeddings that the encoder shares.
        """
        saved = self.state.state_dict.get("groc", {}) if from_checkpoint else {}
        settings = head_settings(self.cfg, saved.get("head"))
        if not from_checkpoint:
            refuse_unused_of_task(self.cfg, TASK)
        if any(lexicon_parts(settings)):
            raise OptionError("translation has no lexicon tables: give --output-head deep_residual, say, or --lexicon-parts none")
        if settings.get("corrections", "none") != "none":
            raise OptionError("--corrections goes with --task wordnet_lexicon alone: leave it out")
        if settings["context_dim"]:
            raise OptionError("--context-dim goes with --task wordnet_lexicon alone: leave it out")
        if not from_checkpoint:
            mend_before_resuming(self.cfg)
            self.state.merge_state_dict({"groc": {"head": settings}})
        model = super().build_model(cfg, from_checkpoint)
        if model.encoder.embed_tokens is model.decoder.embed_tokens:
            raise OptionError("the head takes over the decoder's embeddings: leave --share-all-embeddings out")
        words = self.target_dictionary.symbols
        vocabulary = None
        if needs_spellings(settings):
            vocabulary = Vocabulary.of_words(words, ngram_widths(settings), Spelling(settings["spelling_units"]))
        attach_head(model.decoder, settings, vocabulary, self.cfg.init_range, every_entry=True)
        return model

    def get_batch_iterator(self, dataset: Any, **options: Any) -> Any:
        """Return an iterator over the batches; they have all lines of a text that is not the training text.

        fairseq drops the last batch if it is no multiple of ``--required-batch-size-multiple``, and its lines with it.
        """
        if dataset is not self.datasets.get(self.cfg.train_subset):
            options["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, **options)


for registry in (HEADS, EMBEDDINGS):
    registry.listen(functools.partial(widen, "task", TASK))
