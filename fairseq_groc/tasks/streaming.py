"""A task that reads a text as contiguous streams, block by block, whatever fairseq's own batching would do."""

import math
from typing import Any

from fairseq.data import iterators

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.tasks.checks import check_streams
from fairseq_groc.tasks.config import DEFAULT_BLOCK
from fairseq_groc.tasks.line_contexts import LineContextTask


class StreamTask(LineContextTask):
    """How a task's datasets become batches, in training and in scoring."""

    _decoders: list[Any]
    _has_criterion = False  # fairseq-generate builds none, and whatever else reads batches does

    def prepare_scoring(self, dataset: StreamDataset | None = None, generates: bool = False) -> None:
        """Make what a text is scored with, or what is generated from its lines."""
        raise NotImplementedError

    def get_batch_iterator(
        self, dataset: Any, max_tokens: int | None = None, max_sentences: int | None = None, **options: Any
    ) -> Any:
        """Return an iterator over the blocks of all streams; ``max_sentences`` is the number of streams a worker.

        Nothing is filtered, dropped or shuffled: size limits of fairseq's own batching do not apply.

        Args:
            options: fairseq's others
        """
        if not isinstance(dataset, StreamDataset):
            unlimited = {"max_positions": None, "required_batch_size_multiple": 1}
            return super().get_batch_iterator(dataset, max_tokens, max_sentences, **{**options, **unlimited})
        training = dataset.name == self.cfg.train_subset and self._trains
        if training:
            if not max_sentences:
                raise OptionError("--max-tokens alone does not say how many streams to train on: give --batch-size N")
            check_streams(dataset, max_sentences, options.get("num_shards", 1))
        if options.get("skip_remainder_batch"):
            raise OptionError("--skip-remainder-batch drops text, and every token counts here: leave it out")
        if not training:
            self.prepare_scoring(dataset, generates=not self._has_criterion)
        if not self._trains:
            dataset.warn_of_unknown()
        return self._iterate(dataset, max_sentences, training, **options)

    def eval_lm_dataloader(self, dataset: Any, *, batch_size: int | None = None, context_window: int = 0, **options: Any) -> Any:
        """Return the blocks that ``fairseq-eval-lm`` scores: one stream unless ``--batch-size`` says more."""
        if context_window > 0:
            raise OptionError("--context-window is not supported: give longer blocks (--tokens-per-sample). Leave it out.")
        self.prepare_scoring(dataset)
        return self._iterate(dataset, batch_size, **options).next_epoch_itr(shuffle=False)

    def _iterate(self, dataset: StreamDataset, streams: int | None, training: bool = False, **options: Any) -> Any:
        defaults = {"seed": 1, "num_shards": 1, "shard_id": 0, "num_workers": 0, "epoch": 1}
        how = {name: options.get(name, default) for name, default in defaults.items()}
        carries_state = all(decoder.carried for decoder in self._decoders)
        self.check_room()
        plans = dataset.plan(
            how["epoch"],
            streams or 1,
            how["num_shards"],
            self.block_length(running=not dataset.independent_lines),
            vary=training and self.cfg.vary_bptt,
            shuffle=training and (dataset.independent_lines or not carries_state),
            seed=how["seed"],
        )
        return iterators.EpochBatchIterator(
            dataset=dataset,
            collate_fn=dataset.collater,
            batch_sampler=[[plan] for plan in plans],
            buffer_size=options.get("data_buffer_size", 0),
            disable_shuffling=True,
            **how,
        )

    def block_length(self, running: bool = True) -> int:
        """Return the tokens of a stream that are read at a time.

        Args:
            running: lines follow one another; adapters want nothing of others
        """
        if self.cfg.tokens_per_sample < 0:
            raise OptionError(f"--tokens-per-sample {self.cfg.tokens_per_sample}: expected a positive number, or 0")
        wanted = [decoder.adapter_block() for decoder in self._decoders if running]
        if any(wanted):  # an adapter's: what the checkpoint has is no choice of who uses it
            return max(filter(None, wanted))
        if self.cfg.tokens_per_sample > 0:
            return self.cfg.tokens_per_sample
        return self.state.state_dict.get("groc", {}).get("tokens_per_sample", DEFAULT_BLOCK)

    @property
    def room(self) -> float:
        """Positions that all models have."""
        return min((decoder.max_positions() for decoder in self._decoders), default=math.inf)

    def check_room(self) -> None:
        """Refuse blocks that are longer than the model's positions."""
        if self.block_length() > self.room:
            raise OptionError(f"--tokens-per-sample {self.block_length()}: the model has room for {int(self.room)}")
