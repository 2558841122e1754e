"""``groc_lstm_lm``: an LSTM language model with any of the package's heads."""

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    FairseqIncrementalDecoder,
    FairseqLanguageModel,
    register_model,
    register_model_architecture,
)
from torch import Tensor, nn

from fairseq_groc.encoders.base import State
from fairseq_groc.encoders.carried import CarriedState
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.errors import OptionError
from fairseq_groc.options import SharedHeadConfig, expect, read_numbers
from fairseq_groc.presets import PRESETS


@dataclass
class GrocLSTMLanguageModelConfig(SharedHeadConfig):  # type: ignore[misc, valid-type]
    """Sizes and dropouts; the defaults are GroC's for Penn Treebank (appendix B.1)."""

    decoder_embed_dim: int = field(default=300, metadata={"help": "embedding size d, also of the last LSTM layer"})
    decoder_hidden_size: int = field(default=1024, metadata={"help": "units of the LSTM layers before the last"})
    decoder_layers: int = field(default=2, metadata={"help": "number of LSTM layers"})
    dropout: float = field(default=0.65, metadata={"help": "variational dropout between LSTM layers"})
    dropout_in: float = field(default=0.4, metadata={"help": "variational dropout of the input embeddings"})
    dropout_out: float = field(default=0.0, metadata={"help": "variational dropout of the last LSTM layer"})


@register_model("groc_lstm_lm", dataclass=GrocLSTMLanguageModelConfig)
class GrocLSTMLanguageModel(FairseqLanguageModel):
    """An LSTM language model whose vocabulary is the task's, not its own."""

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model for the task's dictionary; the task gives it its head.

        Raises:
            OptionError: the task is not ``wordnet_lexicon``, or a size that no model has.
        """
        _require_task(hasattr(task, "adapter_for"), type(task).__name__)
        for name in ("decoder_embed_dim", "decoder_hidden_size", "decoder_layers"):
            expect(name, getattr(cfg, name), low=1)
        for name in ("dropout", "dropout_in", "dropout_out"):
            expect(name, getattr(cfg, name), low=0, high=1)
        return cls(GrocLSTMDecoder(task.dictionary, cfg))

    def get_targets(self, sample, net_output):
        return sample["target"]


class GrocLSTMDecoder(FairseqIncrementalDecoder):
    """Embedding, LSTM, logits. Embedding and logits are empty until ``attach_head`` puts the task's in their place."""

    def __init__(self, dictionary, cfg):
        super().__init__(dictionary)
        dim, size = cfg.decoder_embed_dim, len(dictionary)
        self.embed_tokens = nn.Embedding(size, dim, dictionary.pad(), device="meta")
        self.encoder = LSTMEncoder(dim, cfg.decoder_hidden_size, cfg.decoder_layers, cfg.dropout, cfg.dropout_in, cfg.dropout_out)
        self.output_projection = nn.Linear(dim, size, device="meta")
        self.carried = {True: CarriedState(), False: CarriedState()}  # in training, in evaluation
        for parameter in self.encoder.parameters():
            parameter.data.uniform_(-cfg.init_range, cfg.init_range)

    def forward(self, prev_output_tokens: Tensor, encoder_out=None, incremental_state=None, src_lengths=None, block=None):
        """Return logits (B, T, V), -inf for impossible words.

        The second value has the encodings ``features`` h (B, T, d).

        Args:
            prev_output_tokens: (B, T)
            incremental_state: in generation; then only the last token is read
            block: which block of a text this is, if the state is carried; otherwise it begins at zero
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.embed_tokens(prev_output_tokens.t())  # (T, B, d)
        before = self._state_before(block, incremental_state, x.size(1))
        h, after = self.encoder(x, before)  # (T, B, d)
        self._keep_state(block, incremental_state, after)
        h = h.transpose(0, 1)  # (B, T, d)
        return self.output_projection(h), {"attn": None, "features": h}

    def _state_before(self, block, incremental_state, batch_size: int) -> Optional[State]:
        if incremental_state is not None:
            cached = self.get_incremental_state(incremental_state, "lstm")
            return None if cached is None else _unpack(cached)
        return self.carried[self.training].before(block, batch_size) if block is not None else None

    def _keep_state(self, block, incremental_state, after: State) -> None:
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "lstm", _pack(after))
        elif block is not None:
            self.carried[self.training].after(block, after)

    def reorder_incremental_state(self, incremental_state, new_order: Tensor) -> None:
        cached = self.get_incremental_state(incremental_state, "lstm")
        if cached is not None:
            moved = {name: value.index_select(1, new_order) for name, value in cached.items()}
            self.set_incremental_state(incremental_state, "lstm", moved)

    def max_positions(self) -> int:
        return int(1e9)  # recurrent: any length


def _pack(state: State) -> Dict[str, Tensor]:
    return {f"{name}{i}": value for i, pair in enumerate(state) for name, value in zip("hc", pair)}


def _unpack(cached: Dict[str, Tensor]) -> State:
    layers: List = [(cached[f"h{i}"], cached[f"c{i}"]) for i in range(len(cached) // 2)]
    return layers


def _require_task(fits: bool, task: str) -> None:
    if not fits:
        raise OptionError(f"--arch groc_lstm_lm works with --task wordnet_lexicon, not with {task}: give --task wordnet_lexicon")


def _architecture(options: dict):
    def apply(args) -> None:
        if hasattr(args, "task"):
            _require_task(args.task == "wordnet_lexicon", f"--task {args.task}")
        read_numbers(args)
        for name, value in options.items():
            setattr(args, name, getattr(args, name, value))

    return apply


ARCH_CONFIG_REGISTRY["groc_lstm_lm"] = _architecture({})  # so that the task is checked here too
for _name, _preset in PRESETS.items():
    register_model_architecture("groc_lstm_lm", _name)(_architecture(_preset.options))
