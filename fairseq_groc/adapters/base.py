"""What a cache is, the names that caches are registered by, and the options of adapters: theirs, and those without a history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from fairseq_groc.adapters.mass import Seen
from fairseq_groc.adapters.search import Search
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import Option, Registry

CACHES: Registry[type[Cache]] = Registry("cache")
OPTIONS = CACHES.options
OPTIONS.update(  # what needs no history; caches are registered beside their classes
    new_word_discount=Option(1.0, "factor on the probability of words that the training text lacks (paper: 0.1)", "factor"),
    uniform_weight=Option(0.0, "mix this much of the uniform distribution over all words into the model's", "weight"),
)


def register_cache(name: str, **options: Option) -> Callable[[Any], Any]:
    """Register a subclass of ``Cache`` as an adapter: ``--NAME-weight`` is its mass, and *options* are its own.

    Args:
        options: by the name that ``AdapterSettings`` and the command line give them

    Raises:
        OptionError: a name that is taken.
    """
    weight = Option(0.0, f"mass of the {name} cache: 1 - lambda of the paper", "weight")
    return CACHES.decorator(name, options, lambda cls: {f"{name}_weight": weight})


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

    def replaced(self, **values: float) -> AdapterSettings:
        """Return settings with some other values."""
        return AdapterSettings(**{**vars(self), **values})

    def acting(self) -> dict[str, Any]:
        """Return what is not a default, and all options of the caches that act."""
        own = [option for cache in self.caches() for option in CACHES.taken[cache]]
        return {name: value for name, value in vars(self).items() if value != OPTIONS[name].default or name in own}

    def caches(self) -> dict[str, float]:
        """Return the weights of the caches that act, in their order."""
        weights = {name: getattr(self, f"{name}_weight") for name in CACHES}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def active(self) -> bool:
        """Say whether anything is adapted."""
        return bool(self.caches()) or self.uniform_weight > 0 or self.new_word_discount != 1


class Cache:
    """What a group of streams has said so far, and a distribution over it for each position of the next block."""

    options: Mapping[str, Option] = {}  # those that it takes, by name
    learns = False  # whether ``after_block`` takes gradients: a pass over a block is recorded then

    @classmethod
    def from_settings(cls, settings: AdapterSettings, remembered: Search | None = None) -> Cache:
        """Return a cache that remembers nothing yet.

        Args:
            remembered: entries of another text (``--cache-text``)
        """
        return cls()

    def before_block(self, model: nn.Module, tokens: Tensor) -> None:
        """Be told that a model is about to read a block of a running text, (B, T); the first one of it by a new cache."""

    def after_block(self, model: nn.Module, tokens: Tensor, h: Tensor) -> None:
        """Be told, when the next block comes, what it made of this one, h (B, T, d): the scores of this one are made."""

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        """Append a block's entries and return, for every stream, what ``row`` needs.

        Args:
            queries: h of the block, (B, T, d)
            keys: of its entries, (B, T, d)
            tokens: of its entries, (B, T)
        """
        raise NotImplementedError

    def row(self, view: Any) -> Seen:
        """Return what one stream's positions remember."""
        raise NotImplementedError

    def reorder(self, order: Tensor) -> None:
        """Let stream i go on from what stream order[i] has said."""
        raise NotImplementedError
