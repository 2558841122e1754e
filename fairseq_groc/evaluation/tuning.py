"""Search the settings of adapters: the model reads a text once, its caches read what it made of it as often as need be.

n: tokens; d: size of h.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from fairseq_groc.adapters import CACHES, OPTIONS, Adapter, AdapterSettings, Memory, View
from fairseq_groc.adapters.mass import mix
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.evaluation.grid import Grid, passes
from fairseq_groc.evaluation.scoring import Place, blocks
from fairseq_groc.modules.probabilities import perplexity, uniform_mass, uniform_mixture_at

TIE = 1e-9  # perplexities that differ by less, relatively, are the same


@dataclass
class Pass:
    """What one pass finds of every token.

    Args:
        lprobs: of the target by the model alone, (n)
        new: log-probability of all new words together, (n)
        targets: (n)
        real: mask (V) of the real words, which the uniform distribution has
        new_words: mask (V) of those that the training text lacks
        mass: for settings of a cache, log of its mass on the target, (n), and whether it remembers anything, (n)
        known: what the cache knows besides what was said, a mask (V), and the log-probabilities of these words together, (2, n):
            of those that the training text has, of those that it lacks; None: nothing
    """

    lprobs: Tensor
    new: Tensor
    targets: Tensor
    real: Tensor
    new_words: Tensor
    mass: dict[tuple[float, ...], tuple[Tensor, Tensor]] = field(default_factory=dict)
    known: tuple[Tensor, Tensor] | None = None


class States:
    """The h of a text block by block, in a file of 4 d bytes a token: caches read it again without the model.

    Args:
        place: how the text is read
        file: an empty one, for them
    """

    def __init__(self, model: Any, dataset: StreamDataset, place: Place, file: IO[bytes]):
        self.model, self._dataset, self._place, self._file = model, dataset, place, file
        self.padding = dataset.dictionary.pad()

    def blocks(self) -> Iterator[dict[str, Any]]:
        """Yield the batches."""
        return blocks(self.model, self._dataset, self._place)

    def append(self, h: Tensor) -> None:
        """Append those of a block, (B, T, d)."""
        np.save(self._file, h.detach().float().cpu().numpy())

    def __iter__(self) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Yield those of every block, and the batch."""
        self._file.seek(0)
        for sample in self.blocks():
            yield torch.from_numpy(np.load(self._file)).to(sample["target"].device), sample


@torch.no_grad()
def read(states: States, adapter: Adapter, cache: str) -> Pass:
    """Run the model over a text once.

    Args:
        states: of this text, empty as yet
        adapter: has what changes the model itself, and knows which words are real and which are new
        cache: nothing is kept for it where it is none
    """
    decoder = states.model.decoder
    decoder.adapter = adapter if adapter.settings.adapters() else None
    real, unseen = (words.to(decoder.matrices.impossible.device) for words in (adapter.real, adapter.new))
    known = CACHES[cache].known(adapter.opened.get(cache), real) if cache != "none" else None
    columns: dict[str, list[Tensor]] = {name: [] for name in ("lprobs", "new", "targets")}
    of_known: list[Tensor] = []
    for sample in states.blocks():
        target = sample["target"]
        kept = target != states.padding
        output = states.model(**sample["net_input"])
        lprobs = torch.log_softmax(output[0].float(), -1)
        columns["lprobs"].append(lprobs.gather(2, target.unsqueeze(2))[..., 0][kept])
        columns["new"].append(lprobs[..., unseen].logsumexp(-1)[kept])  # -inf if there are none
        columns["targets"].append(target[kept])
        if known is not None:
            old_and_new = (known & ~unseen, known & unseen)
            of_known.append(torch.stack([lprobs[..., words].logsumexp(-1)[kept] for words in old_and_new]))
        if cache != "none":
            states.append(decoder.scoring_layer.features)
    lprobs, new, targets = (torch.cat(parts) for parts in columns.values())
    return Pass(lprobs, new, targets, real, unseen, {}, None if known is None else (known, torch.cat(of_known, 1)))


@torch.no_grad()
def remember(found: Pass, states: States, adapter: Adapter, grid: Grid) -> None:
    """Let the cache read the text with those of its settings that it has not had yet."""
    missing = [chosen for chosen in grid.of_cache() if chosen not in found.mass]
    if not missing:
        return
    names = f"{grid.cache}_weight", *grid.cache_options()
    settings = [AdapterSettings(**dict(zip(names, (0.5, *one), strict=True))) for one in missing]
    shared = CACHES[grid.cache].shared(settings)
    parts: list[tuple[Tensor, Tensor]] = []
    for h, sample in states:
        if sample["net_input"]["block"].begin == 0:  # streams of another group, which remember nothing
            memories = [(Memory(adapter.with_settings(one)), served) for one, served in shared]
        kept = sample["target"] != states.padding
        views = [(memory.see(h, sample["net_input"]["src_tokens"], states.padding), served) for memory, served in memories]
        mass, present = _mass(views, sample["target"])
        parts.append((mass[:, kept], present[:, kept]))
    masses, remembered = (torch.cat(of, dim=1) for of in zip(*parts, strict=True))  # of each setting, (S, n)
    found.mass.update(zip(missing, zip(masses, remembered, strict=True), strict=True))


def _mass(views: list[tuple[View, Sequence[AdapterSettings]]], target: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each setting the log of the mass on the targets, and where anything is remembered, (S, B, T) each."""
    found: list[Sequence[tuple[Tensor, Tensor]]] = []  # by setting, of each stream
    for view, settings in views:
        of = [[seen.mass_at(own) for seen in view.seen_with(settings, stream)] for stream, own in enumerate(target)]
        found += zip(*of, strict=True)
    mass, present = (torch.stack([torch.stack([pair[which] for pair in pairs]) for pairs in found]) for which in (0, 1))
    return mass, present


def search(found: Pass, grid: Grid, tried: Mapping[AdapterSettings, float]) -> Iterator[tuple[AdapterSettings, float]]:
    """Yield every setting of the grid that was not tried and its perplexity; infinite where a token is impossible."""
    model, lprobs, known = None, found.lprobs, torch.zeros(())
    for settings in grid.settings():
        if settings in tried:
            continue
        if model != (settings.new_word_discount, settings.uniform_weight):
            model = settings.new_word_discount, settings.uniform_weight
            lprobs, known = _adapted(found, *model), _adapted_known(found, *model)
        mixed = lprobs
        for weight in settings.caches().values():
            mass, present = found.mass[grid.of_cache_in(settings)]
            mixed = mix(lprobs, weight, mass + known, present)
        yield settings, perplexity(float(-mixed.double().sum()), len(mixed))


def _adapted(found: Pass, factor: float, uniform: float) -> Tensor:
    """Return what needs no cache: p' = p f / (1 - (1 - f) p(new)), with f only on new words, and the uniform distribution."""
    lprobs = found.lprobs
    if factor != 1:
        shift = torch.where(found.new_words[found.targets], math.log(factor), 0.0)
        lprobs = lprobs + shift - torch.log1p((factor - 1) * found.new.exp())
    return uniform_mixture_at(lprobs, uniform, found.real, found.targets) if uniform > 0 else lprobs


def _adapted_known(found: Pass, factor: float, uniform: float) -> Tensor:
    """Return the same of the words that the cache knows, together, which it shares out; 0 where it knows none."""
    if found.known is None:
        return torch.zeros(())
    words, (old, new) = found.known
    known = torch.logaddexp(old, new + math.log(factor)) - torch.log1p((factor - 1) * found.new.exp())
    return uniform_mass(known, uniform, found.real, words)


def best(tried: Mapping[AdapterSettings, float]) -> tuple[AdapterSettings, float]:
    """Return the setting with the smallest perplexity; of equals the one nearest to what changes nothing."""
    lowest = min(tried.values())
    equal = [settings for settings, ppl in tried.items() if ppl <= lowest * (1 + TIE)]
    winner = min(equal, key=lambda s: [_distance(value, OPTIONS[name].default) for name, value in s.values().items()])
    return winner, tried[winner]


def _distance(value: Any, default: Any) -> float:
    return float(value != default) if isinstance(default, str) else abs(value - default)


def heat_map(
    tried: Mapping[AdapterSettings, float], cache: str
) -> tuple[str, list[float], list[float], list[list[float]]] | None:
    """Return the name and values of one axis, lambda's values, and the perplexities between, at the best of what else varies."""
    axis = CACHES[cache].axis if cache != "none" else None
    tried = {s: ppl for s, ppl in tried.items() if s.caches()}
    if axis is None or not tried:
        return None
    winner, _ = best(tried)
    tried = {s: ppl for s, ppl in tried.items() if all(getattr(s, name) == getattr(winner, name) for name in passes())}
    across = sorted({getattr(s, axis) for s in tried})
    weights = sorted({s.caches()[cache] for s in tried}, reverse=True)
    places: list[list[dict[str, Any]]] = [[{axis: a, f"{cache}_weight": w} for a in across] for w in weights]
    table = [[tried[winner.replaced(**place)] for place in row] for row in places]  # the rest is the winner's
    return axis, across, [1 - w for w in weights], table
