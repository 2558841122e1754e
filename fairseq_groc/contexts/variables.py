"""What contexts are made of: variables, their values, and those of a split's lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNKNOWN = "<unknown>"  # in checkpoints, any value that has no vector of its own


class Variable(NamedTuple):
    """A variable of contexts.

    Args:
        name: as the column is called
        kind: "category", "number" or "cycle"
        values: of a category, those that have a vector, most frequent first; number i + 1 is ``values[i]``, 0 any other or a
            missing one
        counts: how many training lines have each of them
        unknown: how many have another value, or none; 0 also where they are fewer than the lines of the rarest value, and too
            few to learn a vector from
        mean, deviation: of a number, over the training lines that have one
        period: of a cycle, which starts at 0
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    unknown: int = 0
    mean: float = 0.0
    deviation: float = 1.0
    period: float = 0.0

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Variable:
        return cls(**{**saved, **{name: tuple(saved.get(name, ())) for name in ("values", "counts")}})

    def as_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` takes, of types that any checkpoint and JSON can hold."""
        return {**self._asdict(), "values": list(self.values), "counts": list(self.counts)}

    @property
    def counted(self) -> Counter[str]:
        """The counts by their values; those of 0 are in no sum."""
        return Counter(dict(zip(self.values, self.counts, strict=True)))

    @property
    def described(self) -> str:
        return {"category": "a category", "number": "a number", "cycle": f"a cycle of {self.period:g}"}[self.kind]


class SplitContexts(NamedTuple):
    """The contexts of the lines of a split, in the numbers of the folder that they are in.

    Args:
        name: where they are from, for messages
        variables: of the folder, in the order of its columns: name, kind, values and period
        categories: (lines, n), the category's value by its number, 0: missing
        numbers: (lines, m), of numbers and cycles, NaN: missing
        earlier: what an earlier training knows, whose vocabulary the folder has
    """

    name: str
    variables: tuple[Variable, ...]
    categories: NDArray[np.int32]
    numbers: NDArray[np.float64]
    earlier: tuple[Variable, ...] = ()

    def column(self, name: str) -> NDArray[Any]:
        """Return the numbers of a variable's values, or the numbers that it is, (lines)."""
        categories, numbers = by_kind(self.variables)
        if name in (names := [variable.name for variable in categories]):
            return self.categories[:, names.index(name)]
        return self.numbers[:, [variable.name for variable in numbers].index(name)]


def by_kind(variables: Iterable[Variable]) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Return those that are categories, and those that are numbers or cycles."""
    variables = tuple(variables)
    return tuple(v for v in variables if v.kind == "category"), tuple(v for v in variables if v.kind != "category")
