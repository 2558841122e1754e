"""The variables that a model knows, its own numbers of their values, and contexts in these numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.contexts.learned import check_kind, learned
from fairseq_groc.contexts.typed import assignments, number_of_value, plain, typed_number
from fairseq_groc.contexts.variables import SplitContexts, Variable, by_kind
from fairseq_groc.errors import DataError, OptionError, shown

MANY = 0.5  # share of unknown values that is warned of
logger = logging.getLogger(__name__)


class Contexts(NamedTuple):
    """The contexts of lines, in a model's numbers.

    Args:
        categories: of the distinct contexts, (U, n), 0: unknown or missing
        numbers: (U, m), as they were given, NaN: missing
        index: the context of each line, (lines); a single one is that of all lines
    """

    categories: NDArray[np.int64]
    numbers: NDArray[np.float64]
    index: NDArray[np.int64]  # type: ignore[assignment]  # a tuple's own index is not wanted

    @classmethod
    def joined(cls, contexts: Sequence[Contexts]) -> Contexts:
        """Return the contexts of lines from one for each."""
        categories, numbers = (np.concatenate([one[place] for one in contexts]) for place in (0, 1))
        return cls(categories, numbers, np.arange(len(contexts)))

    def of_lines(self, lines: NDArray[Any]) -> dict[str, Tensor]:
        """Return what a batch says of its lines: their distinct contexts, C of them, and which of these each has.

        Args:
            lines: numbers of lines, of any shape

        Returns:
            ``categories`` (C, n), ``numbers`` (C, m) and ``index``, of the shape of *lines*. Numbers are of double precision:
            fairseq halves those of single precision.
        """
        own = self.index[lines] if len(self.index) > 1 else np.broadcast_to(self.index, lines.shape)
        distinct, index = np.unique(own, return_inverse=True)
        return {
            "categories": torch.from_numpy(self.categories[distinct]),
            "numbers": torch.from_numpy(self.numbers[distinct]),
            "index": torch.from_numpy(index.reshape(lines.shape)),
        }


class Schema(NamedTuple):
    """The variables that a model knows."""

    variables: tuple[Variable, ...]

    @property
    def categories(self) -> tuple[Variable, ...]:
        return by_kind(self.variables)[0]

    @property
    def numbers(self) -> tuple[Variable, ...]:
        """The variables that are numbers or cycles."""
        return by_kind(self.variables)[1]

    @classmethod
    def of_training(cls, arrays: SplitContexts, threshold: int, names: Sequence[str] | None = None) -> Schema:
        """Return the schema of a training text; values that fewer lines have than *threshold* are unknown.

        Args:
            names: of the variables, in the order that the model is to have them in; None: all, those of an earlier training first

        Raises:
            GrocError: a variable that says nothing, or is of another kind than before.
        """
        earlier, own = ({variable.name: variable for variable in of} for of in (arrays.earlier, arrays.variables))
        known = earlier | own
        chosen = list(known) if names is None else list(dict.fromkeys(name.strip() for name in names))
        if lacking := [name for name in chosen if name not in known]:
            raise OptionError(f"--context-variables {lacking[0]}: {arrays.name} has {_listed(known)}. Give some of them.")
        return cls(tuple(learned(own.get(name), earlier.get(name), arrays, threshold) for name in chosen))

    def as_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` takes, of types that any checkpoint and JSON can hold."""
        return {"variables": [variable.as_dict() for variable in self.variables]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Schema:
        return cls(tuple(map(Variable.from_dict, saved["variables"])))

    def rows(self, arrays: SplitContexts) -> Contexts:
        """Return a folder's contexts in the model's numbers, by the names of variables and values.

        A variable that the folder lacks is missing in all lines, which is warned of, as it is where most values are unknown.

        Raises:
            DataError: the folder has none of the variables, or one of another kind.
        """
        given, lines = {variable.name: variable for variable in arrays.variables}, len(arrays.categories)
        lacking = [variable.name for variable in self.variables if variable.name not in given]
        if len(lacking) == len(self.variables):
            raise DataError(f"{arrays.name}: has contexts of {_listed(given)}: the model expects {_listed(lacking)}")
        if lacking:
            logger.warning(f"warning: {arrays.name} has no {_listed(lacking)}: the model takes these as missing in every line")
        for variable in self.variables:
            if variable.name in given:
                check_kind(variable, given[variable.name], arrays.name)
        categories, numbers = np.zeros((lines, len(self.categories)), np.int64), np.full((lines, len(self.numbers)), np.nan)
        for i, variable in enumerate(self.categories):
            if variable.name in given:
                categories[:, i] = _renumbered(variable, given[variable.name].values, arrays)
        for i, variable in enumerate(self.numbers):
            if variable.name in given:
                numbers[:, i] = arrays.column(variable.name)
        first, index = distinct_rows(categories, numbers)
        return Contexts(categories[first], numbers[first], index)

    def parse(self, text: str | Mapping[str, Any]) -> Contexts:
        """Return one context: ``topic=sports,year=1990``, or a mapping; what is not named is missing, ``missing`` names nothing.

        A value that the model does not know is unknown, which is warned of once.

        Raises:
            OptionError: a variable that the model does not have, or a number that is none.
        """
        return self.parser()(text)

    def parser(self) -> Callable[[str | Mapping[str, Any]], Contexts]:
        """Return ``parse`` for many contexts: it looks values up, of which a variable may have thousands."""
        names = [variable.name for variable in self.variables]
        places = [{value: i for i, value in enumerate(one.values, 1)} for one in self.categories]

        def parse(text: str | Mapping[str, Any]) -> Contexts:
            given = assignments(text) if isinstance(text, str) else {name: plain(value) for name, value in text.items()}
            if unknown := [name for name in given if name not in names]:
                raise OptionError(f"context {shown(unknown[0])}: the model has no such variable. It has {_listed(names)}.")
            pairs = zip(self.categories, places, strict=True)
            categories = [number_of_value(one.name, given.get(one.name, ""), of) for one, of in pairs]
            numbers = [typed_number(one.name, given.get(one.name, "")) for one in self.numbers]
            return Contexts(np.array([categories], np.int64), np.array([numbers], np.float64), np.zeros(1, np.int64))

        return parse


def distinct_rows(categories: NDArray[Any], numbers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each distinct row is for the first time, (U), and which of them each row is, (lines)."""
    index = np.zeros(len(categories), np.int64)
    for column in (*categories.T, *numbers.T):
        values, codes = np.unique(column, return_inverse=True)  # it takes all NaN for one
        index = np.unique(index * len(values) + codes, return_inverse=True)[1]  # smaller than the lines, so no product overflows
    return np.unique(index, return_index=True)[1], index


def _renumbered(ours: Variable, values: tuple[str, ...], arrays: SplitContexts) -> NDArray[np.int64]:
    """Return the model's numbers of a folder's values in the lines of a split, (lines)."""
    known = {value: i for i, value in enumerate(ours.values, start=1)}
    numbers = np.array([0, *(known.get(value, 0) for value in values)], np.int64)
    given = np.asarray(arrays.column(ours.name))
    found = numbers[given]
    given = given[given > 0]
    unknown = given[numbers[given] == 0]
    if len(unknown) > MANY * len(given):
        share = len(unknown) / len(given)
        logger.warning(
            f"warning: {arrays.name}: {share:.0%} of the lines with a {ours.name} have one that training lacks or has too few "
            f"lines of, the first is {shown(values[unknown[0] - 1])}: they are read as if it were missing"
        )
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "no variable"
