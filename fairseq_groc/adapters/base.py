"""What adapters with a history are, caches among them, the names that they are registered by, and the options of all adapters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from torch import Tensor

from fairseq_groc.adapters.mass import Distribution, Seen
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import FOLDER, Option, Registry, flag, shown_value

Use = Literal["training", "lines", "new_words", "limit"]  # what adapters may refuse: see ``TextAdapter.refusals``
ADAPTERS: Registry[type[TextAdapter]] = Registry("adapter")  # those with a history; the first option of each switches it on
CACHES: dict[str, type[Cache]] = {}  # those of them that are caches
OPTIONS = ADAPTERS.options
OPTIONS.update(  # what needs no history; the others are registered beside their classes
    new_word_discount=Option(
        1.0, "factor on the probability of words that the training text lacks (paper: 0.1)", "factor", "discounts"
    ),
    uniform_weight=Option(0.0, "mix this much of the uniform distribution over all words into the model's", "weight", "uniform"),
)


def register_adapter(name: str, **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``TextAdapter`` with its options; it acts where the first of them, a number, is above 0.

    Args:
        options: by the name that ``AdapterSettings`` and the command line give them

    Raises:
        OptionError: a name that is taken.
    """
    return ADAPTERS.decorator(name, options)


def register_cache(name: str, **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``Cache`` as an adapter: its first option is ``--NAME-weight``, its mass, and *options* are its own.

    Args:
        options: by the name that ``AdapterSettings`` and the command line give them

    Raises:
        OptionError: a name that is taken.
    """

    def weight(cls: Any) -> dict[str, Option]:
        return {f"{name}_weight": Option(0.0, f"mass W of the {name} {cls.called}, in (1 - W) p + W q", "weight", "weights")}

    add = ADAPTERS.decorator(name, options, weight)

    def register(cls: Any) -> Any:
        CACHES[name] = add(cls)
        return cls

    return register


def switch_of(adapter: str) -> str:
    """Return the option that switches an adapter on."""
    return next(iter(ADAPTERS.taken[adapter]))


def takers_of(option: str) -> list[str]:
    """Return the adapters that take an option: they may share it."""
    return [adapter for adapter, options in ADAPTERS.taken.items() if option in options]


def idle_options(acting: Iterable[str]) -> set[str]:
    """Return the options that adapters take, but none of those that act."""
    return _options_of(ADAPTERS) - _options_of(acting)


def _options_of(adapters: Iterable[str]) -> set[str]:
    return {option for adapter in adapters for option in ADAPTERS.taken[adapter]}


class AdapterSettings(SimpleNamespace):
    """Which adapters act, and how; the defaults are none. The order: what concerns the model alone, then the others.

    Args:
        new_word_discount: factor on the probability of words that the training text lacks, which is then normalised
        uniform_weight: mass of the uniform distribution over all words
        others: NAME_weight, the mass of a cache (1 - lambda in GroC's paper), and the own options of adapters with a history

    Raises:
        OptionError: an option of no registered adapter.
    """

    def __init__(self, new_word_discount: float = 1.0, uniform_weight: float = 0.0, **others: Any):
        unknown = [name for name in others if name not in OPTIONS]
        if unknown:
            raise OptionError(
                f"{', '.join(unknown)}: none of the registered adapters ({', '.join(ADAPTERS)}) has it. "
                "Give the --user-dir that registers it, or leave it out."
            )
        given = dict(new_word_discount=new_word_discount, uniform_weight=uniform_weight, **others)
        super().__init__(**{name: given.get(name, option.default) for name, option in OPTIONS.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings do not change: replaced({name}={value!r}) returns others")

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def replaced(self, **values: Any) -> AdapterSettings:
        """Return settings with some other values."""
        return AdapterSettings(**{**vars(self), **values})

    @classmethod
    def of(cls, cfg: Any) -> AdapterSettings:
        """Return the settings that an object's attributes say."""
        return cls(**{name: getattr(cfg, name) for name in OPTIONS})

    def without_idle(self) -> AdapterSettings:
        """Return settings that do the same, with the defaults of options of adapters that do not act."""
        idle = idle_options(self.adapters())
        return AdapterSettings(**{name: value for name, value in vars(self).items() if name not in idle})

    def values(self) -> dict[str, Any]:
        """Return all values but those of folders."""
        return {name: value for name, value in vars(self).items() if OPTIONS[name].kind != FOLDER}

    def folders(self) -> dict[str, str]:
        """Return the folders that are given."""
        return {name: value for name, value in vars(self).items() if OPTIONS[name].kind == FOLDER and value}

    def acting(self) -> dict[str, Any]:
        """Return what is not a default, and all options of the adapters that act, but for folders."""
        own = _options_of(self.adapters())
        return {name: value for name, value in self.values().items() if value != OPTIONS[name].default or name in own}

    def shown(self) -> str:
        """Return what acts, as it is typed."""
        return ", ".join(f"{flag(name)} {shown_value(value)}" for name, value in self.acting().items()) or "the model alone"

    def adapters(self) -> list[str]:
        """Return the adapters with a history that act, in their order."""
        return [name for name in ADAPTERS if getattr(self, switch_of(name)) > 0]

    def caches(self) -> dict[str, float]:
        """Return the weights of the caches that act, in their order."""
        return {name: getattr(self, f"{name}_weight") for name in self.adapters() if name in CACHES}

    def active(self) -> bool:
        """Say whether anything is adapted."""
        return bool(self.adapters()) or self.uniform_weight > 0 or self.new_word_discount != 1

    def block_length(self, given: int | None = None) -> int | None:
        """Return how many tokens a block of a model that carries its state must have; None: any.

        Args:
            given: ``--tokens-per-sample``; 0 or None: nothing

        Raises:
            OptionError: an adapter that acts wants another number than is given.
        """
        for name in self.adapters():
            wanted = ADAPTERS[name].block_length(self)
            if given and wanted and given != wanted:
                raise OptionError(
                    f"--tokens-per-sample {given}: with {flag(switch_of(name))} {wanted} tokens are read at a time, and then "
                    "learnt from. Give the same, or leave it out."
                )
            if wanted:
                return wanted
        return None

    def refuse(self, use: Use) -> None:
        """Refuse what an adapter that acts does not go with.

        Raises:
            OptionError: with its reason.
        """
        for name in self.adapters():
            why = ADAPTERS[name].refusals(self).get(use)
            if why:
                raise OptionError(why)

    def open(self, model: Any, data: Path) -> dict[str, Any]:
        """Return what the adapters that act read from disk for a model, by adapter: see ``TextAdapter.open``."""
        return {name: ADAPTERS[name].open(self, model, data) for name in self.adapters()}


class TextAdapter:
    """An adapter with a history: one is made where a group of streams begins, and told of their blocks in turn."""

    options: Mapping[str, Option] = {}  # those that it takes, by name
    learns = False  # whether it takes gradients through the model: a pass over a block is recorded then

    @classmethod
    def from_settings(cls, settings: AdapterSettings, opened: Any = None) -> TextAdapter:
        """Return one that knows nothing yet.

        Args:
            opened: what ``open`` has read, if anything
        """
        return cls()

    @classmethod
    def open(cls, settings: AdapterSettings, model: Any, data: Path) -> Any:
        """Return what it reads from disk for a model, once for all texts; None: nothing.

        Args:
            model: the decoder, with a ``dictionary`` and a ``fingerprint()`` of its parameters and vocabulary
            data: the folder of the texts, for what is not in a folder that an option names
        """
        return None

    @classmethod
    def about(cls, opened: Any) -> dict[str, Any]:
        """Return what reports say of what it has opened.

        ``text``, if it is there, is the digest of a text that is then not scored, ``words`` how many words it brings.
        """
        return {}

    @classmethod
    def refusals(cls, settings: AdapterSettings) -> Mapping[Use, str]:
        """Return what it does not go with, and why in a line: validation in training, lines by themselves, a vocabulary that
        words are added to, one that is limited."""
        return {}

    @classmethod
    def block_length(cls, settings: AdapterSettings) -> int | None:
        """Return how many tokens it wants in a block; None: any."""
        return None

    def follows(self, running: bool, generating: bool) -> bool:
        """Say whether it is told of what a model reads.

        Args:
            running: these are blocks of a running text
            generating: these are steps of generation; neither: rows of which each is a text by itself
        """
        return running

    def before_block(self, model: Any, tokens: Tensor) -> None:
        """Be told that a model is about to read a block of a running text, (B, T); the first one of it by a new adapter."""

    def after_block(self, model: Any, tokens: Tensor, h: Tensor, targets: Tensor) -> None:
        """Be told, when the next block comes, what the model made of this one: the scores of this one are made.

        Args:
            tokens: (B, T)
            h: (B, T, d)
            targets: what came next at each position, (B, T)
        """

    def acting(self, model: Any) -> AbstractContextManager[Any]:
        """Make of the model what it is to be while it reads a block, or computes losses from what it has read."""
        return nullcontext()

    def reorder(self, order: Tensor) -> None:
        """Let stream i go on from what stream order[i] has said; tensors that others may hold stay as they are."""
        raise NotImplementedError

    def forked(self, order: Tensor) -> TextAdapter:
        """Return another in which stream i goes on from what stream order[i] has said; this one stays as it is."""
        twin = copy.copy(self)
        twin.reorder(order)
        return twin


class Cache(TextAdapter):
    """What a group of streams has said so far, and a distribution over it for each position of the next block."""

    called = "cache"  # in help texts
    reads_all = False  # whether ``see`` gets all tokens that were read: a text's first, and words that may not be predicted, too
    axis: str | None = None  # the option that pictures of its tuning show beside its weight

    @classmethod
    def known(cls, opened: Any, real: Tensor) -> Tensor | None:
        """Return the words that it has a distribution over, as ``Distribution.known``; None: those that were said.

        Args:
            opened: what ``open`` has read
            real: mask of the real words that may be predicted, (V), or (T, V) where each position has a vocabulary of its own
        """
        return None

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        """Append a block's entries and return, for every stream, what ``row`` needs.

        Args:
            queries: h of the block, (B, T, d)
            keys: of its entries, (B, T, d)
            tokens: of its entries, (B, T)
        """
        raise NotImplementedError

    def row(self, view: Any) -> Seen | Distribution:
        """Return what one stream's positions remember."""
        raise NotImplementedError

    @classmethod
    def shared(cls, settings: Sequence[AdapterSettings]) -> list[tuple[AdapterSettings, Sequence[AdapterSettings]]]:
        """Return the settings of the caches to make for several, each with those that its ``rows`` serves, in their order."""
        return [(one, [one]) for one in settings]

    def rows(self, view: Any, settings: Sequence[AdapterSettings]) -> Iterable[Seen | Distribution]:
        """Return what ``row`` would with each of the settings that it serves."""
        return [self.row(view)]
