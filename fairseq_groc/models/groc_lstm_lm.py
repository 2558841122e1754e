"""``groc_lstm_lm``: an LSTM language model with any of the package's heads."""

import functools
from collections.abc import Callable, Set
from dataclasses import dataclass, make_dataclass
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    FairseqIncrementalDecoder,
    FairseqLanguageModel,
    register_model,
    register_model_architecture,
)
from torch import Tensor, nn

from fairseq_groc.data.streams import Block
from fairseq_groc.embeddings import EMBEDDINGS
from fairseq_groc.encoders import ENCODERS, LineContexts, PrefixEncoder, State
from fairseq_groc.encoders.carried import CarriedState, in_type, reordered, streams_of
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.options import (
    COMMON,
    SHARED_OPTIONS,
    TRAINING,
    SharedHeadConfig,
    as_fields,
    described,
    options_of,
    read_numbers,
    refuse_unused,
    refuse_without_contexts,
    widen,
)
from fairseq_groc.presets import PRESETS
from fairseq_groc.registry import check_options, expect


@dataclass
class SizeConfig(SharedHeadConfig):
    """What every model has besides its word embedding and head."""

    decoder_embed_dim: int = described(300, "embedding size d")
    prefix_encoder: str = described("lstm", f"what reads the text: {', '.join(ENCODERS)}")


GrocLSTMLanguageModelConfig = make_dataclass("GrocLSTMLanguageModelConfig", as_fields(ENCODERS.options), bases=(SizeConfig,))


@register_model("groc_lstm_lm", dataclass=GrocLSTMLanguageModelConfig)
class GrocLSTMLanguageModel(FairseqLanguageModel):
    """An LSTM language model whose vocabulary is the task's, not its own."""

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "GrocLSTMLanguageModel":
        """Build the model for the task's dictionary; the task gives it its head.

        Raises:
            OptionError: the task is not ``wordnet_lexicon``, or a size that no model has.
        """
        _require_task(hasattr(task, "adapter_for"), type(task).__name__)
        return cls(GrocLSTMDecoder(task.dictionary, cfg))


def build_encoder(cfg: Any) -> PrefixEncoder:
    """Return the prefix encoder that the options of a model ask for.

    Raises:
        OptionError: there is none of that name, a value that it does not take, or it does not say how wide h is.
    """
    name = getattr(cfg, "prefix_encoder", "lstm")  # a checkpoint may be older than an option
    kind, options = ENCODERS.find(name), ENCODERS.taken[name]
    settings = {option: getattr(cfg, option, value.default) for option, value in options.items()}
    check_options(options, settings)
    settings |= {option: getattr(cfg, option, COMMON[option].default) for option in ("context_dim", "context_adaptation")}
    encoder = kind.from_settings(cfg.decoder_embed_dim, settings)
    if not isinstance(getattr(encoder, "width", None), int):
        raise OptionError(f"--prefix-encoder {name}: it has no width. Set self.width, the size of h, when it is made.")
    return encoder


class GrocLSTMDecoder(FairseqIncrementalDecoder):
    """Embedding, prefix encoder, logits. Embedding and logits are empty until ``attach_head`` puts the task's in their place."""

    def __init__(self, dictionary: Any, cfg: Any) -> None:
        super().__init__(dictionary)
        expect("count", decoder_embed_dim=cfg.decoder_embed_dim)
        encoder = build_encoder(cfg)
        self.embed_tokens = nn.Embedding(len(dictionary), cfg.decoder_embed_dim, dictionary.pad(), device="meta")
        self.encoder = encoder
        self.output_projection = nn.Linear(encoder.width, len(dictionary), device="meta")
        self.carried = {True: CarriedState(), False: CarriedState()}  # in training, in evaluation
        encoder.begin(cfg.init_range)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: dict[str, Any] | None = None,
        src_lengths: Any = None,
        block: Block | None = None,
        context: LineContexts | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return logits (B, T, V), -inf for impossible words.

        The second value has the encodings ``features``, h (B, T, width), and ``last``, what they were before dropout.

        Args:
            prev_output_tokens: (B, T)
            incremental_state: in generation; then only the last token is read
            block: which block of a text this is, if the state is carried; otherwise it begins at zero
            context: of the lines, for an encoder that takes it
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.embed_tokens(prev_output_tokens).transpose(0, 1)  # (T, B, d)
        before = self._state_before(block, incremental_state, x.size(1))
        h, last, after = self._read(x, before, context)  # (T, B, width)
        self._keep_state(block, incremental_state, after)
        h = h.transpose(0, 1)  # (B, T, width)
        return self.output_projection(h), {"attn": None, "features": h, "last": last.transpose(0, 1)}

    def _read(self, x: Tensor, before: State | None, context: LineContexts | None) -> tuple[Tensor, Tensor, State]:
        read = self.encoder(x, before, context)
        shape = (*x.shape[:2], self.encoder.width)
        fits = isinstance(read, tuple) and len(read) == 3 and all(getattr(h, "shape", None) == shape for h in read[:2])
        if not (fits and streams_of(read[2]) <= {(x.size(1),)}):
            expected = f"(h, h before its dropout, the state after it): {shape} twice, and tensors (n, {x.size(1)}, ...)"
            raise OptionError(f"{type(self.encoder).__name__}.forward: expected {expected}")
        return read

    def _state_before(self, block: Block | None, incremental_state: dict[str, Any] | None, batch_size: int) -> State | None:
        if incremental_state is not None:
            return self._incremental(incremental_state).get("state")
        return self.carried[self.training].before(block, batch_size) if block is not None else None

    def _keep_state(self, block: Block | None, incremental_state: dict[str, Any] | None, after: State) -> None:
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "encoder", {"state": after})
        elif block is not None:
            dtype = next(self.parameters()).dtype  # autocast rounds states: what is resumed goes on from the type that is saved
            self.carried[self.training].after(block, in_type(after, dtype))

    def reorder_incremental_state(self, incremental_state: dict[str, Any] | None, new_order: Tensor) -> None:
        cached = self._incremental(incremental_state)
        self.set_incremental_state(incremental_state, "encoder", reordered(cached, new_order))

    def _incremental(self, incremental_state: dict[str, Any] | None) -> Any:
        return self.get_incremental_state(incremental_state, "encoder") or {}

    def max_positions(self) -> int:
        return int(1e9)  # recurrent: any length


def _require_task(fits: bool, task: str) -> None:
    if not fits:
        raise OptionError(f"--arch groc_lstm_lm works with --task wordnet_lexicon, not with {task}: give --task wordnet_lexicon")


def _architecture(options: dict[str, Any]) -> Callable[[Any], None]:
    def apply(args: Any) -> None:
        typed = set(vars(args)) if hasattr(args, "task") else set()  # else it is no command line, and has every option
        if typed:
            _require_task(args.task == "wordnet_lexicon", f"--task {args.task}")
        read_numbers(args)
        for name, value in options.items():
            setattr(args, name, getattr(args, name, value))
        if typed:
            _refuse_unused(args, typed)

    return apply


def _refuse_unused(args: Any, typed: Set[str]) -> None:
    """Refuse what is typed for nothing; what a preset has may be for another head than the one that is typed."""
    head = getattr(args, "output_head", COMMON["output_head"].default)
    encoder = getattr(args, "prefix_encoder", "lstm")
    if head in HEADS:  # else the task says so
        refuse_unused(typed & SHARED_OPTIONS.keys(), {**TRAINING, **options_of(head)}, f"--output-head {head}")
    ENCODERS.find(encoder)
    refuse_unused(typed & ENCODERS.options.keys(), ENCODERS.taken[encoder], f"--prefix-encoder {encoder}")
    refuse_without_contexts(sorted(typed & (SHARED_OPTIONS.keys() | ENCODERS.options.keys())), args)


ARCH_CONFIG_REGISTRY["groc_lstm_lm"] = _architecture({})  # so that the task is checked here too
for _name, _preset in PRESETS.items():
    register_model_architecture("groc_lstm_lm", _name)(_architecture(_preset.options))
for registry in (HEADS, EMBEDDINGS):
    registry.listen(functools.partial(widen, "model", "groc_lstm_lm", of_task=True))
ENCODERS.listen(functools.partial(widen, "model", "groc_lstm_lm"))
