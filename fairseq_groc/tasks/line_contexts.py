"""A task whose models may know the context of a line: from data folder, command line, hub or typed text to batches."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from omegaconf import OmegaConf

from fairseq_groc.contexts.arrays import open_contexts, path_of
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.data.stream_dataset import LinesForInference, open_text
from fairseq_groc.errors import OptionError, shown
from fairseq_groc.tasks.averaging import AveragingTask

logger = logging.getLogger(__name__)
TYPED = "\t"  # between the context and the text of a line that is typed


class LineContextTask(AveragingTask):
    """What a task does about contexts: know the schema, find a split's contexts, hand over those of generation."""

    dictionary: Any
    _trains: bool
    schema: Schema | None = None  # of the models that read contexts; None: none does
    _given: list[Contexts] | None = None  # of the lines that the hub gives next, or of all of them
    _typed: list[Contexts] | None = None  # of lines that were typed
    _batches: deque[dict[str, Any]]  # of those of them that were put together and not yet read

    def find_schema(self, settings: dict[str, Any], saved: dict[str, Any] | None) -> Schema | None:
        """Return what a model knows of lines: the checkpoint's, or in training that of the data.

        Args:
            settings: of the head
            saved: the schema in the checkpoint

        Raises:
            OptionError: the models of an ensemble know other variables or values.
        """
        if not settings["context_dim"]:
            return None
        schema = Schema.from_dict(saved) if saved else self._schema_of_data()
        if schema is not None and self.schema not in (None, schema):
            raise OptionError(
                "the models of an ensemble have numbered contexts each in its own way: give models of one training text and "
                "the same --context-variables and --context-threshold"
            )
        self.schema = self.schema or schema
        return schema

    def _schema_of_data(self) -> Schema | None:
        folder = Path(utils.split_paths(self.cfg.data)[0])
        prefix = folder / self.cfg.train_subset
        lines = open_text(prefix)
        arrays = open_contexts(prefix, lines.sizes)
        names = self.cfg.context_variables.split(",") if self.cfg.context_variables else None
        return None if arrays is None else Schema.of_training(arrays, self.cfg.context_threshold, names)

    def check_context(self) -> None:
        """Refuse a context for models that read none, and in training what says how they are read.

        Raises:
            OptionError: with the first of these options.
        """
        if self.schema is not None:
            return
        if self.cfg.context:
            raise OptionError(f"--context {self.cfg.context}: this model reads none (--context-dim 0). Leave it out.")
        for option, given in (("variables", self.cfg.context_variables), ("threshold", self.cfg.context_threshold > 1)):
            if given and self._trains:
                raise OptionError(f"--context-{option} does nothing without --context-dim: give both, or leave it out")

    def contexts_of(self, prefix: Path, lengths: Any) -> Contexts | None:
        """Return the contexts of a split's lines in the model's numbers; None: the model reads none.

        Args:
            prefix: of the text
            lengths: how many tokens each of its lines has

        Raises:
            OptionError: the model reads contexts, and nothing says what they are.
        """
        if self.schema is None:
            if path_of(prefix).exists():
                level = logging.WARNING if self._trains else logging.INFO
                logger.log(level, f"{prefix}: the contexts of its lines are not read (--context-dim 0)")
            return None
        if self.cfg.context:
            return self.schema.parse(self.cfg.context)
        arrays = open_contexts(prefix, lengths)
        if arrays is None:
            names = ", ".join(one.name for one in self.schema.variables)
            raise OptionError(
                f"{prefix} has no contexts ({names}): preprocess with --context-train, --context-valid and --context-test, or "
                "give --context NAME=VALUE,... for all lines, or --context missing"
            )
        return self.schema.rows(arrays)

    def lines_for_inference(self, tokens: list[Any]) -> LinesForInference:
        """Return lines that are given without a split, in the contexts that came with them, or in one for all of them."""
        typed, given, self._typed, self._given, self._batches = self._typed, self._given, None, None, deque()
        if typed:
            return TypedLines(tokens, self.dictionary, Contexts.joined(typed), self._batches)
        if given is None and self.schema and self.cfg.context:
            given = [self.schema.parse(self.cfg.context)]
        return LinesForInference(tokens, self.dictionary, None if given is None else Contexts.joined(given))

    def get_interactive_tokens_and_lengths(self, lines: list[str], encode_fn: Any) -> tuple[list[Any], list[int]]:
        """Encode lines that are typed; what comes before a tab is the line's context: ``topic=sports,year=1990<TAB>text``.

        Raises:
            OptionError: a line without one, and no option says what it has.
        """
        if self.schema is not None:
            parts = [line.split(TYPED, 1) if TYPED in line else [self.cfg.context or "", line] for line in lines]
            if lacking := [text for context, text in parts if not context]:
                raise OptionError(
                    f"{shown(lacking[0])}: expected NAME=VALUE,... and a tab before it, or --context for such lines"
                )
            self._typed = [*map(self.schema.parser(), (context for context, _ in parts))]
            lines = [text for _, text in parts]
        return super().get_interactive_tokens_and_lengths(lines, encode_fn)

    def build_generator(self, models: Any, args: Any, *others: Any, **more: Any) -> Any:
        """Build fairseq's generator; ``context`` of ``hub.sample`` and ``hub.score`` is kept for the lines that come."""
        given = getattr(args, "context", None)
        self._given = None if given is None else self.contexts_given(given)
        return super().build_generator(models, args, *others, **more)

    def contexts_given(self, given: Any) -> list[Contexts]:
        """Return the contexts that a program gives: one, or a list of them, each a mapping or as the command line has it.

        Raises:
            OptionError: the model reads none, or not these.
        """
        if self.schema is None:
            raise OptionError("context: this model reads none. Leave it out.")
        plain = OmegaConf.to_container(given) if OmegaConf.is_config(given) else given
        contexts = plain if isinstance(plain, list) else [plain]
        if not contexts or not all(isinstance(one, (str, dict)) for one in contexts):
            raise OptionError(
                f"context {shown(str(plain))}: expected {{NAME: VALUE, ...}} for all lines, or a list with one for each"
            )
        return [*map(self.schema.parser(), contexts)]

    @contextmanager
    def generating(self, decoders: list[Any], sample: dict[str, Any]) -> Iterator[None]:
        """Let decoders know the contexts of a batch's lines for the words that they generate."""
        context = sample["net_input"].get("context")
        if context is None:
            context = self._batches.popleft() if self._batches else self.default_context()
        elif context["index"].dim() == 2:  # of the positions of a text: each row is a line of its own, or cannot be gone on from
            context = {**context, "index": context["index"][:, 0]}
        for decoder in decoders:
            decoder.given_context = context
        try:
            yield
        finally:
            for decoder in decoders:
                decoder.given_context = self.default_context()

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
