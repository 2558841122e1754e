"""A task whose models may know the context of a line: from data folder, command line, hub or typed text to batches."""

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from omegaconf import OmegaConf

from fairseq_groc.contexts.arrays import open_contexts
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.data.stream_dataset import LinesForInference, open_text
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.tasks.averaging import AveragingTask

logger = logging.getLogger(__name__)
TYPED = "\t"  # between the context and the text of a line that is typed


class LineContextTask(AveragingTask):
    """What a task does about contexts: know the schema, find a split's contexts, hand over those of generation."""

    dictionary: Any
    schema: Schema | None = None  # of the model; None: it reads no contexts
    _typed: list[Contexts] | None = None  # of lines that were typed
    _batches: deque[dict[str, Any]] = deque()  # of those of them that were put together and not yet read

    def find_schema(self, settings: dict[str, Any], saved: dict[str, Any] | None) -> Schema | None:
        """Return what the model knows of lines: the checkpoint's, or in training that of the data.

        Args:
            settings: of the head
            saved: the schema in the checkpoint
        """
        self.schema = None
        if settings["context_dim"] and saved:
            self.schema = Schema.from_dict(saved)
        elif settings["context_dim"]:
            folder = Path(utils.split_paths(self.cfg.data)[0])
            prefix = folder / self.cfg.train_subset
            lines = open_text(str(prefix), self.dictionary, self.cfg.dataset_impl, combine=False)
            arrays = open_contexts(prefix, lines.sizes)
            names = self.cfg.context_variables.split(",") if self.cfg.context_variables else None
            self.schema = None if arrays is None else Schema.of_training(arrays, self.cfg.context_threshold, names)
        return self.schema

    def contexts_of(self, prefix: Path, lengths: Any) -> Contexts | None:
        """Return the contexts of a split's lines in the model's numbers; None: the model reads none.

        Args:
            prefix: of the text
            lengths: how many tokens each of its lines has

        Raises:
            OptionError: the model reads contexts, and nothing says what they are.
        """
        if self.schema is None:
            return None
        if self.cfg.context:
            return repeated(self.schema.parse(self.cfg.context), len(lengths))
        arrays = open_contexts(prefix, lengths)
        if arrays is None:
            names = ", ".join(one.name for one in self.schema.variables)
            raise OptionError(
                f"{prefix} has no contexts ({names}): preprocess with --context-train, --context-valid and --context-test, or "
                "give --context NAME=VALUE,... for all lines, or --context missing"
            )
        return self.schema.rows(arrays)

    def lines_for_inference(self, tokens: list[Any]) -> LinesForInference:
        """Return lines that are given without a split, in the contexts that were typed, or in one for all of them."""
        typed, self._typed = self._typed, None
        if typed and len(typed) == len(tokens):
            self._batches = deque()
            return TypedLines(tokens, self.dictionary, joined(typed), self._batches)
        one = self.schema.parse(self.cfg.context) if self.schema and self.cfg.context else None
        return LinesForInference(tokens, self.dictionary, one)

    def get_interactive_tokens_and_lengths(self, lines: list[str], encode_fn: Any) -> tuple[list[Any], list[int]]:
        """Encode lines that are typed; what comes before a tab is the line's context: ``topic=sports,year=1990<TAB>text``."""
        if self.schema is not None and any(TYPED in line for line in lines):
            parts = [line.split(TYPED, 1) if TYPED in line else [self.cfg.context or "missing", line] for line in lines]
            self._typed = [self.schema.parse(context) for context, _ in parts]
            lines = [text for _, text in parts]
        made: tuple[list[Any], list[int]] = super().get_interactive_tokens_and_lengths(lines, encode_fn)
        return made

    def build_generator(self, models: Any, args: Any, *others: Any, **more: Any) -> Any:
        """Build fairseq's generator, which takes ``context`` of ``hub.sample`` and ``hub.score`` with it."""
        generator = super().build_generator(models, args, *others, **more)
        given = getattr(args, "context", None)
        generator.contexts = None if given is None else self.contexts_given(given)
        return generator

    def contexts_given(self, given: Any) -> list[Contexts]:
        """Return the contexts that a program gives: one, or a list of them, each a mapping or as the command line has it.

        Raises:
            OptionError: the model reads none, or not these.
        """
        if self.schema is None:
            raise OptionError("context: this model reads none. Leave it out.")
        plain = OmegaConf.to_container(given) if OmegaConf.is_config(given) else given
        return [self.schema.parse(one) for one in (plain if isinstance(plain, list) else [plain])]

    def hand_over(self, generator: Any, decoders: list[Any], sample: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with what the hub said of its lines, and let the decoders know it for the words that they generate."""
        given = getattr(generator, "contexts", None)
        if given is not None:
            numbers = sample["id"].tolist()
            if len(given) > 1 and max(numbers) >= len(given):
                raise DataError(f"context: {len(given)} of them for more lines: give one for all, or one for each")
            chosen = joined([given[number] if len(given) > 1 else given[0] for number in numbers])
            batch = utils.apply_to_sample(lambda values: values.to(sample["id"].device), chosen.of_lines(np.arange(len(numbers))))
            sample = {**sample, "net_input": {**sample["net_input"], "context": batch}}
        context = sample["net_input"].get("context")
        if context is None:
            context = self._batches.popleft() if self._batches else self.default_context()
        for decoder in decoders:
            decoder.given_context = context
        return sample

    def default_context(self) -> dict[str, Any] | None:
        """Return the context that the options give to all lines, as a batch of one line has it; None: they give none."""
        if self.schema is None or not self.cfg.context:
            return None
        return self.schema.parse(self.cfg.context).of_lines(np.zeros(1, np.int64))


class TypedLines(LinesForInference):
    """Lines whose batches fairseq-interactive makes anew, without their contexts: these are put into a queue.

    Args:
        batches: the queue
    """

    def __init__(self, tokens: list[Any], dictionary: Any, contexts: Contexts, batches: deque[dict[str, Any]]):
        super().__init__(tokens, dictionary, contexts)
        self._batches = batches

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super().collater(samples)
        self._batches.append(batch["net_input"].pop("context"))
        return batch


def repeated(context: Contexts, lines: int) -> Contexts:
    """Return one context for so many lines."""
    return context._replace(index=np.zeros(lines, np.int64))


def joined(contexts: Sequence[Contexts]) -> Contexts:
    """Return the contexts of lines from one for each."""
    categories, numbers = (np.concatenate([one[place] for one in contexts]) for place in (0, 1))
    return Contexts(categories, numbers, np.arange(len(contexts)))
