"""From what is known of a line to a vector, c. C: contexts; k: size of c."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.contexts.variables import UNKNOWN, Variable, by_kind
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.errors import refuse
from fairseq_groc.modules.packed_state import pack, unpack

NUMBERS = ("mean", "deviation", "period")


class ContextEmbedding(nn.Module):
    """Embed contexts (Jaech and Ostendorf 2018, section 2.1).

    A category has a row for each value. A number, normalised, and the sine and cosine of a cycle go through relu(W x + b), where
    b begins at 1 as in the released program. One variable's vector is c; those of several are concatenated and mapped to c by
    tanh(W x + b).

    A missing number counts as the mean of training. A missing or unknown category has a row of its own where training had
    ``dropout``, or as many such lines as of the rarest value; otherwise it is the mean of the values' rows, each counted as often
    as in training. Rows move by the values' names from one checkpoint to another.

    Args:
        variables: what contexts have
        dim: k
        dropout: chance of a variable to be missing in a context of a training step
    """

    mean: Tensor
    deviation: Tensor
    period: Tensor

    def __init__(self, variables: Sequence[Variable], dim: int, dropout: float = 0.0):
        super().__init__()
        self.variables, self.dim, self.dropout = tuple(variables), dim, dropout
        categories, numbers = by_kind(variables)
        self.tables = nn.ModuleList(WordRows([UNKNOWN, *one.values], dim) for one in categories)
        self.numeric = nn.ModuleList(nn.Linear(1 if one.kind == "number" else 2, dim) for one in numbers)
        count = len(categories) + len(numbers)
        self.joint = nn.Linear(count * dim, dim) if count > 1 else None
        self._weights = [_weights(one) for one in categories]
        self._cyclic = [one.kind == "cycle" for one in numbers]
        for name in NUMBERS:
            self.register_buffer(name, torch.tensor([getattr(one, name) for one in numbers], dtype=torch.float64))
        self.begin()

    def begin(self) -> None:
        """Set the parameters that training begins with, as Glorot and Bengio (2010) do."""
        for table in self.tables:
            assert isinstance(table, WordRows)
            nn.init.xavier_uniform_(table.weight)
        for layer in (*self.numeric, *([] if self.joint is None else [self.joint])):
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.constant_(layer.bias, 0.0 if layer is self.joint else 1.0)

    def _apply(self, fn: Any, recurse: bool = True) -> ContextEmbedding:
        """Keep the numbers' statistics in double precision whatever the parameters have: half of it holds no 1990.5."""
        exact = {name: getattr(self, name) for name in NUMBERS}
        super()._apply(fn, recurse)
        for name, values in exact.items():
            setattr(self, name, values.to(getattr(self, name).device))
        return self

    def dropped(self, categories: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Return contexts as a step of training reads them, with variables that are missing by chance."""
        if not self.training or self.dropout == 0:
            return categories, numbers
        gone, lost = (torch.rand(values.shape, device=values.device) < self.dropout for values in (categories, numbers))
        return categories.masked_fill(gone, 0), numbers.masked_fill(lost, math.nan)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        """Return the vectors, (C, k).

        Args:
            categories: values of every category, (C, n); 0: unknown or missing
            numbers: of every number and cycle, (C, m); NaN: missing
        """
        vectors = [self._rows(place)[categories[:, place]] for place in range(len(self.tables))]
        vectors += [self._number(place, numbers[:, place]) for place in range(len(self.numeric))]
        return vectors[0] if self.joint is None else torch.tanh(self.joint(torch.cat(vectors, dim=1)))

    def _rows(self, place: int) -> Tensor:
        rows: Tensor = self.tables[place]()
        weights = self._mixed(place)
        if weights is None:
            return rows
        mean = weights.to(rows) @ rows[1:]
        return torch.cat([mean.unsqueeze(0), rows[1:]])

    def one_hot(self, place: int, categories: Tensor) -> Tensor:
        """Return what a category is in numbers, (C, values + 1): 1 for its value; each value's share where it is as their mean.

        Args:
            place: of the category
            categories: (C, n)
        """
        given, weights = categories[:, place], self._mixed(place)
        table = torch.eye(len(self.tables[place]()), device=given.device, dtype=torch.float64)
        if weights is not None:
            table[0] = F.pad(weights.to(table), (1, 0))
        return table[given]

    def _mixed(self, place: int) -> Tensor | None:
        """Return the share of each value in what is unknown; None: the unknown has a row of its own."""
        return None if self.dropout > 0 else self._weights[place]

    def _number(self, place: int, given: Tensor) -> Tensor:
        layer = self.numeric[place]
        assert isinstance(layer, nn.Linear)
        if self._cyclic[place]:
            angle = given.double() * (2 * math.pi / self.period[place])
            read = torch.stack([angle.sin(), angle.cos()], dim=1)
        else:
            read = ((given.double() - self.mean[place]) / self.deviation[place]).unsqueeze(1)
        return torch.relu(layer(read.nan_to_num(0.0).to(layer.weight)))

    def _kinds(self) -> list[list[str]]:
        return [[one.name, one.kind] for one in self.variables]

    def get_extra_state(self) -> Tensor:
        return pack(self._kinds())

    def set_extra_state(self, state: Tensor) -> None:
        """The variables were compared in ``upgrade_state_dict_named``."""

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Refuse a checkpoint of other variables (fairseq calls it before loading).

        Raises:
            OptionError: with both.
        """
        prefix = f"{name}." if name else ""
        saved = unpack(state_dict[prefix + "_extra_state"]) if prefix + "_extra_state" in state_dict else self._kinds()
        if saved != self._kinds():
            was, are = (", ".join(f"{one} ({kind})" for one, kind in kinds) for kinds in (saved, self._kinds()))
            columns = ",".join(one for one, _ in saved)
            refuse(
                f"the checkpoint's contexts have {was}, those of the data {are}: give data with the same columns, in the same "
                f"order (--context-variables {columns})"
            )
        periods = state_dict.get(prefix + "period", self.period)
        if not torch.equal(periods.to(self.period), self.period):
            was, are = (", ".join(f"{one:g}" for one in values.tolist() if one) for values in (periods, self.period))
            refuse(f"the checkpoint's contexts have cycles of {was}, those of the data of {are}: preprocess with the same ones")


def _weights(variable: Variable) -> Tensor | None:
    """Return each value's share of the training lines, for the mean row; None where the unknown has a row that is trained."""
    if variable.unknown:
        return None
    counts = torch.tensor(variable.counts, dtype=torch.float64)
    return counts / counts.sum()
