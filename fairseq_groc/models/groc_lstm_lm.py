"""``groc_lstm_lm``: an LSTM language model with any of the package's heads."""

import logging
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    FairseqIncrementalDecoder,
    FairseqLanguageModel,
    register_model,
    register_model_architecture,
)
from torch import Tensor

from fairseq_groc.data.carried import CarriedState
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.build import build_embedding, build_head
from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.modules.heads import LOG_ZERO, OutputHead, uniform_mixture, uniform_mixture_at
from fairseq_groc.modules.lstm import LSTMEncoder, State
from fairseq_groc.modules.softmax_layer import WordMatrices
from fairseq_groc.options import OPTIONS_VERSION, PRESETS, SharedHeadConfig, head_settings

logger = logging.getLogger(__name__)
INIT_RANGE = 0.05  # GroC, appendix B.1


@dataclass
class GrocLSTMLanguageModelConfig(SharedHeadConfig):
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
        """Build the model for the task's dictionary.

        Raises:
            OptionError: the task is not ``wordnet_lexicon``.
        """
        _require_task(getattr(task, "lexicon_vocabulary", None) is not None, type(task).__name__)
        return cls(GrocLSTMDecoder(task.dictionary, task.lexicon_vocabulary, cfg))

    def get_targets(self, sample, net_output):
        return sample["target"]


class GrocLSTMDecoder(FairseqIncrementalDecoder):
    """E_in, LSTM, E_out: the three parts know nothing of each other."""

    def __init__(self, dictionary, lexicon_vocabulary, cfg):
        super().__init__(dictionary)
        settings = head_settings(cfg)
        dim, words = cfg.decoder_embed_dim, dictionary.symbols
        keys = ("output_head", "char_embed_dim", "char_filters", "highway_layers")
        embedding = build_embedding(words=words, dim=dim, **{k: settings[k] for k in keys})
        keys = ("output_head", "output_depth", "output_activation", "output_dropout", "bias_activation")
        head = build_head(words=words, dim=dim, **{k: settings[k] for k in keys})
        compositional = settings["output_head"] == "compositional_output"
        vocabulary = lexicon_vocabulary(settings["char_filters"]) if compositional else None
        self.words = WordMatrices(embedding, head, vocabulary, impossible_words(dictionary))
        self.encoder = LSTMEncoder(dim, cfg.decoder_hidden_size, cfg.decoder_layers, cfg.dropout, cfg.dropout_in, cfg.dropout_out)
        self.output_dropout = VariationalDropout(settings["output_dropout"], shared=(0, 1))
        self.settings = settings
        self.carried = {True: CarriedState(), False: CarriedState()}  # in training, in evaluation
        self.uniform_weight = 0.0
        self.lexicon: Optional[str] = None  # fingerprint of the lexicon that the vocabulary's tables come from
        self.any_lexicon = False
        self._initialise(head)

    def _initialise(self, head: OutputHead) -> None:
        for module in (self.encoder, head, self.words.embedding):
            if module is not self.words.embedding or self.words.vocabulary is None:
                for parameter in module.parameters():
                    parameter.data.uniform_(-INIT_RANGE, INIT_RANGE)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out=None,
        incremental_state=None,
        src_lengths=None,
        block=None,
        features_only=False,
    ):
        """Return logits (B, T, V), -inf for impossible words, or with ``features_only`` the encodings h (B, T, d).

        The second value has what the logits are made of: ``features`` h, ``outputs`` (V, d), ``bias`` (V).

        Args:
            prev_output_tokens: (B, T)
            incremental_state: in generation; then only the last token is read
            block: which block of a text this is, if the state is carried; otherwise it begins at zero
            features_only: leave the logits to the caller
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        inputs, outputs, bias = self.words()
        x = F.embedding(prev_output_tokens.t(), inputs)  # (T, B, d)
        before = self._state_before(block, incremental_state, x.size(1))
        h, after = self.encoder(x, before)  # (T, B, d)
        self._keep_state(block, incremental_state, after)
        h = self.output_dropout(h.transpose(0, 1))  # (B, T, d)
        extra = {"attn": None, "features": h, "outputs": outputs, "bias": bias}
        return (h if features_only else F.linear(h, outputs, bias)), extra

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

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return the (log-)probabilities of the adapted model, (..., V); an impossible word has LOG_ZERO."""
        lprobs = F.log_softmax(net_output[0].float(), dim=-1)
        if not self.training:
            if self.uniform_weight > 0:
                lprobs = uniform_mixture(lprobs, self.uniform_weight, self._real_words(lprobs.device))
            lprobs = lprobs.clamp_(min=LOG_ZERO)
        return lprobs if log_probs else lprobs.exp_()

    def adapted_losses(self, losses: Tensor, targets: Tensor) -> Tensor:
        """Return -log p of the adapted model from that of the model, (N), for a loss that never sees the other words."""
        if self.training:
            return losses
        if self.uniform_weight > 0:
            words = self._real_words(losses.device)
            losses = uniform_mixture_at(losses, self.uniform_weight, words, targets)
        return losses.clamp(max=-LOG_ZERO)

    def _real_words(self, device) -> Tensor:
        words = ~self.words.impossible
        words[: self.dictionary.nspecial] = False
        return words.to(device)

    def max_positions(self) -> int:
        return int(1e9)  # recurrent: any length

    def get_extra_state(self) -> dict:
        return {"version": OPTIONS_VERSION, "settings": self.settings, "lexicon": self.lexicon}

    def set_extra_state(self, state) -> None:
        """The settings were compared in ``upgrade_state_dict_named``."""

    def upgrade_state_dict_named(self, state_dict, name: str):
        """Refuse weights that were trained with other settings or another lexicon (fairseq calls it before loading).

        Raises:
            OptionError: with the options that differ.
        """
        super().upgrade_state_dict_named(state_dict, name)
        prefix = name + "." if name else ""
        saved = state_dict.setdefault(prefix + "_extra_state", self.get_extra_state())  # EMA copies drop it
        if saved["version"] > OPTIONS_VERSION:
            raise OptionError(f"the checkpoint has options of version {saved['version']}, newer than {OPTIONS_VERSION}: upgrade")
        differing = [
            f"--{key.replace('_', '-')} {self.settings[key]} (checkpoint: {value})"
            for key, value in saved["settings"].items()
            if key != "output_dropout" and self.settings.get(key) != value
        ]
        if differing:
            _refuse(f"options differ from the checkpoint's: {'; '.join(differing)}. Give the checkpoint's or start anew.")
        trained = saved.get("lexicon")
        if not self.any_lexicon and None not in (trained, self.lexicon) and trained != self.lexicon:
            _refuse(
                f"the lexicon tables come from another lexicon ({self.lexicon}) than the checkpoint's ({trained}). Rebuild them: "
                "python -m fairseq_groc tables DATA --lexicon-path LEXICON; or, if that is meant, give --any-lexicon."
            )
        return state_dict


def _refuse(message: str) -> None:
    logger.error(message)  # fairseq-train hides the text of errors in loading
    raise OptionError(message)


def impossible_words(dictionary) -> Tensor:
    """Return the mask (V) of dictionary entries that are no words of any text."""
    from fairseq_groc.modules.heads import predictable_words

    return ~torch.tensor(predictable_words(dictionary.symbols))


def _pack(state: State) -> Dict[str, Tensor]:
    return {f"{name}{i}": value for i, pair in enumerate(state) for name, value in zip("hc", pair)}


def _unpack(cached: Dict[str, Tensor]) -> State:
    layers: List = [(cached[f"h{i}"], cached[f"c{i}"]) for i in range(len(cached) // 2)]
    return layers


def _require_task(fits: bool, task: str) -> None:
    if not fits:
        raise OptionError(f"--arch groc_lstm_lm works with --task wordnet_lexicon, not with {task}: give --task wordnet_lexicon")


def _architecture(preset: dict):
    def apply(args) -> None:
        if hasattr(args, "task"):
            _require_task(args.task == "wordnet_lexicon", f"--task {args.task}")
        for name, value in preset.items():
            setattr(args, name, getattr(args, name, value))

    return apply


ARCH_CONFIG_REGISTRY["groc_lstm_lm"] = _architecture({})  # so that the task is checked here too
for _name, _preset in PRESETS.items():
    register_model_architecture("groc_lstm_lm", _name)(_architecture(_preset))
