"""Options that task and model share: those of the parts, and of how they are trained.

The defaults live in the task (so that any model can have a head); the model repeats every option as an
interpolation of the task's (so that architecture presets can set it).
"""

import argparse
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import field, make_dataclass
from typing import Any, List, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from hydra.core.config_store import ConfigStore
from omegaconf import II

from fairseq_groc.embeddings import EMBEDDINGS
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.registry import Option, check_options, flag

OPTIONS_VERSION = 1  # raise when an option changes its meaning; checkpoints carry it
COMMON = {  # of all heads; the defaults of all options are the released GroC model's
    "output_head": Option("compositional_output", "head, and the word embedding that goes with it", HEADS),
    "output_dropout": Option(0.0, "variational dropout r of what meets the output embeddings, and of their network", "dropout"),
    "feature_dropout": Option(-1.0, "of what meets the output embeddings alone; -1: as --output-dropout", "dropout or -1"),
    "embedding_dropout": Option(0.0, "chance of a word to be zero wherever a training step reads it (AWD-LSTM: 0.1)", "dropout"),
    "context_dim": Option(0, "size k of the vector of a line's context; 0: contexts are not read", "natural"),
    "context_adaptation": Option(
        "concat",
        "what a context changes of the prefix encoder: none; concat, its input or biases (ConcatCell); factor, its recurrent "
        "weights too (--prefix-encoder factor_cell)",
        ("none", "concat", "factor"),
    ),
    "context_bias": Option(
        "shift",
        "what a context changes of the words' scores: none; shift, by P c added to h; rows, by a row for each word that meets c; "
        "one-hot, by a number for each word and value",
        ("none", "shift", "rows", "one-hot"),
    ),
    "context_dropout": Option(0.0, "chance of a variable of a context to be missing in a training step", "dropout"),
}
TRAINING = {
    "init_range": Option(
        0.05,
        "rows, head and groc_lstm_lm's encoder begin with numbers up to this, either way (GroC, appendix B.1: 0.05; "
        "small models learn faster from 0.2); awd_lstm begins as PyTorch's LSTMs",
        "factor",
    ),
    "composed_lr_scale": Option(1.0, "learning rate of what composes word embeddings, as a share of --lr", "share"),
}
OF_FACTORS = ("context_rank", "factor_init")
CONTEXTS = ("context_adaptation", "context_bias", "context_dropout", *OF_FACTORS)  # what a context changes, and how
SHARED_OPTIONS = ChainMap(COMMON, TRAINING, HEADS.options)  # those that are registered later are in it, too


def as_fields(options: Mapping[str, Option], of_task: bool = False) -> list[tuple[str, Any, Any]]:
    """Return options as fields of a dataclass; *of_task*: each is what the task has."""
    return [(name, *_typed(option, f"task.{name}" if of_task else "")) for name, option in options.items()]


def _typed(option: Option, inherited: str) -> tuple[Any, Any]:
    default, chosen = option.default, "" if isinstance(option.kind, str) else f": {', '.join(option.kind)}"
    given: dict[str, Any] = {"default_factory": lambda: list(default)} if isinstance(default, list) else {"default": default}
    kind = List[int] if isinstance(default, list) else Optional[str] if default is None else type(default)
    return kind, field(**({"default": II(inherited)} if inherited else given), metadata={"help": option.help + chosen})


def described(default: Any, text: str) -> Any:
    """Return a field of a dataclass by its default and its text in ``--help``."""
    return field(default=default, metadata={"help": text})


HeadConfig = make_dataclass("HeadConfig", as_fields(SHARED_OPTIONS), bases=(FairseqDataclass,))
SharedHeadConfig = make_dataclass("SharedHeadConfig", as_fields(SHARED_OPTIONS, of_task=True), bases=(FairseqDataclass,))


def options_of(head: str) -> dict[str, Option]:
    """Return what a head and its word embedding take: a checkpoint's parameters are for these.

    Raises:
        OptionError: there is no such head.
    """
    embedding = HEADS.find(head).embedding
    EMBEDDINGS.find(embedding)
    return {**COMMON, **EMBEDDINGS.taken[embedding], **HEADS.taken[head]}


def head_settings(cfg: Any, saved: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options that *cfg* has for its head as plain types, checked, or those of a checkpoint.

    Args:
        saved: of the checkpoint, which may be older than an option; None: there is none

    Raises:
        OptionError: a value that no head has.
    """
    if saved is not None:
        return {**{name: option.default for name, option in options_of(saved["output_head"]).items()}, **saved}
    check_options({"output_head": COMMON["output_head"]}, {"output_head": cfg.output_head})
    options = options_of(cfg.output_head)
    values = {name: _plain(getattr(cfg, name, option.default)) for name, option in {**options, **TRAINING}.items()}
    check_options({**options, **TRAINING}, values)
    return {name: values[name] for name in options}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else list(value)


def refuse_unused(given: Iterable[str], taken: Iterable[str], chosen: str) -> None:
    """Refuse options that a part does not take.

    Args:
        chosen: the option that names the part, and its value

    Raises:
        OptionError: with the first of them.
    """
    for name in given:
        if name not in taken:
            raise OptionError(f"{flag(name)}: {chosen} does not take it. Leave it out.")


def refuse_without_contexts(given: Iterable[str], cfg: Any) -> None:
    """Refuse options of contexts that change nothing.

    Args:
        given: names of options
        cfg: has ``context_dim`` and ``context_adaptation``, or their defaults

    Raises:
        OptionError: with the first of them.
    """
    size, adaptation = (getattr(cfg, name, COMMON[name].default) for name in ("context_dim", "context_adaptation"))
    for name in given:
        if name in CONTEXTS and not size:
            raise OptionError(f"{flag(name)} does nothing without --context-dim: give both, or leave it out")
        if name in OF_FACTORS and adaptation != "factor":
            raise OptionError(f"{flag(name)} does nothing without --context-adaptation factor: give both, or leave it out")


def refuse_unused_of_task(cfg: Any, task: str) -> None:
    """Refuse what a task's head does not take, unless it is the default."""
    config = TASK_DATACLASS_REGISTRY[task]()
    given = [name for name in SHARED_OPTIONS if _plain(getattr(cfg, name)) != getattr(config, name)]
    refuse_unused(given, {**TRAINING, **options_of(cfg.output_head)}, f"--output-head {cfg.output_head}")
    refuse_without_contexts(given, cfg)


def read_numbers(args: argparse.Namespace) -> None:
    """Read the numbers of a command line, which fairseq leaves as text where a model inherits an option of the task.

    Raises:
        OptionError: with what is none.
    """
    for name, option in SHARED_OPTIONS.items():
        value, kind = getattr(args, name, None), type(option.default)
        if kind in (int, float) and isinstance(value, str) and not value.startswith("${"):
            try:
                setattr(args, name, kind(value))
            except ValueError:
                whole = "whole " if kind is int else ""
                raise OptionError(f"{flag(name)} {value}: expected a {whole}number") from None


def widen(kind: str, name: str, options: Mapping[str, Option], of_task: bool = False) -> None:
    """Give a registered task or model more options, as ``register_task`` or ``register_model`` gave it the first.

    Args:
        of_task: the options are the task's, and the model has what that has

    Raises:
        OptionError: it has an option of that name.
    """
    tasks, models = (TASK_DATACLASS_REGISTRY, TASK_REGISTRY), (MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY)
    dataclasses, classes = tasks if kind == "task" else models
    narrow = dataclasses[name]
    taken = [flag(option) for option in options if option in narrow.__dataclass_fields__]
    if taken:
        raise OptionError(f"{', '.join(taken)}: an option of the {kind} {name} already. Choose another name.")
    wide = make_dataclass(narrow.__name__, as_fields(options, of_task), bases=(narrow,))
    dataclasses[name] = classes[name].__dataclass = wide
    node = wide()
    node._name = name
    ConfigStore.instance().store(name=name, group=kind, node=node, provider="fairseq")
