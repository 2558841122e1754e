"""Nearest keys of a growing store: all of them compared while there are few, an index of faiss beyond.

Q: queries; K: neighbours; n: entries; d: size of a key.
"""

import logging
import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.adapters.store import Entries
from fairseq_groc.errors import CacheError, imported

logger = logging.getLogger(__name__)
EXACT = 100_000  # entries up to which all are compared
CHUNK = 16_384  # entries compared at a time
LISTS, PROBES = 1_024, 32  # of the index: lists of entries, and how many of them a query reads
QUERIES = 16  # at a time, whose candidates' keys are held
_GROWING = threading.Lock()  # threads share what is remembered of a text; of the module, since models are copied
OVERSAMPLE = 2  # candidates of the index for each neighbour; their distances are then computed from the keys


class Search:
    """Find the nearest of a store's first entries.

    Args:
        store: the entries
        exact: up to so many entries all are compared; beyond, an approximate index of faiss holds them in multiples of as many;
            None: ``EXACT``
    """

    def __init__(self, store: Entries, exact: int | None = None):
        self.store, self.exact = store, EXACT if exact is None else exact
        self._index: Any | None = None
        self._middle = np.float32(0)  # of the keys: what all have in common would take the digits of the index

    def covered(self, count: int) -> int:
        """Return how many of the first *count* entries are the index's; the others are compared."""
        return count // self.exact * self.exact if count > self.exact else 0

    def nearest(self, queries: Tensor, neighbors: int, count: int, indexed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the squared distances of the nearest of the first *count* entries and which they are, (Q, K) each.

        Entries that are missing are -1, infinitely far.

        Args:
            queries: (Q, d)
            neighbors: K
            indexed: how many of them are the index's; None: ``covered(count)``
        """
        indexed = self._grow(self.covered(count) if indexed is None else indexed)
        found = [self._compare(queries, neighbors, indexed, count)]
        if indexed:
            found.append(self._look_up(queries, neighbors, count))
        distances, entries = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        return smallest(distances, entries, neighbors)

    def _compare(self, queries: Tensor, neighbors: int, begin: int, end: int) -> tuple[Tensor, Tensor]:
        """Compare with all entries [begin, end)."""
        distances, entries = queries.new_zeros(len(queries), 0), queries.new_zeros(len(queries), 0, dtype=torch.long)
        keys, _ = self.store.entries()
        for first in range(begin, end, CHUNK):
            chunk = torch.tensor(keys[first : min(first + CHUNK, end)]).to(queries.device)
            near = squared_distances(queries, chunk)
            number = torch.arange(first, first + len(chunk), device=queries.device).expand(len(queries), -1)
            distances, entries = smallest(torch.cat([distances, near], 1), torch.cat([entries, number], 1), neighbors)
        return distances, entries

    def _grow(self, wanted: int) -> int:
        """Let the index hold so many entries, if it does not hold more; return how many it holds."""
        with _GROWING:
            held = 0 if self._index is None else self._index.ntotal
            if wanted <= held:
                return held
            keys, _ = self.store.entries()
            if self._index is None:
                self._middle = keys[: self.exact].mean(0, dtype=np.float64).astype(np.float32)
                self._index = _new_index(keys[: self.exact] - self._middle)
            for first in range(held, wanted, CHUNK):
                self._index.add(keys[first : min(first + CHUNK, wanted)] - self._middle)
            logger.info(f"unbounded cache: {wanted:,} entries indexed")
            return wanted

    def _look_up(self, queries: Tensor, neighbors: int, count: int) -> tuple[Tensor, Tensor]:
        """Ask the index for the first *count* entries alone, and measure what it finds."""
        import faiss

        assert self._index is not None
        keys, _ = self.store.entries()
        parameters: Any = faiss.SearchParametersIVF  # its types lack these
        first = parameters(sel=faiss.IDSelectorRange(0, count), nprobe=self._index.nprobe)
        distances, entries = [], []
        for some in queries.split(QUERIES):
            _, found = self._index.search(some.float().cpu().numpy() - self._middle, OVERSAMPLE * neighbors, params=first)
            near = torch.from_numpy(keys[np.maximum(found, 0)]).to(queries.device)  # (n, 2K, d)
            entries.append(torch.from_numpy(found).to(queries.device))
            distances.append((near - some.unsqueeze(1)).square_().sum(-1))
        number = torch.cat(entries)
        return torch.cat(distances).masked_fill_(number < 0, float("inf")), number


def squared_distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Return |q - k|^2, (Q, n), in double precision and from a middle: else rounding would hide near neighbours."""
    middle = queries[:1].double()
    return torch.cdist(queries.double() - middle, keys.double() - middle).square_().float()


def smallest(distances: Tensor, entries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Keep the *count* smallest distances of every row, and their entries."""
    if distances.size(1) <= count:
        return distances, entries
    kept, places = distances.topk(count, dim=1, largest=False)
    return kept, entries.gather(1, places)


def _new_index(sample: NDArray[np.float32]) -> Any:
    """Return an empty index trained on a sample of keys: inverted lists of keys in four bits a number.

    Raises:
        CacheError: faiss is not installed.
    """
    missing = CacheError(
        f"an unbounded cache of more than {len(sample):,} words needs faiss: pip install faiss-cpu, or give "
        "--local-weight in place of --unbounded-weight"
    )
    faiss = imported("faiss", missing)
    lists = max(1, min(LISTS, len(sample) // 39))  # faiss wants 39 training points a list
    index = faiss.index_factory(sample.shape[1], f"IVF{lists},SQ4")  # four bits a number: half a byte
    index.nprobe = min(PROBES, lists)
    index.train(sample)
    return index
