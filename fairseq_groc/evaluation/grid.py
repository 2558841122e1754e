"""A grid of settings of adapters, which grows where the best is at its edge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq_groc.adapters import ADAPTERS, CACHES, OPTIONS, AdapterSettings
from fairseq_groc.adapters.base import idle_options

WEIGHTS = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7)  # of a cache; 0.7 and theta 3 were best for composed models on unseen texts
VALUES: dict[str, Sequence[float]] = {  # of other options; else their default alone
    "uniform_weight": (0.0, 0.01, 0.03, 0.1),
    "cache_theta": (0.0, 0.3, 1.0, 3.0, 10.0),
    "cache_size": (5_000,),  # GroC, appendix C.4
}
STEPS = 6  # values that a grid grows by, at most, at either edge of an option
RATIOS = (2.0, 10.0)  # least and largest, of a value to the one before it where a grid grows


@dataclass(frozen=True)
class Grid:
    """What is tried: all combinations of some values of each option.

    Args:
        cache: a registered one, or none
        values: sorted, by option: of what needs no history, then of the cache's weight, then of its own options; or of ``passes``
        model: settings of all other options: of what changes the model itself, as it is in the pass that is searched
    """

    cache: str
    values: dict[str, tuple[Any, ...]]
    model: AdapterSettings = field(default_factory=AdapterSettings)

    @classmethod
    def of(cls, cache: str, given: Mapping[str, Sequence[Any]], model: AdapterSettings | None = None) -> Grid:
        """Return the grid of what a cache has of the values given; of other options it has the default."""
        own = ADAPTERS.taken[cache] if cache != "none" else ()
        names = ("new_word_discount", "uniform_weight", *own)
        return cls(cache, _sorted(names, given), model or AdapterSettings())

    @classmethod
    def of_passes(cls, given: Mapping[str, Sequence[Any]]) -> Grid:
        """Return the grid of what changes the model itself: its settings are the ``model`` of other grids."""
        return cls("none", _sorted(passes(), given))

    def settings(self) -> list[AdapterSettings]:
        """Return every combination; where an adapter does not act it has no options."""
        chosen = (dict(zip(self.values, values, strict=True)) for values in itertools.product(*self.values.values()))
        return list(dict.fromkeys(self.model.replaced(**one).without_idle() for one in chosen))

    def cache_options(self) -> tuple[str, ...]:
        """Return the names of the cache's own options, without its weight."""
        return tuple(ADAPTERS.taken[self.cache])[1:] if self.cache != "none" else ()

    def of_cache(self) -> list[tuple[Any, ...]]:
        """Return the combinations of these: what changes how the cache remembers, not how much of it is mixed in."""
        return list(itertools.product(*(self.values[name] for name in self.cache_options()))) if self.cache != "none" else []

    def of_cache_in(self, settings: AdapterSettings) -> tuple[Any, ...]:
        """Return the combination that some settings have."""
        return tuple(getattr(settings, name) for name in self.cache_options())

    def edges(self, best: AdapterSettings, tokens: int) -> list[str]:
        """Return the options of several numbers of which the best is the first or the last, and others are possible.

        Args:
            tokens: what a cache could remember at most
        """
        found, idle = [], idle_options(best.adapters())
        for name, values in self.values.items():
            value, count = getattr(best, name), OPTIONS[name].kind == "count"
            if name in idle or len(values) == 1 or isinstance(value, str):
                continue
            lower = value == values[0] and value > (1 if count else 0)
            most = {"count": tokens, "weight": 0.99}.get(str(OPTIONS[name].kind), math.inf)
            upper = value == values[-1] and 0 < value < most
            if lower or upper:
                found.append(name)
        return found

    def grown(self, best: AdapterSettings, tokens: int, first: Grid) -> Grid | None:
        """Return a grid that goes on in geometric steps where the best is at an edge, or None.

        Args:
            tokens: what a cache could remember at most
            first: the grid that all began with, beyond which it goes so far and no farther
        """
        more: dict[str, Any] = {}
        for name in self.edges(best, tokens):
            values, begun = self.values[name], first.values[name]
            upper = getattr(best, name) == values[-1]
            beyond = [value for value in values if (value > begun[-1] if upper else value < begun[0])]
            if len(beyond) < STEPS:
                more[name] = tuple(sorted({*values, *_beyond(name, values, upper, tokens)}))
        return Grid(self.cache, {**self.values, **more}, self.model) if more else None


def _beyond(name: str, values: Sequence[float], upper: bool, tokens: int) -> tuple[float, ...]:
    """Return what comes after the last value, or before the first."""
    kind = OPTIONS[name].kind
    edge, inner = (values[-1], values[-2]) if upper else (values[0], values[1])
    ratio = min(max(edge / inner if inner > 0 else 0, inner / edge, RATIOS[0]), RATIOS[1])
    value = edge * ratio if upper else edge / ratio
    if kind == "count":
        return (min(round(value), tokens) if upper else max(int(value), 1),)
    if kind == "weight" and upper:
        value = min(value, (1 + edge) / 2)
    rounded = float(f"{value:.3g}")
    # 0: without it; but who leaves out 0 of the uniform distribution may have a head that gives new words nothing
    return (0.0, rounded) if kind == "weight" and not upper and name != "uniform_weight" else (rounded,)


def passes() -> tuple[str, ...]:
    """Return the options of adapters that are no caches: they change the model, which reads the text again for each setting."""
    return tuple(option for name, options in ADAPTERS.taken.items() if name not in CACHES for option in options)


def _sorted(names: Iterable[str], given: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each option once and in order; of those that are not given the default."""
    values = ((name, {*given.get(name, (OPTIONS[name].default,))}) for name in names)
    return {name: tuple(sorted(found)) if len(found) > 1 else tuple(found) for name, found in values}
