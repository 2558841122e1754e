"""Score a text whose words enter the vocabulary when they are first met, strictly from left to right.

T: positions of a piece; V: vocabulary after it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_groc.data.streams import Block
from fairseq_groc.dictionary import is_symbol, spelling
from fairseq_groc.errors import DataError
from fairseq_groc.models.changing_vocabulary import WordEntries
from fairseq_groc.modules.probabilities import is_impossible, numbers_of, perplexity, total_of
from fairseq_groc.open_vocabulary.new_words import NewWordMass, NewWords
from fairseq_groc.open_vocabulary.spelling_model import SpellingModel


@dataclass
class Totals:
    """What was scored so far; logarithms are natural.

    Args:
        tokens: words and line ends
        new: words that were not in the vocabulary when they came
        characters: of the words, and one for the blank or line end after each
        impossible: tokens of probability 0, which count in none of the sums below
        log_probability: of all others
        first: of the new words, which is part of that
        spelled: of the new words' spellings, which is part of that
    """

    tokens: int = 0
    new: int = 0
    characters: int = 0
    impossible: int = 0
    log_probability: float = 0.0
    first: float = 0.0
    spelled: float = 0.0

    def perplexity(self) -> float:
        """Return the perplexity a token; infinite if one was impossible."""
        return math.inf if self.impossible else perplexity(-self.log_probability, max(self.tokens, 1))

    def bits_per_character(self) -> float:
        return math.inf if self.impossible else -self.log_probability / math.log(2) / max(self.characters, 1)

    def report(self, whole_words: bool = True) -> str:
        """Return all of it as a line; of pieces of words without bits per character, which are those of the raw text."""
        paid = self.log_probability or 1.0
        bits = f", {self.bits_per_character():.4f} bits per character" if whole_words else ""
        return (
            f"{self.tokens:,} tokens, {self.new:,} new words met; perplexity {self.perplexity():,.2f}"
            f"{bits}; {abs(self.first / paid):.1%} of the bits for first occurrences "
            f"({abs(self.spelled / paid):.1%} for their spelling)"
        )


class _Piece(NamedTuple):
    """Some tokens in a row.

    Args:
        tokens: their numbers, (T)
        spelled: log of q(w) / (1 - q(V)) for each token that is a new word when it comes
        sizes: entries of the vocabulary before each token, (T)
    """

    tokens: Tensor
    spelled: list[float | None]
    sizes: Tensor


class OpenVocabularyScorer:
    """Score lines with a model whose vocabulary begins as its dictionary's and takes up every word when it was first met.

    The distribution at a place is that of ``new_words.NewWords``: a mass m for all words that are not in the vocabulary yet,
    shared among them by a spelling model, and 1 - m for the model's distribution over the vocabulary as it is at this place,
    after the adapters. The spelling model is learned from the dictionary's words at the beginning, and not changed. Without a
    mass m is the model's own p(<unk> | h), and the vocabulary's other words keep their probabilities.

    A piece of text is read at once, but no position knows later words: scores of words that had not been met are left out before
    they are normalised, so a text gets the probability that it gets word by word.

    Args:
        model: in evaluation; its dictionary grows
        mass: of new words; None: that of ``<unk>``
        entries: what new words are made of, as ``add_words`` takes it
        running: whether the state is carried from line to line; otherwise every line begins at the zero state
        block: tokens at a time
    """

    def __init__(
        self, model: Any, mass: NewWordMass | None, entries: WordEntries = None, running: bool = False, block: int = 512
    ):
        model.decoder.check_growth()
        self.totals = Totals()
        self._model, self._decoder, self._dictionary = model, model.decoder, model.decoder.dictionary
        self.mass, self._entries, self._running = mass, entries, running
        self._block = int(min(block, model.decoder.max_positions()))
        spellings = [spelling(word) for word in self._dictionary.symbols if not is_symbol(word)]
        self._new_words = NewWords(SpellingModel(spellings), self._dictionary.symbols)
        self._previous, self._begin, self._line = self._dictionary.eos(), 0, 0

    def score(self, line: str, context: Any = None) -> tuple[float, int]:
        """Return the log-probability of a line, ``</s>`` included, and its number of tokens.

        Args:
            context: of the line, as a batch of one has it (``Contexts.of_lines``); None: that of all lines

        Raises:
            DataError: a symbol of fairseq's as a word; then nothing of the line was counted or added.
        """
        paid = self.score_tokens(line, context)
        return total_of(paid), len(paid)

    @torch.no_grad()
    def score_tokens(self, line: str, context: Any = None) -> list[float]:
        """Return the log-probability of each word of a line, and of ``</s>``; -inf of what is impossible.

        Args:
            context: as in ``score``

        Raises:
            DataError: as in ``score``.
        """
        words = line.split()
        self._check(words)
        if not self._running:
            self._previous, self._begin = self._dictionary.eos(), 0
        rest, paid = [*words, self._dictionary.eos_word], list[float]()
        for start in range(0, len(rest), self._block):
            paid += self._count(self._read(rest[start : start + self._block]), context)
        self.totals.characters += sum(len(word) + 1 for word in words) + (not words)
        self._line += 1
        return paid

    def meet(self, word: str) -> float:
        """Take a new word into the vocabulary, and return log q(w) / (1 - q(V)) of before."""
        share = self.see(word)
        self._decoder.add_words([word], self._entries)
        return share

    def see(self, word: str) -> float:
        """Let the spelling model know that a word is in the vocabulary; return log q(w) / (1 - q(V)) of before."""
        share = self._new_words.log_share(word)
        self._new_words.add(word)
        return share

    def _check(self, words: Sequence[str]) -> None:
        if self.mass is None and self._dictionary.unk_word in words:
            raise DataError("<unk> is a word of the text, and its probability goes to new words: choose another mass for these")
        self._decoder.check_words([word for word in words if word != self._dictionary.unk_word])

    def _read(self, words: list[str]) -> _Piece:
        """Take the words that are new into the vocabulary, and note what each token finds there."""
        met: dict[str, int] = {}
        spelled: list[float | None] = []
        size, sizes = len(self._dictionary), []
        for word in words:
            sizes.append(size + len(met))
            new = word not in self._dictionary.indices and word not in met
            spelled.append(self.see(word) if new else None)
            if new:
                met[word] = len(met)
        if met:
            self._decoder.add_words(list(met), self._entries)
        tokens = torch.tensor([self._dictionary.indices[word] for word in words], device=self._decoder.matrices.impossible.device)
        return _Piece(tokens, spelled, torch.tensor(sizes, device=tokens.device))

    def _count(self, piece: _Piece, context: Any) -> list[float]:
        """Count a piece; return the log-probability of each token."""
        tokens = zip(piece.tokens.tolist(), piece.spelled, strict=True)
        wanted = [token if new is None else self._dictionary.unk() for token, new in tokens]
        places = torch.tensor(wanted, device=piece.tokens.device).unsqueeze(1)
        lprobs = numbers_of("model", self._lprobs(piece, context).gather(1, places))
        totals, each = self.totals, []
        for known, spelled in zip(lprobs.squeeze(1).double().tolist(), piece.spelled, strict=True):
            new, paid = spelled is not None, known
            if self.mass is not None:
                mass = self.mass.now()
                paid = math.log(mass) if new else math.log1p(-mass) + known
                self.mass.saw(new)
            paid += spelled or 0.0
            totals.tokens, totals.new = totals.tokens + 1, totals.new + new
            if is_impossible(paid):
                totals.impossible += 1
                each.append(-math.inf)
                continue
            each.append(paid)
            totals.log_probability += paid
            totals.first += paid if new else 0.0
            totals.spelled += spelled or 0.0
        return each

    def _lprobs(self, piece: _Piece, context: Any = None) -> Tensor:
        """Return the log-probabilities, (T, V), of every position over its own vocabulary; LOG_ZERO for words met later."""
        decoder, count = self._decoder, len(piece.tokens)
        source = torch.cat([piece.tokens.new_tensor([self._previous]), piece.tokens[:-1]]).unsqueeze(0)  # (1, T)
        block = Block("scored", 0 if self._running else self._line, 0, self._begin, self._begin + count)
        h, extra, (outputs, bias) = decoder.without_scores(
            self._model, {"src_tokens": source, "block": block, "context": context}
        )
        self._previous, self._begin = int(piece.tokens[-1]), block.end
        scores, begin = [], 0
        for size, length in zip(*(x.tolist() for x in piece.sizes.unique_consecutive(return_counts=True)), strict=True):
            later = torch.arange(len(bias), device=bias.device) >= size
            own = bias.masked_fill(later, float("-inf"))
            scores.append(decoder.matrices.log_scores(h[:, begin : begin + length], outputs, own))
            begin += length
        with decoder.vocabulary_at(piece.sizes):
            return self._model.get_normalized_probs((torch.cat(scores, dim=1), extra), log_probs=True)[0]
