"""What a cache is, the names that caches are registered by, and the options of adapters: theirs, and those without a history."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from torch import Tensor

from fairseq_groc.adapters.mass import Seen
from fairseq_groc.adapters.search import Search
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import check_name


class Option(NamedTuple):
    """A number that an adapter can be given.

    Args:
        default: what it is otherwise; an option takes numbers of its type
        help: what it is, for ``--help``
        kind: which numbers it takes, one of ``KINDS``
    """

    default: float
    help: str
    kind: str = "number"

    def refusal(self, value: Any) -> Optional[str]:
        """Return what is expected in place of a value, or None where it will do."""
        expected, fits = KINDS[self.kind]
        number = isinstance(value, (int, type(self.default))) and not isinstance(value, bool)
        return None if number and -math.inf < value < math.inf and fits(value) else expected


KINDS: Dict[str, Tuple[str, Callable[[float], bool]]] = {
    "weight": ("a number from 0 to below 1", lambda value: 0 <= value < 1),
    "factor": ("a number above 0", lambda value: value > 0),
    "count": ("1 or more", lambda value: value >= 1),
    "number": ("a number", lambda value: True),
}


class RegisteredCache(NamedTuple):
    """A registered cache.

    Args:
        build: from the settings, and entries of another text or None, to a cache that remembers nothing yet
        options: names of its own options, without that of its weight
    """

    build: Callable[[AdapterSettings, Optional[Search]], Cache]
    options: Tuple[str, ...]


# what needs no history; caches are registered beside their classes
OPTIONS: Dict[str, Option] = {
    "new_word_discount": Option(1.0, "factor on the probability of words that the training text lacks (paper: 0.1)", "factor"),
    "uniform_weight": Option(0.0, "mix this much of the uniform distribution over all words into the model's", "weight"),
}
CACHES: Dict[str, RegisteredCache] = {}
_listeners: List[Callable[[Dict[str, Option]], None]] = []


def register_cache(name: str, **options: Option):
    """Register a subclass of ``Cache`` as an adapter: ``--NAME-weight`` is its mass, and *options* are its own.

    Args:
        options: by the name that ``AdapterSettings`` and the command line give them

    Raises:
        OptionError: a name that is taken.
    """

    def register(cls):
        new = {f"{name}_weight": Option(0.0, f"mass of the {name} cache: 1 - lambda of the paper", "weight"), **options}
        check_name(CACHES, "cache", name)
        for option in new:
            check_name(OPTIONS, "option of adapters", option)
        for listener in _listeners:
            listener(new)
        CACHES[name] = RegisteredCache(cls.from_settings, tuple(options))
        OPTIONS.update(new)
        return cls

    return register


def on_registration(listener: Callable[[Dict[str, Option]], None]) -> None:
    """Let somebody who shows the options know those of caches that are registered from now on."""
    _listeners.append(listener)


class AdapterSettings(SimpleNamespace):
    """Which adapters act, and how; the defaults are none. The order is the paper's: what concerns the model alone, then caches.

    Args:
        new_word_discount: factor on the probability of words that the training text lacks, which is then normalised
        uniform_weight: mass of the uniform distribution over all words
        of_caches: NAME_weight, the mass of a cache, 1 - lambda of the paper, and the caches' own options

    Raises:
        OptionError: an option of no registered cache.
    """

    def __init__(self, new_word_discount: float = 1.0, uniform_weight: float = 0.0, **of_caches: float):
        unknown = [name for name in of_caches if name not in OPTIONS]
        if unknown:
            raise OptionError(
                f"{', '.join(unknown)}: none of the registered caches ({', '.join(CACHES)}) has it. "
                "Give the --user-dir that registers it, or leave it out."
            )
        given = dict(new_word_discount=new_word_discount, uniform_weight=uniform_weight, **of_caches)
        super().__init__(**{name: given.get(name, option.default) for name, option in OPTIONS.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings do not change: replaced({name}={value!r}) returns others")

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def replaced(self, **values: float) -> "AdapterSettings":
        """Return settings with some other values."""
        return AdapterSettings(**{**vars(self), **values})

    def acting(self) -> Dict[str, Any]:
        """Return what is not a default, and all options of the caches that act."""
        own = [option for cache in self.caches() for option in CACHES[cache].options]
        return {name: value for name, value in vars(self).items() if value != OPTIONS[name].default or name in own}

    def caches(self) -> Dict[str, float]:
        """Return the weights of the caches that act, in their order."""
        weights = {name: getattr(self, f"{name}_weight") for name in CACHES}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def active(self) -> bool:
        """Say whether anything is adapted."""
        return bool(self.caches()) or self.uniform_weight > 0 or self.new_word_discount != 1


class Cache:
    """What a group of streams has said so far, and a distribution over it for each position of the next block."""

    @classmethod
    def from_settings(cls, settings: AdapterSettings, remembered: Optional[Search] = None) -> "Cache":
        """Return a cache that remembers nothing yet.

        Args:
            remembered: entries of another text (``--cache-text``)
        """
        return cls()

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> List:
        """Append a block's entries and return, for every stream, what ``row`` needs.

        Args:
            queries: h of the block, (B, T, d)
            keys: of its entries, (B, T, d)
            tokens: of its entries, (B, T)
        """
        raise NotImplementedError

    def row(self, view) -> Seen:
        """Return what one stream's positions remember."""
        raise NotImplementedError

    def reorder(self, order: Tensor) -> None:
        """Let stream i go on from what stream order[i] has said."""
        raise NotImplementedError
