"""A pipeline of adapters: from a model's log-probabilities to those that fit a text.

B: streams; T: positions; V: vocabulary; d: size of h.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.base import ADAPTERS, AdapterSettings, Cache, TextAdapter
from fairseq_groc.adapters.mass import Distribution, Seen, add_mass, mix
from fairseq_groc.modules.per_thread import PerThread, having
from fairseq_groc.modules.probabilities import uniform_mass, uniform_mixture, uniform_mixture_at

MassOf = Callable[[Tensor], Tensor]


class View:
    """What the adapters know at each position of a block.

    Args:
        adapter: whose view this is
        memory: of the streams
        rows: for each cache its weight, the cache, and for every stream what it remembers
        shape: (B, T)
    """

    def __init__(self, adapter: Adapter, memory: Memory, rows: list[tuple[float, Cache, list[Any]]], shape: tuple[int, int]):
        self._adapter, self.memory, self.rows, self._shape = adapter, memory, rows, shape
        self._done = 0
        self._last: dict[int, tuple[int, Tensor, Seen | Distribution]] = {}  # parts of one stream ask for the same again

    def seen(self, number: int, stream: int) -> Seen | Distribution:
        """Return what a stream remembers in the cache of a number."""
        real, last = self._adapter.real, self._last.get(number)
        if last is None or last[0] != stream or last[1] is not real:  # the vocabulary may have changed meanwhile
            _, cache, views = self.rows[number]
            last = self._last[number] = stream, real, cache.row(views[stream]).within(real)
        return last[2]

    def seen_with(self, settings: Sequence[AdapterSettings], stream: int) -> list[Seen | Distribution]:
        """Return what a stream remembers in the only cache with each of the settings that it serves (``Cache.shared``)."""
        ((_, cache, views),) = self.rows
        return [seen.within(self._adapter.real) for seen in cache.rows(views[stream], settings)]

    def adapt(self, lprobs: Tensor) -> Tensor:
        """Return the adapted log-probabilities of all words, (B, T, V), in place of the model's.

        A part of the positions, (1, n, V), goes on where the last part ended (fairseq's ``--softmax-batch``).
        """
        lprobs = self._adapter.adapt_model(lprobs)
        if lprobs.shape[:2] == self._shape:
            for stream, own in enumerate(lprobs):
                self._add_caches(own, stream, slice(None))
        else:
            self._add_part(lprobs[0])
        return lprobs

    def _add_caches(self, lprobs: Tensor, stream: int, positions: slice) -> None:
        """Mix the caches into some positions of a stream, (n, V)."""
        rows = [self.seen(number, stream) for number in range(len(self.rows))]
        # before any of them changes what the model says
        parts = [one.beside(lprobs, positions) for one in rows]
        for (weight, _, _), part in zip(self.rows, parts, strict=True):
            if isinstance(part, Seen):
                add_mass(lprobs, weight, part)
            else:
                lprobs.copy_(torch.logaddexp(lprobs + math.log1p(-weight), part + math.log(weight)))

    def _add_part(self, lprobs: Tensor) -> None:
        begin, self._done = self._done, self._done + len(lprobs)
        length = self._shape[1]
        for stream in range(begin // length, -(-self._done // length)):
            first, last = max(begin, stream * length), min(self._done, (stream + 1) * length)
            self._add_caches(lprobs[first - begin : last - begin], stream, slice(first - stream * length, last - stream * length))

    def adapt_at(self, lprobs: Tensor, targets: Tensor, mass_of: MassOf | None = None) -> Tensor:
        """Return the adapted log-probabilities of the targets, (B, T), from the model's; the other words are never needed.

        Args:
            lprobs: of the targets, discounted already, (B, T)
            targets: (B, T)
            mass_of: from a mask of words, (V), to the log of what the model gives them together, discounted already, (B, T);
                None: no adapter asks for it
        """
        model = lprobs = self._adapter.uniform_at(lprobs, targets)
        for number, (weight, _, _) in enumerate(self.rows):
            seen = [self.seen(number, stream).mass_at(target) for stream, target in enumerate(targets)]
            mass, present = (torch.stack(part) for part in zip(*seen, strict=True))
            last = self.seen(number, len(targets) - 1)
            if isinstance(last, Distribution):  # all streams know the same words
                assert mass_of is not None
                of_known = self._adapter.uniform_mass(mass_of(last.known), last.known)
                mass, present = torch.where(present, mass.to(model) + of_known, model), torch.ones_like(present)
            lprobs = mix(lprobs, weight, mass, present)
        return lprobs


class Memory:
    """What a group of streams has said: the adapters with a history, and the h whose word comes next."""

    def __init__(self, adapter: Adapter):
        self._adapter = adapter
        self._adapters = adapter.new_adapters()
        self._pending: Tensor | None = None
        self._read: tuple[Tensor, Tensor] | None = None  # tokens and h of the block before

    def see(self, h: Tensor, tokens: Tensor, padding: int, beyond: Tensor | None = None) -> View:
        """Read a block and return what its positions know; the next block goes on after it.

        Args:
            h: (B, T, d)
            tokens: the block's inputs, (B, T): each is the word that the h before it predicted
            padding: the token that fills up
            beyond: mask (V) of words that may not be predicted; None: all may
        """
        h = h.detach().float()
        weights = self._adapter.cache_weights
        if not weights:
            return View(self._adapter, self, [], (h.size(0), h.size(1)))
        read = tokens.masked_fill(tokens == padding, -1)
        said = read if beyond is None else read.masked_fill(beyond.to(tokens.device)[tokens], -1)
        if self._pending is None:  # the first input of a text was not predicted
            said = said.index_fill(1, torch.zeros(1, dtype=torch.long, device=said.device), -1)
        first = torch.zeros_like(h[:, :1]) if self._pending is None else self._pending
        keys = torch.cat([first, h[:, :-1]], dim=1)
        self._pending = h[:, -1:]
        caches = [(weights[name], one) for name, one in self._adapters.items() if isinstance(one, Cache)]
        rows = [(weight, cache, cache.see(h, keys, read if cache.reads_all else said)) for weight, cache in caches]
        return View(self._adapter, self, rows, (h.size(0), h.size(1)))

    @contextmanager
    def reading(self, model: Any, tokens: Tensor, running: bool, generating: bool) -> Iterator[list[Tensor]]:
        """Let the adapters act before and while a model reads tokens, (B, T); their h is to be appended to the list.

        What they do after a block waits for the next: only then are its scores made, by whatever makes them, and only then is
        known what followed its last token.

        Args:
            running, generating: as ``TextAdapter.follows`` has them
        """
        adapters, h = [one for one in self._adapters.values() if one.follows(running, generating)], list[Tensor]()
        with torch.set_grad_enabled(torch.is_grad_enabled() or any(one.learns for one in adapters)):
            for one in adapters:
                if self._read is not None:
                    before, made = self._read
                    one.after_block(model, before, made, torch.cat([before[:, 1:], tokens[:, :1]], dim=1))
                one.before_block(model, tokens)
            with self.acting(model):
                yield h
        self._read = (tokens, h[0]) if adapters else None

    @contextmanager
    def acting(self, model: Any) -> Iterator[None]:
        """Make of a model what the adapters want it to be."""
        with ExitStack() as stack:
            for one in self._adapters.values():
                stack.enter_context(one.acting(model))
            yield

    def forked(self) -> Memory:
        """Return another that goes on from here by itself: neither changes what the other has."""
        twin = copy.copy(self)
        last = self._pending if self._read is None else self._read[0]
        order = torch.arange(0) if last is None else torch.arange(len(last), device=last.device)
        twin._adapters = {name: one.forked(order) for name, one in self._adapters.items()}
        return twin

    def reorder(self, order: Tensor) -> None:
        """Let stream i go on from what stream order[i] has said (beam search)."""
        if self._pending is not None:
            self._pending = self._pending.index_select(0, order)
        if self._read is not None:
            tokens, h = self._read
            self._read = tokens.index_select(0, order), h.index_select(0, order)
        for one in self._adapters.values():
            one.reorder(order)


class Adapter:
    """Adapt the distributions of one model over one vocabulary.

    Args:
        settings: what to do
        real: mask (V) of the real words, no special symbols and no fillers
        new: mask (V) of those that the training text lacks
        opened: what adapters with a history have read from disk, by name: ``AdapterSettings.open``
    """

    _own_real = PerThread()

    def __init__(self, settings: AdapterSettings, real: Tensor, new: Tensor, opened: Mapping[str, Any] | None = None):
        self.settings, self.opened = settings, opened or {}
        self.cache_weights = settings.caches()  # every block asks for them
        self._real, self.new = real, new

    @property
    def real(self) -> Tensor:
        """The mask of the real words that this thread predicts, (V) or (T, V)."""
        own: Tensor | None = self._own_real
        return self._real if own is None else own

    def over(self, real: Tensor) -> AbstractContextManager[None]:
        """Let this thread alone adapt distributions over these words, (V)."""
        return having(self, "_own_real", real)

    def with_settings(self, settings: AdapterSettings) -> Adapter:
        """Return an adapter of the same words that does something else with what is opened."""
        return Adapter(settings, self._real, self.new, self.opened)

    def about(self) -> dict[str, dict[str, Any]]:
        """Return by adapter what reports say of what it has opened; see ``TextAdapter.about``."""
        return {name: ADAPTERS[name].about(one) for name, one in self.opened.items() if one is not None}

    def set_vocabulary(self, real: Tensor, new: Tensor) -> None:
        """Go on over another vocabulary in which no word changed its number; the masks are as at the beginning.

        Args:
            real: (V), or (T, V) where each position of a block has a vocabulary of its own
            new: (V)
        """
        self._real, self.new = real, new

    def new_adapters(self) -> dict[str, TextAdapter]:
        """Return the adapters with a history that act, by name, each knowing nothing yet."""
        kinds = {name: ADAPTERS[name] for name in self.settings.adapters()}
        return {name: kind.from_settings(self.settings, self.opened.get(name)) for name, kind in kinds.items()}

    def adapt_model(self, lprobs: Tensor) -> Tensor:
        """Return the discounted and smoothed log-probabilities, (..., V): what needs no history."""
        shift = self.discount(lprobs.device)
        if shift is not None:
            lprobs = torch.log_softmax(lprobs + shift, dim=-1)
        if self.settings.uniform_weight > 0:
            lprobs = uniform_mixture(lprobs, self.settings.uniform_weight, self.real.to(lprobs.device))
        return lprobs

    def discount(self, device: torch.device) -> Tensor | None:
        """Return what the discount adds to every word's score, (V), or None."""
        factor = self.settings.new_word_discount
        if factor == 1:
            return None
        return math.log(factor) * self.new.to(device, torch.float32)

    def uniform_at(self, lprobs: Tensor, targets: Tensor) -> Tensor:
        """Return the smoothed log-probabilities of the targets alone."""
        if self.settings.uniform_weight == 0:
            return lprobs
        return uniform_mixture_at(lprobs, self.settings.uniform_weight, self.real.to(lprobs.device), targets)

    def uniform_mass(self, mass: Tensor, chosen: Tensor) -> Tensor:
        """Return the log of the smoothed mass of some words, a mask (V), from the log of what it was before."""
        return uniform_mass(mass, self.settings.uniform_weight, self.real.to(mass.device), chosen.to(mass.device))
