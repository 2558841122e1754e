"""Change a language model's vocabulary while it runs: add words, limit what is predicted."""

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from fairseq_groc.adapters import Adapter
from fairseq_groc.dictionary import is_symbol, words_fingerprint
from fairseq_groc.embeddings.rows import rows_below
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.lexicon.base import Entry, Lexicon
from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS, Origin
from fairseq_groc.models.building import lexicon_parts
from fairseq_groc.models.matrices_file import fingerprint
from fairseq_groc.models.word_matrices import WordMatrices
from fairseq_groc.modules.per_thread import having
from fairseq_groc.tensor_file import add_tensors

_HOLDING = threading.Lock()  # of the module, since models are copied
WordEntries = Mapping[str, Entry] | Lexicon | None


class ChangingVocabulary:
    """What a decoder with a head does to its vocabulary without training. A word's number never changes."""

    words: WordMatrices  # what checkpoints call the matrices
    settings: dict[str, Any]
    adapter: Adapter | None
    origin: Origin | None = None  # of the vocabulary's tables; None: it has none
    dictionary: Any
    _holder: int | None = None  # the thread that has set the limit
    _loaded: tuple[str, str] | None = None  # digests of the parameters, as they were read from a checkpoint

    @property
    def matrices(self) -> WordMatrices:
        """The embeddings, the head, and what goes with them."""
        return self.words

    @property
    def lexicon_fingerprint(self) -> str | None:
        """The fingerprint of the lexicon that the vocabulary's tables come from."""
        return self.origin.lexicon if self.origin else None

    def keep_fingerprints(self: Any) -> None:
        """Let fingerprints be of the parameters as a checkpoint has them, which is about to be read.

        Afterwards fairseq's programs round them (--fp16), or take weight normalisation off.
        """

        def loaded(decoder: Any, _keys: Any) -> None:
            decoder._loaded = decoder._digests()

        self.register_load_state_dict_post_hook(loaded)

    def forget_fingerprints(self) -> None:
        """Let fingerprints be of the parameters as they are."""
        self._loaded = None

    def _digests(self: Any) -> tuple[str, str]:
        """Return a digest of all parameters, and one of those that are no rows of words."""
        rows = tuple(f"{name}." for name in self.tables_of_words())
        rest = ((name, one) for name, one in self.named_parameters() if not name.startswith(rows))
        return fingerprint(self, buffers=False), add_tensors(hashlib.sha256(), rest)

    def fingerprint(self) -> str:
        """Return a digest of the parameters and of the vocabulary: the words, and the lexicon that they were looked up in.

        Buffers are not in it: some come and go with what was read, and those of a vocabulary follow from it.
        """
        vocabulary = f"{words_fingerprint(self.dictionary.symbols)} {self.lexicon_fingerprint}"
        return hashlib.sha256(f"{(self._loaded or self._digests())[0]} {vocabulary}".encode()).hexdigest()

    def rowless_fingerprint(self) -> str:
        """Return a digest of what is there whatever the dictionary: all parameters but the rows of words."""
        return (self._loaded or self._digests())[1]

    def tables_of_words(self: Any) -> list[str]:
        """Return the names of the modules that have a row a word of the dictionary; those of contexts have other rows."""
        tables = set(rows_below(self.matrices).values())
        return [name for name, module in self.named_modules() if module in tables]

    def add_words(self, words: Sequence[str], entries: WordEntries = None) -> list[int]:
        """Append words to the dictionary and to all that goes with it, at the cost of the new words alone.

        Embeddings, biases and masks are as if the model had been loaded with the longer dictionary; those of the words before are
        not computed again. For heads with a row a word a new word has none, and probability 0, as in loading; but
        ``convolutional`` predicts it from its spelling. The dictionary grows in place: models that share it (an ensemble) must
        each be told of the words.

        Args:
            words: those that are there already are left as they are
            entries: what the new words are made of besides their spelling: ``{word: Entry}``, where a word may be missing, or a
                lexicon to look them up in, with as many relations and gloss words as the data's tables have. None: their
                spelling alone. Ignored by models that read no lexicon.

        Returns:
            the numbers of *words*, one each

        Raises:
            DataError: something that is no word; then nothing was added.
            OptionError: each word has something that an adapter changes; then nothing was added.
        """
        words = self.check_words(words)
        new = [word for word in dict.fromkeys(words) if word not in self.dictionary.indices]
        if new:
            self.check_growth()
        missing = [*self.dictionary.symbols[len(self.matrices.impossible) :], *new]
        if missing:
            self.matrices.add_words(self.entries_of(missing, entries))
            for word in new:
                self.dictionary.add_symbol(word)
            self._adapt()
        return [self.dictionary.indices[word] for word in words]

    def check_growth(self) -> None:
        """Refuse a vocabulary that grows while each of its words has something that is learned.

        Raises:
            OptionError: with what learns.
        """
        if self.adapter is not None:
            self.adapter.settings.refuse("new_words")

    def check_words(self, words: Sequence[str]) -> list[str]:
        """Return a list of words if all of them are words.

        Raises:
            DataError: with the first that is none.
        """
        found = _as_words(words)
        for word in found:
            if not word or word.split() != [word]:
                raise DataError(f"{shown(word)} is no word: expected characters without blanks")
            if is_symbol(word):
                raise DataError(f"{shown(word)} is a symbol of fairseq's, not a word: leave it out")
        return found

    def limit_vocabulary(self, words: Iterable[str] | None) -> None:
        """Let only these words be predicted, besides ``</s>`` and ``<unk>``; the probabilities of the others are 0.

        It holds for all that reads probabilities: scoring, criteria, generation, adapters. Any word may still be read as context,
        and words that are added later may be predicted. All threads predict under it; one sets it, and the same one lifts it.

        Args:
            words: of the vocabulary; None lifts the limit

        Raises:
            DataError: a word that the vocabulary lacks, or no word at all; then nothing has changed.
            OptionError: there is a limit already, or another thread's is to be lifted; or an adapter goes with none, such as an
                unbounded cache that remembers another text, which may have any word.
        """
        if words is not None and self.adapter is not None:
            self.adapter.settings.refuse("limit")
        limit = None
        if words is not None:
            words = _as_words(words)
            if not words:
                raise DataError("no word to limit the vocabulary to: give some, or None for all")
            lacking = [word for word in words if word not in self.dictionary.indices]
            if lacking:
                what = f"{len(lacking):,} words, {shown(lacking[0])} first"
                raise DataError(f"{what}, are not in the vocabulary: call add_words first")
            limit = torch.ones_like(self.matrices.impossible)
            limit[[self.dictionary.eos(), self.dictionary.unk(), *(self.dictionary.indices[word] for word in words)]] = False
        with _HOLDING:
            self._check_holder(lifting=limit is None)
            self.matrices.limit_of_all, self._holder = limit, threading.get_ident()
        self._adapt()

    @contextmanager
    def limited(self, limit: torch.Tensor | None) -> Iterator[None]:
        """Let this thread predict under a limit of its own, in place of one that holds for all threads; others see none of it.

        Args:
            limit: mask (V) of the words that must not be predicted; None: none of its own
        """
        with having(self.matrices, "own_limit", limit), ExitStack() as stack:
            if self.adapter is not None:
                stack.enter_context(self.adapter.over(self.real_words()))
            yield

    def _check_holder(self, lifting: bool) -> None:
        """Refuse a limit within a limit, and to lift that of another thread, unless the thread has ended."""
        holder = next((thread for thread in threading.enumerate() if thread.ident == self._holder), None)
        if self.matrices.limit_of_all is None or (lifting and holder in (None, threading.current_thread())):
            return
        by = f"thread {holder.name}" if holder else "a thread that has ended"
        raise OptionError(f"the vocabulary is limited already, by {by}: lift that limit first, there: limit_vocabulary(None)")

    def real_words(self) -> torch.Tensor:
        """Return the mask (V) of real words that may be predicted: no special symbols, no fillers, none beyond the limit."""
        real = ~self.matrices.impossible
        if self.matrices.limit is not None:
            real &= ~self.matrices.limit.to(real.device)
        real[: self.dictionary.nspecial] = False
        return real

    @contextmanager
    def vocabulary_at(self, sizes: torch.Tensor) -> Iterator[None]:
        """Let the adapter take each position of a block for one with its own vocabulary: so many of the first entries, (T)."""
        if self.adapter is not None:
            real = self.real_words()
            met = torch.arange(len(real), device=real.device) < sizes.to(real.device).unsqueeze(1)  # (T, V)
            self.adapter.set_vocabulary(real & met, self.adapter.new)
        try:
            yield
        finally:
            self._adapt()

    def _adapt(self) -> None:
        """Tell the adapter of the vocabulary; the training text lacks every word that was added."""
        if self.adapter is not None:
            new, real = self.adapter.new, self.real_words()
            self.adapter.set_vocabulary(real, torch.cat([new, new.new_ones(len(real) - len(new))]))

    def entries_of(self, words: Sequence[str], entries: WordEntries) -> dict[str, Entry]:
        """Return what new words are made of: see ``add_words``."""
        if entries is None or not any(lexicon_parts(self.settings)):
            return {word: Entry() for word in words}
        if isinstance(entries, Mapping):
            return {word: entries.get(word, Entry()) for word in words}
        limits = self.origin.limits if self.origin else (MAX_RELATIONS, MAX_DEFINITION)
        return {word: entries.lookup(word, *limits) for word in words}


def offer_vocabulary_changes(model: Any) -> None:
    """Make ``add_words`` and ``limit_vocabulary`` of a model's decoder methods of the model."""
    model.add_words, model.limit_vocabulary = model.decoder.add_words, model.decoder.limit_vocabulary


def _as_words(words: Iterable[str]) -> list[str]:
    if isinstance(words, str):
        raise DataError(f"expected a list of words, not one text: [{words!r}]")
    return list(words)
