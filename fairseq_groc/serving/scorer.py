"""Score lines in a program: from many threads at once, each call with its own vocabulary."""

from __future__ import annotations

import os
import threading
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_groc.adapters.base import OPTIONS
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.data.text import check_text
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation import loading
from fairseq_groc.evaluation.line_scores import block_of
from fairseq_groc.lexicon import sources_of
from fairseq_groc.lexicon.base import Entry
from fairseq_groc.logs import WARNINGS, at_least
from fairseq_groc.modules.probabilities import total_of
from fairseq_groc.open_vocabulary.masses import ADAPTIVE, mass_of
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer
from fairseq_groc.registry import check_options
from fairseq_groc.serving.batches import batches_of, log_probabilities
from fairseq_groc.serving.gate import Gate
from fairseq_groc.serving.service import LineScore
from fairseq_groc.serving.stream import Stream
from fairseq_groc.serving.vocabulary import Allowed, CallVocabularies, as_lines
from fairseq_groc.tasks.checks import check_needed
from fairseq_groc.tasks.config import adapter_fields

Words = Iterable[str]
Context = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | Contexts
OPTIONS_OF_TASK = ("context", "any_lexicon", "draw_new_rows", "encoding_chunk", "export_embeddings")  # that act, besides adapters


class Scorer:
    """A trained model over the vocabulary of a data folder, loaded without logs: it scores lines, and streams of words.

    Threads may share it; processes get it pickled. A pickle has the paths and options, and the words that were added: whoever
    unpickles it loads the checkpoint again.

    Args:
        path: of the checkpoint
        data: a folder from scripts/preprocess.sh
        open_vocabulary: let words enter when they are first met, as ``score --open-vocabulary``; otherwise they are ``<unk>``
        new_word_mass: their probability then, as ``--new-word-mass``
        lexicon_path: where words that are added are looked up: by default the lexicon that the data's tables come from
        device: where it computes
        options: of the task, adapters (``local_weight=0.2``) and ``OPTIONS_OF_TASK``, as ``context`` and ``draw_new_rows``

    Raises:
        DataError: there is no such checkpoint or folder, or it is broken.
        LexiconError: there is no such lexicon.
        OptionError: an option that does not exist, or does not go with the others.
    """

    def __init__(
        self,
        path: str | Path,
        data: str | Path,
        open_vocabulary: bool = False,
        new_word_mass: str | float = ADAPTIVE,
        lexicon_path: str | Path | Sequence[str | Path] | None = None,
        device: str = "cpu",
        **options: Any,
    ):
        if new_word_mass != ADAPTIVE and not open_vocabulary:
            raise OptionError(f"new_word_mass={new_word_mass}: it goes with open_vocabulary=True")
        path, data = os.path.abspath(path), os.path.abspath(data)  # a process that unpickles it may be elsewhere
        if lexicon_path is not None:
            given = [lexicon_path] if isinstance(lexicon_path, (str, Path)) else lexicon_path
            lexicon_path = sources_of([*map(str, given)])
        self._made_of = path, data, open_vocabulary, new_word_mass, lexicon_path, device, options
        self._lexicon_path = lexicon_path
        self.looking = threading.Lock()  # a lexicon is opened once, and has one reader at a time
        with at_least(WARNINGS):
            self._hub = loading.load(path, data, device, **_task_options(options))
        self.model = self._hub.models[0]
        self.decoder = self.model.decoder
        self.gate = Gate()
        self.vocabularies = CallVocabularies(self.decoder, data)
        self.open: OpenVocabularyScorer | None = None
        if open_vocabulary:
            mass = mass_of(str(new_word_mass), self.decoder.dictionary, Path(data))
            self.open = OpenVocabularyScorer(self.model, mass, self._lexicon, block=block_of(self._hub))

    def __reduce__(self) -> Any:
        mass = None if self.open is None else self.open.mass
        with self.gate.reading():
            return _again, (self._made_of, self.vocabularies.grown(), mass)

    @property
    def words(self) -> list[str]:
        """The model's dictionary, by number."""
        return list(self.decoder.dictionary.symbols)

    @property
    def schema(self) -> Schema | None:
        """What the model knows of contexts; None: it reads none."""
        return self._hub.task.schema

    def add_words(self, words: Words, entries: Any = None) -> None:
        """Put words into the vocabulary of all calls from now on.

        Args:
            entries: what new words are made of, as ``add_words`` of a model takes it; None: they are looked up in the lexicon

        Raises:
            DataError: something that is no word; then nothing was added.
        """
        found = list(dict.fromkeys(self.decoder.check_words(words)))
        self._enter(found, entries, of_calls=False)

    def score(self, lines: Iterable[str], vocabulary: Words | None = None, context: Context | None = None) -> list[LineScore]:
        """Return the log-probability (natural logarithm) and the number of tokens of each line, every one read by itself.

        ``</s>`` is one of them. The log-probability is -inf if a word is impossible.

        Args:
            lines: tokenised
            vocabulary: predict these words alone, ``</s>`` and ``<unk>`` besides, all others have probability 0; those that the
                model lacks are added for this call. None: all that it has
            context: of each line, or one of all, as ``hub.score`` takes it; or what ``schema`` has made of them

        Raises:
            DataError: a symbol of fairseq's as a word.
            OptionError: contexts or a vocabulary that model and adapters do not go with.
        """
        texts = as_lines(lines)
        for number, text in enumerate(texts, start=1):
            check_text(text, f"line {number}")
        contexts = None if context is None or not texts else self._contexts(context, len(texts))
        if self.decoder.adapter is not None:
            self.decoder.adapter.settings.refuse("lines")
        allowed = self.allowed(vocabulary)
        if self.open is not None:
            return self._score_open(texts, contexts)
        with self.gate.reading():
            return self._score([text.split() for text in texts], contexts, allowed)

    def stream(self, vocabulary: Words | None = None, context: Context | None = None) -> Stream:
        """Return a running text that begins now: a state that words are scored in, one after the other.

        Args:
            vocabulary: of the whole stream, as in ``score``
            context: of the whole stream

        Raises:
            OptionError: as in ``score``; or an adapter does not follow single words.
        """
        return Stream(self, self.allowed(vocabulary), None if context is None else self._contexts(context, 1))

    def allowed(self, vocabulary: Words | None) -> Allowed:
        """Return what a call may predict; words that the model lacks are in it afterwards."""
        if vocabulary is None:
            return None
        if self.open is not None:
            raise OptionError("vocabulary: with open_vocabulary=True any word may come. Leave one of them out.")
        words = self.vocabularies.checked(vocabulary)
        numbers = self._enter(words, None, of_calls=True)
        with self.gate.reading():
            self.vocabularies.warn_of_impossible(words, numbers)
        return frozenset(numbers)

    def _enter(self, words: Sequence[str], entries: Any, of_calls: bool) -> list[int]:
        if of_calls and not self.vocabularies.lacking(words):  # numbers never change
            return [self.decoder.dictionary.indices[word] for word in words]
        if entries is None:  # looked up while others read
            entries = self._looked_up(self.vocabularies.lacking(words))
        with self.gate.writing():
            for word in self.vocabularies.lacking(words) if self.open is not None else ():
                self.open.see(word)  # type: ignore[union-attr]
            return self.vocabularies.enter(words, entries, of_calls)

    def _looked_up(self, words: Sequence[str]) -> dict[str, Entry]:
        if not words:
            return {}
        with self.looking:
            return self.decoder.entries_of(words, self._lexicon)

    @cached_property
    def _lexicon(self) -> Any:
        return loading.data_lexicon(self.decoder.origin, self._lexicon_path)

    @torch.no_grad()
    def _score(self, lines: list[list[str]], contexts: Contexts | None, allowed: Allowed) -> list[LineScore]:
        rows = self.vocabularies.numbers(lines, allowed)
        block = int(min(self.decoder.adapter_block() or block_of(self._hub), self.decoder.max_positions()))
        scores = [LineScore(0.0, 0)] * len(rows)
        with self.decoder.limited(self.vocabularies.limit(allowed)):
            for batch in batches_of(rows):
                chosen = [rows[i] for i in batch]
                own = None if contexts is None else contexts._replace(index=contexts.index[batch])
                for i, values in zip(batch, log_probabilities(self.model, chosen, own, block), strict=True):
                    scores[i] = LineScore(total_of(values), len(values))
        return scores

    def _score_open(self, texts: Sequence[str], contexts: Contexts | None) -> list[LineScore]:
        assert self.open is not None
        own = [None if contexts is None else contexts.of_lines(np.array([i])) for i in range(len(texts))]
        with self.looking, self.gate.writing():
            return [LineScore(*self.open.score(text, context)) for text, context in zip(texts, own, strict=True)]

    def _contexts(self, context: Context, lines: int) -> Contexts:
        """Return the contexts of lines, one each."""
        given = context if isinstance(context, Contexts) else Contexts.joined(self._hub.task.contexts_given(context))
        if len(given.index) not in (1, lines):
            raise OptionError(f"context: {len(given.index):,} of them for {lines:,} lines: expected one for each, or one for all")
        return given if len(given.index) == lines else given._replace(index=given.index.repeat(lines))


load = Scorer  # what programs call it by


def _again(made_of: tuple[Any, ...], grown: list[tuple[str, Any, bool]], mass: Any) -> Scorer:
    """Load what was pickled."""
    *arguments, options = made_of
    scorer = Scorer(*arguments, **options)
    for of_calls in (False, True):
        entries = {word: entry for word, entry, own in grown if own == of_calls}
        if entries:
            scorer._enter(list(entries), entries, of_calls)
    if scorer.open is not None:
        scorer.open.mass = mass
    return scorer


def _task_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the task, those of adapters by default as the commands have them.

    Raises:
        OptionError: there is none of that name, or it does nothing.
    """
    known = ["open_vocabulary", "new_word_mass", "lexicon_path", "device", *OPTIONS_OF_TASK, *(f.name for f in adapter_fields())]
    if unknown := [name for name in given if name not in known]:
        raise OptionError(f"{unknown[0]}: no such option. There are {', '.join(known)}.")
    adapters = {field.name: given.get(field.name, field.default) for field in adapter_fields()}
    check_options(OPTIONS, {name: adapters[name] for name in OPTIONS})
    check_needed(Namespace(**adapters))
    return {"draw_new_rows": False, **given, **adapters}
