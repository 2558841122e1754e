"""Options that task and model share.

The defaults live in the task (so that any model can have a head); the model repeats every option as an
interpolation of the task's (so that architecture presets can set it).
"""

import math
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Collection, Dict, List, Mapping, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from hydra.core.config_store import ConfigStore
from omegaconf import II

from fairseq_groc.errors import OptionError
from fairseq_groc.heads import ACTIVATIONS, HEADS
from fairseq_groc.registry import Option, flag

OPTIONS_VERSION = 1  # raise when an option changes its meaning; checkpoints carry it
# choices rather than flags: fairseq makes no flag of an option that task and model share
DROPOUT_KINDS = ("variational", "standard")
LEXICON_PARTS = ("both", "relations", "definitions", "none")
RESIDUALS = ("input", "input+previous")
CORRECTIONS = ("none", "input", "output", "both")
QUERIES = ("identity", "linear")
SCORINGS = ("words", "bins")


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
    lexicon_parts: str = field(
        default="both", metadata={"help": f"what words are composed of besides their spelling: {', '.join(LEXICON_PARTS)}"}
    )
    output_depth: int = field(default=0, metadata={"help": "depth k of the output network (GroC, eq. 4; DRILL, eq. 8)"})
    output_activation: str = field(default="relu", metadata={"help": f"of the output network: {', '.join(ACTIVATIONS)}"})
    output_dropout: float = field(default=0.0, metadata={"help": "variational dropout r of what meets the output embeddings"})
    output_dropout_kind: str = field(
        default="variational", metadata={"help": f"inside the output network: {', '.join(DROPOUT_KINDS)}"}
    )
    output_residual: str = field(
        default="input", metadata={"help": f"what each layer of the output network adds (DRILL, eq. 10): {', '.join(RESIDUALS)}"}
    )
    output_query: str = field(
        default="identity",
        metadata={"help": f"what compositional_output makes of h before it meets output embeddings: {', '.join(QUERIES)}"},
    )
    bias_activation: str = field(default="identity", metadata={"help": f"of the predicted bias: {', '.join(ACTIVATIONS)}"})
    output_joint_dim: int = field(default=0, metadata={"help": "joint size of dual_nonlinear; 0: that of the embeddings"})
    output_cutoffs: List[int] = field(
        default_factory=lambda: [2000, 7000],
        metadata={"help": "where the frequency bins of adaptive end: a list like [2000,7000]"},
    )
    output_factor: int = field(default=4, metadata={"help": "by how much each bin of adaptive is narrower than the one before"})
    adaptive_scoring: str = field(
        default="words", metadata={"help": "adaptive: score all words, or the bins, then the words of one (an adaptive softmax)"}
    )
    correction_dim: int = field(default=128, metadata={"help": "numbers of a word's correction: convolutional, --corrections"})
    corrections: str = field(
        default="none",
        metadata={"help": f"what words that training has read add to composed embeddings, and where: {', '.join(CORRECTIONS)}"},
    )
    correction_dropout: float = field(default=0.3, metadata={"help": "chance q to leave a word's correction out of a step"})
    num_softmaxes: int = field(default=15, metadata={"help": "softmaxes of mixture_of_softmaxes"})
    init_range: float = field(
        default=0.05,
        metadata={
            "help": "rows, head and groc_lstm_lm's LSTM begin with numbers up to this, either way (GroC, appendix B.1: 0.05; "
            "small models learn faster from 0.2)"
        },
    )
    composed_lr_scale: float = field(
        default=1.0, metadata={"help": "learning rate of what composes word embeddings, as a share of --lr"}
    )


SHARED_OPTIONS = tuple(f.name for f in fields(HeadConfig) if f.name != "_name")
TRAINING_OPTIONS = ("init_range", "composed_lr_scale")
HEAD_OPTIONS = tuple(name for name in SHARED_OPTIONS if name not in TRAINING_OPTIONS)  # what a checkpoint's parameters are for

# the same options as a model sees them: each inherits the task's value
SharedHeadConfig = make_dataclass(
    "SharedHeadConfig",
    [
        (f.name, f.type, field(default=II(f"task.{f.name}"), metadata=dict(f.metadata)))
        for f in fields(HeadConfig)
        if f.name != "_name"
    ],
    bases=(FairseqDataclass,),
)


def head_settings(cfg) -> Dict[str, Any]:
    """Return the head options of *cfg* as plain types, checked.

    Raises:
        OptionError: a value that no head has.
    """
    settings = {name: getattr(cfg, name) for name in HEAD_OPTIONS}
    for name in ("char_filters", "output_cutoffs"):
        settings[name] = [int(n) for n in settings[name]]
    choices: Dict[str, Collection[str]] = {
        "output_head": HEADS,
        "output_activation": ACTIVATIONS,
        "bias_activation": ACTIVATIONS,
        "output_dropout_kind": DROPOUT_KINDS,
        "lexicon_parts": LEXICON_PARTS,
        "output_residual": RESIDUALS,
        "adaptive_scoring": SCORINGS,
        "corrections": CORRECTIONS,
        "output_query": QUERIES,
    }
    for name, known in choices.items():
        if settings[name] not in known:
            raise OptionError(f"{flag(name)} {settings[name]}: expected one of {', '.join(known)}")
    expect("correction_dropout", settings["correction_dropout"], low=0, high=1)
    for name in ("char_embed_dim", "output_factor", "correction_dim", "num_softmaxes"):
        expect(name, settings[name], low=1)
    for name in ("highway_layers", "output_depth", "output_joint_dim"):
        expect(name, settings[name], low=0)
    expect("output_dropout", settings["output_dropout"], low=0, high=1)
    expect("init_range", cfg.init_range, above=0)
    expect("composed_lr_scale", cfg.composed_lr_scale, above=0, high=1)
    filters = settings["char_filters"]
    if min(filters, default=-1) < 0 or not any(filters):
        raise OptionError(f"--char-filters {filters}: expected a list of counts like [32,32,64]")
    return settings


def read_numbers(args) -> None:
    """Read the numbers of a command line, which fairseq leaves as text where a model inherits an option of the task.

    Raises:
        OptionError: with what is none.
    """
    for option in fields(HeadConfig):
        value = getattr(args, option.name, None)
        if option.type in (int, float) and isinstance(value, str) and not value.startswith("${"):
            try:
                setattr(args, option.name, option.type(value))
            except ValueError:
                whole = "whole " if option.type is int else ""
                raise OptionError(f"{flag(option.name)} {value}: expected a {whole}number") from None


def as_fields(options: Mapping[str, Option]) -> List[Tuple[str, Any, Any]]:
    """Return options of parts as fields of a dataclass."""
    return [(n, type(o.default), field(default=o.default, metadata={"help": o.help})) for n, o in options.items()]


def widen(kind: str, name: str, options: Mapping[str, Option]) -> None:
    """Give a registered task or model more options, as ``register_task`` or ``register_model`` gave it the first.

    Raises:
        OptionError: it has an option of that name.
    """
    tasks, models = (TASK_DATACLASS_REGISTRY, TASK_REGISTRY), (MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY)
    dataclasses, classes = tasks if kind == "task" else models
    narrow = dataclasses[name]
    taken = [flag(option) for option in options if option in narrow.__dataclass_fields__]
    if taken:
        raise OptionError(f"{', '.join(taken)}: an option of the {kind} {name} already. Choose another name.")
    wide = make_dataclass(narrow.__name__, as_fields(options), bases=(narrow,))
    dataclasses[name] = classes[name].__dataclass = wide
    node = wide()
    node._name = name
    ConfigStore.instance().store(name=name, group=kind, node=node, provider="fairseq")


def expect(name: str, value: float, low: float = -math.inf, high: float = math.inf, above: float = -math.inf) -> None:
    """Refuse a number that is not from *low* to below *high* or, where *above* is given, not above it and at most *high*.

    Raises:
        OptionError: with the option, its value and what was expected; infinite values and NaN are never in a range.
    """
    exclusive = above > -math.inf
    inside = above < value <= high if exclusive else low <= value < high
    if inside and math.isfinite(value):
        return
    if exclusive:
        wanted = f"a number above {above}" + (f", at most {high}" if high < math.inf else "")
    elif high < math.inf:
        wanted = f"a number from {low} to below {high}"
    else:
        wanted = f"{low} or more" if low > -math.inf else "a number"
    raise OptionError(f"{flag(name)} {value:g}: expected {wanted}")
