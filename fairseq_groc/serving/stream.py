"""A running text, word by word: what the model has read, which many hypotheses may go on from. V: vocabulary; d: size of h."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.utils import apply_to_sample
from torch import Tensor

from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.dictionary import SPECIAL, is_symbol
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.modules.probabilities import is_impossible, numbers_of
from fairseq_groc.open_vocabulary.new_words import NewWordMass
from fairseq_groc.serving.vocabulary import Allowed

SCORED = SPECIAL[2:]  # </s> and <unk>: symbols that a text has


class _Prefix:
    """What was read up to a word: read when it is asked for, once, whichever of the streams that share it asks.

    Args:
        before: the prefix before the word, if any; it is let go once the word is read
        word: its number
        alone: whether nothing else goes on from the prefix before: its state is taken over, otherwise forked
        context: of the stream, at its beginning
    """

    def __init__(self, before: _Prefix | None, word: int, alone: bool = True, context: Any = None):
        self.shared = False
        self._before, self._word, self._alone, self._context = before, word, alone, context
        self._reading = threading.Lock()
        self._tokens: Tensor | None = None  # all that was read, (1, n)
        self._state: dict[str, Any] = {}
        self._made: tuple[Tensor, Any] | None = None
        self._lprobs: Tensor | None = None
        self._vocabulary: tuple[int, int] | None = None  # that they are over

    def lprobs(self, model: Any, version: int) -> Tensor:
        """Return the log-probabilities of the next word, (V), over the vocabulary as it is now, in a version."""
        with self._reading:
            decoder = model.decoder
            if self._made is None:
                self._made = self._read(model)
            vocabulary = version, len(decoder.matrices.impossible)
            if self._lprobs is None or self._vocabulary != vocabulary:
                h, extra = self._made
                _, outputs, bias = decoder.matrices()
                scores = decoder.matrices.log_scores(h, outputs, bias)
                self._lprobs = numbers_of("model", model.get_normalized_probs((scores, extra), log_probs=True)[0, -1])
                self._vocabulary = vocabulary
            return self._lprobs

    def _read(self, model: Any) -> tuple[Tensor, Any]:
        decoder, before = model.decoder, self._before
        word = torch.tensor([[self._word]], device=decoder.matrices.impossible.device)
        if before is not None:
            self._state = before._state if self._alone else _forked(before._state, decoder)
            if decoder.carried is None and before._tokens is not None:  # others find their place by all that was read
                word = torch.cat([before._tokens, word], dim=1)
        if word.size(1) > decoder.max_positions():
            raise OptionError(f"the stream is at the model's last position, {word.size(1) - 1:,}: begin another")
        context = {} if self._context is None else {"context": self._context}
        h, extra, _ = decoder.without_scores(model, {"src_tokens": word, "incremental_state": self._state, **context})
        self._before, self._tokens = None, word
        return h, extra


def _forked(state: dict[str, Any], decoder: Any) -> dict[str, Any]:
    """Return a state that goes on by itself. Our own encoders make new tensors; some of fairseq's models write into theirs."""
    own = {name: part for name, part in state.items() if name not in ("adapter", "context")}
    found: dict[str, Any] = own if decoder.carried is not None else apply_to_sample(torch.clone, own)
    if "context" in state:
        found["context"] = state["context"]
    if "adapter" in state:
        found["adapter"] = state["adapter"].forked()
    return found


class Stream:
    """A text that goes on: each word is scored after all that came before, and remembered by adapters.

    ``scorer.stream()`` begins one, behind a ``</s>``. A stream belongs to one thread at a time; copies may go to others.

    Args:
        scorer: a ``Scorer``, whose model it reads with
        allowed: what it may predict
        context: of the text
    """

    def __init__(self, scorer: Any, allowed: Allowed, context: Contexts | None = None):
        self._scorer, self._allowed = scorer, allowed
        if scorer.decoder.adapter is not None:
            for adapter in scorer.decoder.adapter.new_adapters().values():
                adapter.follows(running=False, generating=True)  # or it says why it does not
        batch = None if context is None else context.of_lines(np.zeros(1, np.int64))
        self._prefix = _Prefix(None, scorer.decoder.dictionary.eos(), context=batch)
        self._mass: NewWordMass | None = None if scorer.open is None else scorer.open.mass and scorer.open.mass.anew()

    def copy(self) -> Stream:
        """Return another stream that goes on from here by itself. Nothing is copied until both have gone on."""
        twin = object.__new__(Stream)
        self._prefix.shared = True
        twin._scorer, twin._allowed, twin._prefix = self._scorer, self._allowed, self._prefix
        twin._mass = copy.copy(self._mass)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Stream:
        return self.copy()

    def score(self, words: str | Sequence[str]) -> Any:
        """Return the log-probability (natural) of a word after what came before, and go on behind it.

        Args:
            words: a word, or ``</s>`` for the end of a line; or a list of them

        Returns:
            a number, -inf for what is impossible; or a list of them

        Raises:
            DataError: something that is no word; then the stream is where it was.
        """
        for word in [words] if isinstance(words, str) else words:
            self._check(word)
        return self._next(words) if isinstance(words, str) else [self._next(word) for word in words]

    @torch.no_grad()
    def log_probabilities(self) -> Tensor:
        """Return the log-probabilities of all that may come next, (V), by number in ``scorer.words``; the stream stays here.

        In an open vocabulary they are those of the words that are in it already.
        """
        lprobs = self._known()
        if self._scorer.open is not None and self._mass is not None:
            lprobs = lprobs + math.log1p(-self._mass.now())
        return lprobs

    def _known(self) -> Tensor:
        """Return the model's log-probabilities, (V)."""
        scorer = self._scorer
        with scorer.gate.reading(), scorer.decoder.limited(scorer.vocabularies.limit(self._allowed)):
            return self._prefix.lprobs(scorer.model, scorer.vocabularies.version)

    @torch.no_grad()
    def _next(self, word: str) -> float:
        with self._scorer.gate.reading():  # a word that enters for other calls is not theirs before it is whole
            number = self._scorer.vocabularies.number(word, self._allowed)
        lprobs = self._known()
        if self._scorer.open is None:
            if number is None:
                self._scorer.vocabularies.warn([word])
                number = self._scorer.decoder.dictionary.unk()
            paid = float(lprobs[number])
        else:
            paid, number = self._paid(word, number, lprobs)
        self._prefix = _Prefix(self._prefix, number, alone=not self._prefix.shared)
        return -math.inf if is_impossible(paid) else paid

    def _paid(self, word: str, number: int | None, lprobs: Tensor) -> tuple[float, int]:
        """Return what a word costs in an open vocabulary, and its number there: see ``NewWords``."""
        scorer, paid, new = self._scorer, 0.0, number is None
        assert scorer.open is not None
        if new:
            with scorer.looking, scorer.gate.writing():
                if scorer.vocabularies.number(word, self._allowed) is None:
                    paid = scorer.open.meet(word)
                else:
                    new = False
            number = scorer.decoder.dictionary.indices[word]
            if not new:
                lprobs = self._known()
        assert number is not None
        if self._mass is None:
            return paid + float(lprobs[scorer.decoder.dictionary.unk() if new else number]), number
        mass = self._mass.now()
        self._mass.saw(new)
        return paid + (math.log(mass) if new else math.log1p(-mass) + float(lprobs[number])), number

    def _check(self, word: str) -> None:
        if word.split() != [word] or (is_symbol(word) and word not in SCORED):
            raise DataError(f"{shown(word)} is no word: expected characters without blanks, </s> or <unk>")
        if word == SPECIAL[3] and self._scorer.open is not None and self._mass is None:
            raise DataError("<unk> is a word of the text, and its probability goes to new words: choose another mass for these")
