"""Options that task and model share, and the presets that set them.

The defaults live in the task (so that any model can have a head); the model repeats every option as an
interpolation of the task's (so that architecture presets can set it).
"""

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from fairseq_groc.errors import OptionError
from fairseq_groc.modules.heads import ACTIVATIONS

OPTIONS_VERSION = 1  # raise when an option changes its meaning; checkpoints carry it
HEADS = ("compositional_output", "tied", "lookup")


@dataclass
class HeadConfig(FairseqDataclass):
    """Word embedding and output head; the defaults are the released GroC model's."""

    output_head: str = field(default="compositional_output", metadata={"help": f"one of {', '.join(HEADS)}"})
    char_embed_dim: int = field(default=16, metadata={"help": "size of a character's embedding"})
    char_filters: List[int] = field(
        default_factory=lambda: [32, 32, 64, 128, 256, 512],
        metadata={"help": "how many filters of width 1, 2, ...: a list like [32,32,64]"},
    )
    highway_layers: int = field(default=1, metadata={"help": "highway layers over the character features"})
    output_depth: int = field(default=0, metadata={"help": "depth k of the output network (GroC, eq. 4)"})
    output_activation: str = field(default="relu", metadata={"help": f"of the output network: {', '.join(ACTIVATIONS)}"})
    output_dropout: float = field(default=0.0, metadata={"help": "variational dropout r of the output embeddings"})
    bias_activation: str = field(default="identity", metadata={"help": f"of the predicted bias: {', '.join(ACTIVATIONS)}"})


@dataclass
class SharedHeadConfig(FairseqDataclass):
    """The same options as a model sees them; ``field(default=II(...))`` inherits the task's value."""

    output_head: str = field(default=II("task.output_head"), metadata={"help": f"one of {', '.join(HEADS)}"})
    char_embed_dim: int = field(default=II("task.char_embed_dim"), metadata={"help": "size of a character's embedding"})
    char_filters: List[int] = field(
        default=II("task.char_filters"), metadata={"help": "how many filters of width 1, 2, ...: a list like [32,32,64]"}
    )
    highway_layers: int = field(default=II("task.highway_layers"), metadata={"help": "highway layers over the characters"})
    output_depth: int = field(default=II("task.output_depth"), metadata={"help": "depth k of the output network"})
    output_activation: str = field(default=II("task.output_activation"), metadata={"help": "of the output network"})
    output_dropout: float = field(default=II("task.output_dropout"), metadata={"help": "variational dropout r"})
    bias_activation: str = field(default=II("task.bias_activation"), metadata={"help": "of the predicted bias"})


HEAD_OPTIONS = tuple(f.name for f in fields(HeadConfig) if f.name != "_name")

_PAPER = {"decoder_layers": 2, "decoder_hidden_size": 1024, "dropout": 0.65, "dropout_in": 0.4, "dropout_out": 0.0}
PRESETS: Dict[str, Dict[str, Any]] = {
    # GroC, Table 8 and appendix B.1: k = 0, r = 0.2, d = 300
    "groc_lstm_lm_ptb": {**_PAPER, "decoder_embed_dim": 300, "output_depth": 0, "output_dropout": 0.2},
    # GroC, Table 8 and appendix B.1: k = 1, relu, r = 0.2, d = 256
    "groc_lstm_lm_wikitext2": {
        **_PAPER,
        "decoder_embed_dim": 256,
        "output_depth": 1,
        "output_activation": "relu",
        "output_dropout": 0.2,
    },
    # for CPUs: a few hundred milliseconds a step at V = 10,000
    "groc_lstm_lm_small": {
        "decoder_layers": 2,
        "decoder_hidden_size": 256,
        "dropout": 0.2,
        "dropout_in": 0.2,
        "dropout_out": 0.0,
        "decoder_embed_dim": 128,
        "char_filters": [16, 32, 48, 64, 96, 128],
        "output_depth": 0,
        "output_dropout": 0.0,
    },
}


def head_settings(cfg) -> Dict[str, Any]:
    """Return the head options of *cfg* as plain types, checked.

    Raises:
        OptionError: a value that no head has.
    """
    settings = {name: getattr(cfg, name) for name in HEAD_OPTIONS}
    settings["char_filters"] = [int(n) for n in settings["char_filters"]]
    _check_choice("--output-head", settings["output_head"], HEADS)
    _check_choice("--output-activation", settings["output_activation"], ACTIVATIONS)
    _check_choice("--bias-activation", settings["bias_activation"], ACTIVATIONS)
    if not any(n > 0 for n in settings["char_filters"]):
        raise OptionError(f"--char-filters {settings['char_filters']}: expected a list of counts like [32,32,64]")
    return settings


def _check_choice(option: str, value: str, choices) -> None:
    if value not in choices:
        raise OptionError(f"{option} {value}: expected one of {', '.join(choices)}")
