"""Search the settings of adapters in one pass of the model: states are computed once, and many settings are scored.

n: tokens; S: settings of a cache.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.modules.adapters import CACHES, OPTIONS, Adapter, AdapterSettings, Memory
from fairseq_groc.modules.adapters.caches import LocalCache
from fairseq_groc.modules.adapters.mass import mix
from fairseq_groc.modules.probabilities import perplexity, uniform_mixture_at


@dataclass
class Grid:
    """What is tried. Weights are those of the cache, 1 - lambda of the paper.

    Args:
        cache: a registered one, or none
        weights: of the cache
        thetas, sizes: of the local cache
        neighbors: of the unbounded cache
        uniform: weights of the uniform distribution
        discounts: of new words
        more: values of other options, by name
    """

    cache: str
    weights: Sequence[float] = (0.034, 0.067, 0.1, 0.133, 0.167)  # GroC, appendix C.4: lambda from 0.833 to 0.966
    thetas: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    sizes: Sequence[int] = (5_000,)
    neighbors: Sequence[int] = (1_024,)
    uniform: Sequence[float] = (0.0,)
    discounts: Sequence[float] = (1.0,)
    more: Dict[str, Sequence[float]] = field(default_factory=dict)

    def of_cache(self) -> List[Dict[str, Any]]:
        """Return the settings that change what the cache remembers, not how much of it is mixed in."""
        given = {"cache_theta": self.thetas, "cache_size": self.sizes, "cache_neighbors": self.neighbors, **self.more}
        names = CACHES[self.cache].options if self.cache != "none" else ()
        values = itertools.product(*(given.get(name, (OPTIONS[name].default,)) for name in names))
        return [dict(zip(names, chosen)) for chosen in values]


@dataclass
class Pass:
    """What one pass finds of every token.

    Args:
        lprobs: of the target by the model alone, (n)
        new: log-probability of all new words together, (n)
        targets: (n)
        mass: log of the cache's mass on the target, (S, n)
        present: whether the cache remembers anything, (n)
        words: mask (V) of the real words, which the uniform distribution has
        new_words: mask (V) of those that the training text lacks
    """

    lprobs: Tensor
    new: Tensor
    targets: Tensor
    mass: Tensor
    present: Tensor
    words: Tensor
    new_words: Tensor


@torch.no_grad()
def read(model, dataset: StreamDataset, place: Place, adapter: Adapter, grid: Grid) -> Pass:
    """Run the model over a text once.

    Args:
        adapter: knows which words are real and which are new
    """
    decoder, padding = model.decoder, dataset.dictionary.pad()
    decoder.adapter = None
    columns: Dict[str, List[Tensor]] = {name: [] for name in ("lprobs", "new", "targets", "present", "mass")}
    for sample in blocks(model, dataset, place):
        if sample["net_input"]["block"].begin == 0:  # streams of another group, which remember nothing
            memories = [Memory(adapter.with_settings(settings)) for settings in _settings_of(grid)]
        tokens, target = sample["net_input"]["src_tokens"], sample["target"]
        kept = target != padding
        output = model(**sample["net_input"])
        lprobs = torch.log_softmax(output[0].float(), -1)
        h = getattr(decoder, decoder.output_layer_name).features
        mass, present = _mass([memory.see(h, tokens, padding) for memory in memories], target, grid)
        columns["lprobs"].append(lprobs.gather(2, target.unsqueeze(2))[..., 0][kept])
        columns["new"].append(lprobs[..., adapter.new].logsumexp(-1)[kept])  # -inf if there are none
        columns["targets"].append(target[kept])
        columns["present"].append(present[kept])
        columns["mass"].append(mass[:, kept])
    found = {name: torch.cat(parts, dim=-1) for name, parts in columns.items()}
    return Pass(**found, words=adapter.words, new_words=adapter.new)


def _settings_of(grid: Grid) -> List[AdapterSettings]:
    """Return settings of one memory for each cache that reads the text by itself; a local one serves all of its settings."""
    if grid.cache == "none":
        return []
    weight: Dict[str, Any] = {f"{grid.cache}_weight": 0.5}
    if grid.cache == "local":
        return [AdapterSettings(**weight, cache_theta=1.0, cache_size=max(grid.sizes))]
    return [AdapterSettings(**weight, **chosen) for chosen in grid.of_cache()]


def _mass(views: List, target: Tensor, grid: Grid) -> Tuple[Tensor, Tensor]:
    """Return the log of the mass on the targets for each setting, (S, B, T), and where anything is remembered, (B, T)."""
    if not views:
        return torch.full((1, *target.shape), -math.inf, device=target.device), torch.zeros_like(target, dtype=torch.bool)
    found, present = [], None
    for view in views:
        ((_, cache, streams),) = view.rows
        rows = []
        for stream, targets in zip(streams, target):
            if isinstance(cache, LocalCache):
                seen = list(cache.rows(stream, grid.thetas, grid.sizes))
            else:
                seen = [cache.row(stream)]
            found_at = [s.mass_at(targets) for s in seen]
            rows.append((torch.stack([mass for mass, _ in found_at]), found_at[0][1]))
        found.append(torch.stack([mass for mass, _ in rows], 1))
        present = torch.stack([there for _, there in rows])
    return torch.cat(found), present  # type: ignore[return-value]


def search(found: Pass, grid: Grid) -> Iterator[Tuple[AdapterSettings, float]]:
    """Yield every setting of the grid and its perplexity; infinite where a token is impossible."""
    weights = grid.weights if grid.cache != "none" else (0.0,)
    for discount, uniform in itertools.product(grid.discounts, grid.uniform):
        lprobs = _discounted(found, discount)
        if uniform > 0:
            lprobs = -uniform_mixture_at(-lprobs, uniform, found.words, found.targets)
        for number, chosen in enumerate(grid.of_cache()):
            for weight in weights:
                settings = AdapterSettings(new_word_discount=discount, uniform_weight=uniform)
                mixed = lprobs
                if grid.cache != "none":
                    settings = settings.replaced(**{f"{grid.cache}_weight": weight, **chosen})
                    mixed = mix(lprobs, weight, found.mass[number], found.present)
                yield settings, perplexity(float(-mixed.double().sum()), len(mixed))


def _discounted(found: Pass, factor: float) -> Tensor:
    """p' = p f / (1 - (1 - f) p(new)), with f only on new words."""
    if factor == 1:
        return found.lprobs
    shift = torch.where(found.new_words[found.targets], math.log(factor), 0.0)
    return found.lprobs + shift - torch.log1p((factor - 1) * found.new.exp())


def best(tried: Sequence[Tuple[AdapterSettings, float]]) -> Tuple[AdapterSettings, float]:
    """Return the setting with the smallest perplexity; the first of equals."""
    return min(tried, key=lambda pair: pair[1])


def heat_map(
    tried: Sequence[Tuple[AdapterSettings, float]], grid: Grid
) -> Optional[Tuple[str, List[float], List[float], List[List[float]]]]:
    """Return the name and values of one axis, lambda's values, and the perplexities between, at the best of what else varies."""
    axis = {"local": "cache_theta", "unbounded": "cache_neighbors"}.get(grid.cache)
    if axis is None:
        return None
    winner, _ = best(tried)
    across = sorted({getattr(s, axis) for s, _ in tried})
    weights = sorted({s.caches()[grid.cache] for s, _ in tried}, reverse=True)
    table = {}
    for s, ppl in tried:
        place: Dict[str, Any] = {axis: getattr(s, axis), f"{grid.cache}_weight": s.caches()[grid.cache]}
        if winner.replaced(**place) == s:  # the rest is the winner's
            table[place[axis], place[f"{grid.cache}_weight"]] = ppl
    return axis, across, [1 - w for w in weights], [[table[a, w] for a in across] for w in weights]
