"""The unbounded cache: the nearest of all that was said (Grave, Cisse and Joulin 2017).

B: streams; T: positions; K: neighbours; d: size of h.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_groc.adapters.base import AdapterSettings, Cache, Use, register_cache
from fairseq_groc.adapters.mass import Seen
from fairseq_groc.adapters.search import Search, smallest, squared_distances
from fairseq_groc.adapters.store import Entries, EntryStore, open_store
from fairseq_groc.registry import Option

IN_MEMORY = 4_096  # entries of a stream until they go to disk


@register_cache(
    "unbounded",
    cache_neighbors=Option(1_024, "nearest words that the unbounded cache takes, K", "count", "neighbors"),
    cache_text=Option(None, "folder from python -m fairseq_groc remember: a text that the unbounded cache sees, too", "folder"),
)
class UnboundedCache(Cache):
    """p(w) proportional to the sum of exp(-|h - h_i|^2 / 2 b^2) over the K entries i nearest to h with the word w.

    The bandwidth b is the distance of the K-th (Grave et al. 2017, section 3.2).

    Args:
        neighbors: K
        remembered: entries of another text, seen by every stream besides its own
    """

    axis = "cache_neighbors"

    def __init__(self, neighbors: int, remembered: Search | None = None):
        self.neighbors, self.remembered = neighbors, remembered
        self._streams: list[Search] = []

    @classmethod
    def from_settings(cls, settings: AdapterSettings, opened: Search | None = None) -> UnboundedCache:
        return cls(settings.cache_neighbors, opened)

    @classmethod
    def open(cls, settings: AdapterSettings, model: Any, data: Path) -> Search | None:
        return Search(open_store(Path(settings.cache_text), model)) if settings.cache_text else None

    @classmethod
    def about(cls, opened: Search) -> dict[str, Any]:
        return {"path": str(opened.store.folder), "words": opened.store.count, **opened.store.about}  # type: ignore[attr-defined]

    @classmethod
    def refusals(cls, settings: AdapterSettings) -> dict[Use, str]:
        why = "a limited vocabulary does not go with --cache-text, whose words may be any: leave one out"
        return {"limit": why} if settings.cache_text else {}

    def see(self, queries: Tensor, keys: Tensor, tokens: Tensor) -> list[Any]:
        if not self._streams:
            self._streams = [Search(Entries(keys.size(2))) for _ in keys]
        views = []
        for stream, query, key, word in zip(self._streams, queries, keys, tokens, strict=True):
            views.append((stream, stream.store.count, query, key, word))
            said = word >= 0
            stream.store.append(key[said].cpu().numpy(), word[said].cpu().numpy())
            if stream.store.count > IN_MEMORY and not isinstance(stream.store, EntryStore):
                stream.store = _copy(stream.store, EntryStore(None, key.size(1)))
        return views

    def row(self, view: Any) -> Seen:
        stream, count, queries, keys, said = view
        late = torch.ones(len(queries), len(keys), dtype=torch.bool, device=queries.device).triu_(1)
        distances = squared_distances(queries, keys).masked_fill_(late | (said < 0), math.inf)
        tokens = said.expand_as(distances)
        found = [self._before(stream, count, queries, said, distances)]
        if self.remembered is not None and self.remembered.store.count:
            found.append(self._look_up(self.remembered, queries, self.remembered.store.count))
        distances = torch.cat([distances, *(near for near, _ in found)], 1)
        tokens = torch.cat([tokens, *(theirs for _, theirs in found)], 1)
        distances, tokens = smallest(distances, tokens, self.neighbors)
        farthest = distances.masked_fill(distances == math.inf, 0).amax(1, keepdim=True)  # b^2
        scores = distances.div_(-2 * farthest.clamp(min=torch.finfo(torch.float32).tiny))
        return Seen(scores, tokens.masked_fill(scores == -math.inf, -1))

    def _before(self, stream: Search, count: int, queries: Tensor, said: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nearest of what the stream said before the block, and of those of the block that the index holds.

        From which position on an entry is the index's does not depend on where blocks begin. Where that is within the block, the
        positions before and after it search apart, and the entry is struck from the *distances* of the latter.

        Args:
            count: entries before the block
            said: words of the block's entries, -1 for none, (T)
            distances: to the block's entries, (T, T); changed in place
        """
        number = count + (said >= 0).cumsum(0)  # of each entry of the block, from 1; seen at its position
        covered = [stream.covered(n) for n in number.tolist()]
        parts, begin = [], 0
        for indexed, group in itertools.groupby(covered):
            end = begin + len(list(group))
            distances[begin:end, number <= indexed] = math.inf
            parts.append(self._look_up(stream, queries[begin:end], max(count, indexed), indexed))
            begin = end
        width = max(near.size(1) for near, _ in parts)
        near = torch.cat([_widened(part, width, math.inf) for part, _ in parts])
        return near, torch.cat([_widened(tokens, width, -1) for _, tokens in parts])

    def _look_up(self, search: Search, queries: Tensor, count: int, indexed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the distances of the nearest of the first entries, and their words."""
        near, entries = search.nearest(queries, self.neighbors, count, indexed)
        _, stored = search.store.entries()
        if not len(stored):
            return near, entries
        return near, torch.from_numpy(stored[entries.clamp(min=0).cpu().numpy()].astype(np.int64)).to(queries.device)

    def reorder(self, order: Tensor) -> None:
        stores = [self._streams[i].store for i in order.tolist()]
        self._streams = [Search(_copy(store, Entries(store.dim))) for store in stores]  # hypotheses are short


def _widened(rows: Tensor, width: int, filler: float) -> Tensor:
    return torch.nn.functional.pad(rows, (0, width - rows.size(1)), value=filler)


def _copy(source: Entries, target: Entries) -> Entries:
    target.append(*source.entries())
    return target
