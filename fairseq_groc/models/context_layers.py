"""Where a language model meets the contexts of its lines, whatever model it is. B: batch; T: time; k: size of c."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.contexts.embedding import ContextEmbedding
from fairseq_groc.contexts.schema import Schema
from fairseq_groc.embeddings.rows import WordRows, saved_words
from fairseq_groc.encoders.base import LineContexts
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.per_thread import PerThread

MOST_VALUES = 1_000  # of which every word has a number for each


class ContextLayers(nn.Module):
    """Embed the contexts of a batch once, and add them to what is read, to h, or to the words' scores.

    Adding W c to the input is ConcatCell for any model: what reads the input is linear in it, as in a concatenation of both
    (Mikolov and Zweig 2012). Adding P c to h is a softmax bias E_out P c that needs nothing of a word but its embedding; Q c,
    with a row of Q for each word, is that of Jaech and Ostendorf (2018, eq. 6).

    Args:
        schema: what is known of a line
        settings: options by name
        dim: d, of what the model reads
        width: of what meets the output embeddings
        add_to_input: whether the model takes contexts by its input
    """

    current = PerThread()  # ``LineContexts`` of the batch that is read, their index (B, 1) or (B, T)
    _one_hot = PerThread()  # what meets the words' numbers for values, (C, values)
    learned = PerThread()  # what streams add to the vectors of contexts, (B, k), or all of them, (1, k)

    def __init__(self, schema: Schema, settings: Mapping[str, Any], dim: int, width: int, add_to_input: bool):
        super().__init__()
        size, bias = settings["context_dim"], settings["context_bias"]
        self.schema, self.width = schema, width
        self.embedding = ContextEmbedding(schema.variables, size, settings["context_dropout"])
        self.input = nn.Linear(size, dim, bias=False) if add_to_input else None
        self.shift = nn.Linear(size, width, bias=False) if bias == "shift" else None
        self.num_values = _num_values_of(schema) if bias == "one-hot" else 0
        self.appended = {"rows": size, "one-hot": self.num_values}.get(bias, 0)  # numbers that each word has for contexts
        for layer in (self.input, self.shift):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)

    @contextmanager
    def reading(self, batch: Mapping[str, Tensor] | None) -> Iterator[LineContexts]:
        """Let the model read lines with these contexts; yield them with an index (B), or (T, B).

        Args:
            batch: categories (C, n), numbers (C, m), and the index of the lines (B), or of the positions (B, T)

        Raises:
            OptionError: there are none.
        """
        if batch is None:
            names = ", ".join(one.name for one in self.schema.variables)
            raise OptionError(
                f"the model wants to know the context of each line ({names}): preprocess with --context-test FILE, or give "
                "--context NAME=VALUE,... (in Python, context={NAME: VALUE}), or --context missing"
            )
        categories, numbers, index = (batch[name].to(self.embedding.mean.device) for name in ("categories", "numbers", "index"))
        categories, numbers = self.embedding.dropped(categories, numbers)
        vectors = self.embedding(categories, numbers)
        # the vectors add nothing to it, but workers expect every gradient
        values = self.embedding.one_hot(0, categories) + 0 * vectors.sum() if self.num_values else None
        if self.learned is not None:
            vectors, index, values = _with_learned(vectors, index, values, self.learned)
        self.current = LineContexts(vectors, index if index.dim() == 2 else index.unsqueeze(1))
        self._one_hot = values
        try:
            yield LineContexts(vectors, index.t() if index.dim() == 2 else index)
        finally:
            self.current = self._one_hot = None

    def move_values(self, state_dict: dict[str, Tensor], prefix: str, rows: str) -> None:
        """Let what the words of a checkpoint have for values find its place by the values' names; new ones have zeros.

        Args:
            prefix: of these layers
            rows: name of what the words have, (V, values)
        """
        saved = saved_words(state_dict, f"{prefix}embedding.tables.0.")
        if not self.num_values or saved is None or rows not in state_dict:
            return
        columns = dict(zip(saved[0], state_dict[rows].unbind(1), strict=True))
        nothing, table = torch.zeros_like(state_dict[rows][:, 0]), self.embedding.tables[0]
        assert isinstance(table, WordRows)
        state_dict[rows] = torch.stack([columns.get(value, nothing) for value in table.words], 1)

    def to_input(self, x: Tensor) -> Tensor:
        """Return embeddings (B, T, d) with what the contexts add."""
        return x if self.input is None else x + self._of_positions(self.input(self._vectors()))

    def to_features(self, h: Tensor) -> Tensor:
        """Return h (B, T, width) with what the contexts add."""
        return h if self.shift is None else h + self._of_positions(self.shift(self._vectors()))

    def append(self, h: Tensor) -> Tensor:
        """Return h with the numbers behind it that meet those of each word, (B, T, width + ``appended``)."""
        if not self.appended:
            return h
        vectors = self._vectors() if self._one_hot is None else self._one_hot
        return torch.cat([h, self._of_positions(vectors.to(h)).expand(*h.shape[:2], -1)], dim=-1)

    def _vectors(self) -> Tensor:
        assert self.current is not None
        return self.current.vectors

    def _of_positions(self, vectors: Tensor) -> Tensor:
        """Return those of the contexts' vectors (C, size) that positions have, (B, 1, size) or (B, T, size)."""
        assert self.current is not None
        return F.embedding(self.current.index, vectors)


def _with_learned(vectors: Tensor, index: Tensor, values: Tensor | None, learned: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the vectors, the index and the values of contexts whose vectors each stream changes by itself.

    Args:
        vectors, values: of C contexts, (C, ...)
        index: (B) or (B, T)
        learned: (B, k), or (1, k) of all streams
    """
    streams = len(learned)
    if streams == 1:
        return vectors + learned, index, values
    apart = (vectors.unsqueeze(1) + learned).flatten(0, 1)  # every context as every stream has it, (C B, k)
    stream = torch.arange(streams, device=index.device)
    return (
        apart,
        index * streams + (stream if index.dim() == 1 else stream.unsqueeze(1)),
        None if values is None else values.repeat_interleave(streams, 0),
    )


def of_hypotheses(batch: Mapping[str, Tensor] | None, count: int) -> Mapping[str, Tensor] | None:
    """Return the contexts of hypotheses from those of the lines that they go on from: as many in a row for each."""
    if batch is None or len(batch["index"]) == count:
        return batch
    return {**batch, "index": batch["index"].repeat_interleave(count // len(batch["index"]))}


def reordered(batch: Mapping[str, Tensor], order: Tensor) -> Mapping[str, Tensor]:
    """Return the contexts where hypothesis i goes on from hypothesis order[i]."""
    return {**batch, "index": batch["index"].index_select(0, order.to(batch["index"].device))}


def _num_values_of(schema: Schema) -> int:
    """Return how many values the variable has whose values words have a number for, with the unknown one."""
    if [one.kind for one in schema.variables] != ["category"]:
        names = ", ".join(f"{one.name} ({one.kind})" for one in schema.variables)
        raise OptionError(f"--context-bias one-hot is for contexts of one category, not {names}: give rows or shift")
    if (count := len(schema.variables[0].values)) > MOST_VALUES:
        raise OptionError(
            f"--context-bias one-hot is for at most {MOST_VALUES:,} values, not the {count:,} of {schema.variables[0].name}: "
            "give rows or shift, or a larger --context-threshold"
        )
    return count + 1
