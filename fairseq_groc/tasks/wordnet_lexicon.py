"""``wordnet_lexicon``: language modelling over streams, with lexicon tables beside the dictionary."""

import functools
import logging
from collections import deque
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import ConcatDataset, Dictionary
from fairseq.distributed.utils import get_global_rank, get_global_world_size
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task

from fairseq_groc.adapters import ADAPTERS, Adapter, AdapterSettings
from fairseq_groc.data.fingerprint import check_dictionary, folder_dictionary
from fairseq_groc.data.stream_dataset import LinesForInference, StreamDataset, open_text
from fairseq_groc.embeddings import EMBEDDINGS
from fairseq_groc.embeddings.rows import NewRows
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.stored import tuned_adapters
from fairseq_groc.heads import HEADS
from fairseq_groc.logs import NOTICE
from fairseq_groc.models.attaching import attach_head
from fairseq_groc.models.building import embedding_of
from fairseq_groc.models.changing_vocabulary import offer_vocabulary_changes
from fairseq_groc.options import head_settings, refuse_unused_of_task, widen
from fairseq_groc.tasks.adapting import check_text, make_adapter, report_impossible
from fairseq_groc.tasks.building import (
    begin_corrections,
    complete,
    computation_of,
    lexicon_vocabulary,
    slowed,
    warn_of_empty_parts,
    with_bf16_products,
)
from fairseq_groc.tasks.checks import check_criterion, check_machine, check_needed, check_training, check_updates, check_use
from fairseq_groc.tasks.config import DEFAULT_BLOCK, TASK, WordnetLexiconConfig
from fairseq_groc.tasks.generation import prefix_of, whole_lines
from fairseq_groc.tasks.resuming import ResumedTask, mend_before_resuming
from fairseq_groc.tasks.streaming import StreamTask
from fairseq_groc.tasks.workers import early_stop, forget_earlier_training, gather

logger = logging.getLogger(__name__)


@register_task(TASK, dataclass=WordnetLexiconConfig)
class WordnetLexiconTask(StreamTask, ResumedTask):
    """Streams of words, each predicted exactly once; the vocabulary is whatever ``dict.txt`` says."""

    def __init__(self, cfg: WordnetLexiconConfig, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self._batches = deque()
        self._decoders: list[Any] = []
        self._prepared: list[Any] = []  # those that have their adapters
        self._trains = True  # not, if the model comes from a checkpoint to be used
        self._block_lengths: list[int] = []
        self._typed_block = 0  # --tokens-per-sample of who scores, not of a checkpoint
        self.composed_lr_scale = 1.0

    @classmethod
    def setup_task(cls, cfg: WordnetLexiconConfig, **kwargs: Any) -> "WordnetLexiconTask":
        """Load the dictionary.

        Raises:
            DataError, OptionError: no data folder, or options that this machine cannot run.
        """
        if not kwargs.get("from_checkpoint"):  # how a model was trained binds nobody who uses it
            check_machine(cfg)
            check_updates(cfg)
            check_needed(cfg)
        check_use(cfg)
        if not cfg.data:
            raise DataError("no data folder given, or it does not exist: fairseq-train DIR --task wordnet_lexicon ...")
        dictionary = folder_dictionary(Path(utils.split_paths(cfg.data)[0]))
        logger.info(f"dictionary: {len(dictionary)} types")
        task = cls(cfg, dictionary)
        task._typed_block = 0 if kwargs.get("from_checkpoint") else cfg.tokens_per_sample
        return task

    # -- model ---------------------------------------------------------------------------------------------------

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build any language model of fairseq's and give it its head; its settings are the checkpoint's in evaluation.

        Raises:
            OptionError: options that no head has, or a model that cannot have one.
        """
        saved = self.state.state_dict.get("groc", {}) if from_checkpoint else {}
        self._trains = not from_checkpoint
        if self._trains:
            check_training(self.cfg)
            forget_earlier_training()
            mend_before_resuming(self.cfg)
        else:
            complete(cfg, self.cfg)
        options = cfg if self._trains and hasattr(cfg, "output_head") else self.cfg
        settings = head_settings(options, saved.get("head"))
        if self._trains and options is self.cfg:
            refuse_unused_of_task(self.cfg, TASK)
        schema = self.find_schema(settings, saved.get("context"))
        if self._trains:
            self.check_context()
            block = self.cfg.tokens_per_sample or DEFAULT_BLOCK
            known = {} if schema is None else {"context": schema.as_dict()}
            how = {"adapters": AdapterSettings.of(self.cfg).acting(), "lines": str(self.cfg.sample_break_mode) == "eos"}
            self.state.merge_state_dict({"groc": {"tokens_per_sample": block, "head": settings, **how, **known}})
            if getattr(cfg, "tokens_per_sample", block) == 0:
                cfg.tokens_per_sample = block  # models that number positions make room for so many
        model = super().build_model(cfg, from_checkpoint)
        if not hasattr(model, "decoder") or hasattr(model, "encoder"):
            raise OptionError(f"--task wordnet_lexicon trains language models, and {type(model).__name__} is none")
        vocabulary, tables = lexicon_vocabulary(self.cfg, self.dictionary, settings)
        computation = computation_of(self.cfg, embedding_of(settings))
        new_rows = NewRows(self.cfg.draw_new_rows, options.init_range if self._trains else 0.0)
        attach_head(model.decoder, settings, vocabulary, options.init_range, new_rows=new_rows, schema=schema, **computation)
        model.decoder.any_lexicon = self.cfg.any_lexicon
        if not self._trains:
            model.decoder.keep_fingerprints()
        if tables is not None:
            model.decoder.origin, model.decoder.made = tables.origin, tables.word_digests()
            if self._trains:
                warn_of_empty_parts(tables, settings)
        self.composed_lr_scale = options.composed_lr_scale
        if self._trains and self.composed_lr_scale < 1 and (self.cfg.fp16 or self.cfg.bf16):
            raise OptionError("--composed-lr-scale cannot slow the parameter copies of --fp16 and bf16: use --amp")
        if self._trains and model.decoder.matrices.corrections is not None:
            begin_corrections(model.decoder.matrices.corrections, self.cfg, self.dictionary)
        model.decoder.given_context = self.default_context()
        offer_vocabulary_changes(model)
        self._decoders.append(model.decoder)
        return model

    def adapter_for(self, decoder: Any, settings: AdapterSettings) -> Adapter:
        """Return what some settings make of a trained model's probabilities."""
        return make_adapter(self.cfg, decoder, settings)

    def prepare_scoring(self, dataset: StreamDataset | None = None, generates: bool = False) -> None:
        """Take the adapters that the options say, or else those that were tuned for this very model and data.

        A loaded model gets them once: words that are added later change nothing in that. A model in training has none that
        were tuned.
        """
        self.check_context()
        given, trained = AdapterSettings.of(self.cfg), self.state.state_dict.get("groc", {})
        folder = Path(utils.split_paths(self.cfg.data)[0])
        for decoder in self._decoders:
            if decoder not in self._prepared:
                self._prepared.append(decoder)
                if not self._trains and given.active() and given.acting() == trained.get("adapters"):
                    logger.log(NOTICE, f"adapters as in training: {given.shown()}")
                fixed = given.active() or self.cfg.no_tuned_adapters or self._trains
                chosen = given if fixed else tuned_adapters(folder, decoder) or given
                decoder.adapter = self.adapter_for(decoder, chosen) if chosen.active() else None
            if dataset is not None:
                check_text(self.cfg, decoder.adapter, dataset, generates)
                if not dataset.independent_lines:
                    decoder.adapter_block(self._typed_block)
                    if trained.get("lines") and not self._trains:
                        logger.log(NOTICE, f"the model was trained on lines by themselves; '{dataset.name}' is a running text")
                if not (decoder.adapter and decoder.adapter.settings.uniform_weight):
                    report_impossible(decoder, dataset)

    # -- data ----------------------------------------------------------------------------------------------------

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        paths = utils.split_paths(self.cfg.data)
        folder = Path(paths[(epoch - 1) % len(paths)])
        check_dictionary(folder, self.dictionary.symbols)
        path = folder / split
        lines = open_text(path, combine)
        independent = str(self.cfg.sample_break_mode) == "eos"
        if isinstance(lines, ConcatDataset) and self.schema is not None and not self.cfg.context:
            raise OptionError(f"{path} has further parts, and contexts are of one text each: name the texts (--valid-subset)")
        contexts = self.contexts_of(path, lines.sizes)
        self.datasets[split] = StreamDataset(lines, split, self.dictionary, independent, contexts)
        logger.info(f"{path}: {len(lines):,} lines, {self.datasets[split].num_tokens_total:,} tokens")

    def build_dataset_for_inference(self, src_tokens: Any, src_lengths: Any, **kwargs: Any) -> LinesForInference:
        self.prepare_scoring()
        longest = max(map(len, src_tokens), default=0)
        if longest > self.room:
            raise OptionError(
                f"a line of {longest:,} tokens, and the model has room for {self.room:,}: `score` reads it in blocks"
            )
        return self.lines_for_inference(list(src_tokens))

    def build_criterion(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build fairseq's criterion.

        Raises:
            OptionError: one that does not go with these models.
        """
        check_criterion(cfg)
        self._has_criterion = True
        return super().build_criterion(cfg, *args, **kwargs)

    # -- steps ---------------------------------------------------------------------------------------------------

    def train_step(
        self, sample: dict[str, Any], model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> Any:
        self.prepare_step(optimizer)
        block = sample["net_input"].get("block")
        tokens = torch.cat([sample["net_input"]["src_tokens"].flatten(), sample["target"].flatten()])
        self._decoders[-1].matrices.begin_step(update_num, tokens)
        if self._decoders[-1].carried:
            self._decoders[-1].carried[True].begin_update(update_num)
        if all(parameter.grad is None for parameter in model.parameters()):
            self._block_lengths.clear()  # those of an attempt that fp16 or AMP gave up
        if ignore_grad:  # a dummy batch: it must not touch the carried state
            net_input = {k: v for k, v in sample["net_input"].items() if k != "block"}
            sample = {**sample, "net_input": net_input}
        elif block is not None:
            self._block_lengths.append(block.end - block.begin)
        if self.cfg.autocast_bf16:  # around the criterion: fairseq's step turns autocast off on GPUs
            criterion = with_bf16_products(criterion)
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Step; a frozen step leaves word embeddings and head as they are, others slow what composes them."""
        matrices = self._decoders[-1].matrices
        if matrices.is_frozen():
            for parameter in matrices.parameters():
                parameter.grad = None  # not zero, or the momentum would move it
        with slowed(matrices.embedding, self.composed_lr_scale):
            self._step(optimizer, model, update_num)

    def _step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Step, with the learning rate scaled by the blocks' lengths if they vary (Merity et al. 2018, section 4.1)."""
        lengths, self._block_lengths = self._block_lengths, []
        if not self.cfg.vary_bptt or not lengths:
            return super().optimizer_step(optimizer, model, update_num)
        lr = optimizer.get_lr()
        optimizer.set_lr(lr * sum(lengths) / len(lengths) / self.block_length())
        try:
            super().optimizer_step(optimizer, model, update_num)
        finally:
            optimizer.set_lr(lr)

    def inference_step(
        self, generator: Any, models: Any, sample: dict[str, Any], prefix_tokens: Any = None, constraints: Any = None
    ) -> Any:
        if constraints is not None:
            raise OptionError("constrained decoding is not supported for language models")
        with torch.no_grad(), self.generating(self._decoders, sample):
            if not isinstance(generator, SequenceScorer):
                prefix_tokens = prefix_of(sample, prefix_tokens, self.dictionary, self.room)
            elif "block" in sample["net_input"]:  # --score-reference
                whole_lines(sample, self.dictionary)
            return generator.generate(models, sample, prefix_tokens=prefix_tokens, bos_token=self.dictionary.eos())

    # -- resuming ------------------------------------------------------------------------------------------------

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Gather the states that the workers carry, since only the first worker saves."""
        super().begin_valid_epoch(epoch, model)
        self._gathered = gather(self._carried())

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """Return what fairseq does not save: carried states and the counter of ``--patience``."""
        workers = [self._carried(), *(getattr(self, "_gathered", None) or [])[1:]]
        return {**super().get_checkpoint_dict(), type(self).__name__: {"workers": workers, "early_stop": dict(early_stop())}}

    def _carried(self) -> dict[str, Any]:
        carried = self._decoders[-1].carried
        return {"carried": carried[True].state_dict() if carried else {}}

    def set_checkpoint_dict(self, saved: dict[str, Any]) -> None:
        decoder = self._decoders[-1]
        rank, world, workers = get_global_rank(), get_global_world_size(), saved["workers"]
        if decoder.carried and len(workers) == world:
            parameter = next(decoder.parameters())
            decoder.carried[True].load_state_dict(workers[rank]["carried"], parameter.device, parameter.dtype)
        elif decoder.carried:
            logger.warning(f"states of {len(workers)} workers were saved, {world} resume: streams begin from zero")
        early_stop().update(saved["early_stop"])

    @property
    def source_dictionary(self) -> Any:
        """The dictionary by the names that fairseq looks for, its convolutional language models by the last one."""
        return self.dictionary

    target_dictionary = output_dictionary = source_dictionary


for registry in (ADAPTERS, HEADS, EMBEDDINGS):
    registry.listen(functools.partial(widen, "task", TASK))
