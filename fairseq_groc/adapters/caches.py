"""Caches: distributions over what a stream has said so far (GroC, section 5.1; Grave et al. 2017).

An *entry* of a stream is a word and its key: the h that predicted it. Position t of a block sees the entries strictly before its
own word: those of earlier blocks and the first t + 1 of the block, which begins with the entry of the last block's final h.
B: streams; T: positions of a block; d: size of h; n: entries seen. A word of -1 is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.base import AdapterSettings, Cache, register_cache
from fairseq_groc.adapters.mass import Seen
from fairseq_groc.registry import Option

LARGEST = 1 << 25  # similarities held at a time: 128 MB


@register_cache("unigram")
class UnigramCache(Cache):
    """p(w) = count of w so far / number of words so far."""

    def __init__(self) -> None:
        self._counts: list[tuple[Tensor, Tensor]] | None = None  # a stream's distinct words, sorted, and their counts

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        if self._counts is None:
            nothing = tokens.new_zeros(0)
            self._counts = [(nothing, nothing)] * len(tokens)
        views = [(*before, now) for before, now in zip(self._counts, tokens, strict=True)]
        self._counts = [_count(*view) for view in views]
        return views

    def row(self, view: Any) -> Seen:
        known, counts, now = view
        distinct, before = _count(known, counts, now, ones=False)
        totals = torch.cumsum(now.unsqueeze(1) == distinct, dim=0) + before  # (T, U)
        totals[:, distinct < 0] = 0
        return Seen(totals.log(), distinct)

    def reorder(self, order: Tensor) -> None:
        if self._counts is not None:
            self._counts = [self._counts[i] for i in order.tolist()]


def _count(known: Tensor, counts: Tensor, now: Tensor, ones: bool = True) -> tuple[Tensor, Tensor]:
    """Return the distinct words of *known* and *now*, and their counts; those of *now* count if *ones* says so."""
    distinct, places = torch.unique(torch.cat([known, now]), return_inverse=True)
    numbers = torch.cat([counts, torch.full_like(now, int(ones))])
    return distinct, counts.new_zeros(len(distinct)).index_add_(0, places, numbers)


@register_cache(
    "local",
    # the best for composed models on unseen texts
    cache_theta=Option(3.0, "theta of the local cache (paper: 0.5)", several="thetas"),
    cache_size=Option(10_000, "words that the local cache remembers, N", "count", "sizes"),
)
class LocalCache(Cache):
    """p(w) proportional to the sum of exp(theta h . h_i) over the last N entries i with the word w (GroC, eq. 6).

    Args:
        theta: of the similarity
        size: N
    """

    axis = "cache_theta"

    def __init__(self, theta: float, size: int):
        self.theta, self.size = theta, size
        self._keys = self._tokens = torch.empty(0)
        self._begin = self._end = 0

    @classmethod
    def from_settings(cls, settings: AdapterSettings, opened: Any = None) -> LocalCache:
        return cls(settings.cache_theta, settings.cache_size)

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        self._make_room(keys, tokens)
        before, self._end = self._end, self._end + tokens.size(1)
        self._keys[:, before : self._end] = keys
        self._tokens[:, before : self._end] = tokens
        first = max(self._begin, before + 1 - self.size)
        seen, said = self._keys[:, first : self._end], self._tokens[:, first : self._end]
        self._begin = max(self._begin, self._end + 1 - self.size)  # what the next block still sees
        products = _Products(queries * self.theta, seen)
        return [(products, b, w, before - first) for b, w in enumerate(said)]

    def _make_room(self, keys: Tensor, tokens: Tensor) -> None:
        """Move to a larger buffer if the block does not fit: a new one, since views of the last are in use."""
        kept, more = self._end - self._begin, tokens.size(1)
        if self._keys.dim() == 3 and self._end + more <= self._keys.size(1):
            return
        room = kept + more + max(min(kept, self.size), 4 * more, 256)
        old_keys, old_tokens = self._keys, self._tokens
        self._keys, self._tokens = keys.new_empty(len(keys), room, keys.size(2)), tokens.new_empty(len(tokens), room)
        if kept:
            self._keys[:, :kept] = old_keys[:, self._begin : self._end]
            self._tokens[:, :kept] = old_tokens[:, self._begin : self._end]
        self._begin, self._end = 0, kept

    def row(self, view: Any) -> Seen:
        products, stream, tokens, before = view
        return Seen(_visible(products.of(stream), tokens, before, self.size), tokens)

    @classmethod
    def shared(cls, settings: Sequence[AdapterSettings]) -> list[tuple[AdapterSettings, Sequence[AdapterSettings]]]:
        largest = max(settings, key=lambda one: one.cache_size)
        return [(largest.replaced(cache_theta=1.0), settings)]

    def rows(self, view: Any, settings: Sequence[AdapterSettings]) -> Iterator[Seen]:
        products, stream, tokens, before = view  # of a theta of 1
        for one in settings:
            yield Seen(_visible(products.of(stream) * one.cache_theta, tokens, before, one.cache_size), tokens)

    def reorder(self, order: Tensor) -> None:
        if self._end:
            self._keys = self._keys[:, self._begin : self._end].index_select(0, order)
            self._tokens = self._tokens[:, self._begin : self._end].index_select(0, order)
            self._begin, self._end = 0, self._keys.size(1)


class _Products:
    """Similarities of a block's positions to all entries: many streams in one product, as far as memory allows.

    Args:
        queries: (B, T, d)
        keys: (B, n, d)
    """

    def __init__(self, queries: Tensor, keys: Tensor):
        self._queries, self._keys = queries, keys
        self._together = max(1, LARGEST // (queries.size(1) * keys.size(1)))  # streams
        self._group, self._products = -1, queries

    def of(self, stream: int) -> Tensor:
        """Return those of one stream, (T, n)."""
        group, place = divmod(stream, self._together)
        if group != self._group:
            part = slice(group * self._together, (group + 1) * self._together)
            self._group, self._products = group, torch.bmm(self._queries[part], self._keys[part].transpose(1, 2))
        return self._products[place]


def _visible(scores: Tensor, tokens: Tensor, before: int, size: int) -> Tensor:
    """Hide, in place, what a position must not see: entries after its own place, those more than *size* back, and no words.

    Args:
        scores: (T, n)
        tokens: (n)
        before: entries before the block
    """
    length, count = scores.shape
    late = torch.ones(length, count - before, dtype=torch.bool, device=scores.device).triu_(1)
    scores[:, before:].masked_fill_(late, -math.inf)
    old = before + length - size  # entries that the last position does not see any more
    if old > 0:
        position = torch.arange(length, device=scores.device).unsqueeze(1)
        gone = torch.arange(old, device=scores.device) <= before + position - size
        scores[:, :old].masked_fill_(gone, -math.inf)
    nothing = tokens < 0
    return scores.masked_fill_(nothing, -math.inf) if bool(nothing.any()) else scores
