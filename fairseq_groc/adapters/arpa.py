"""ARPA files of n-grams, for the package kenlm (https://github.com/kpu/kenlm), which reads them here, and other tools.

At the targets alone it costs a few calls of kenlm a word; whole distributions, as generation needs them, cost one for every word
of the file. T: positions; V: words; n: the order; N: n-grams of one length L.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.errors import DataError, OptionError, imported
from fairseq_groc.files import replace_file
from fairseq_groc.modules.kneser_ney import NGrams

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
NEVER = -99  # log10 of a probability of 0
Section = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[Any]]


class ArpaNGrams:
    """The distribution over all words of a file but ``<unk>``, whose share the others divide among them.

    Args:
        model: ``kenlm.Model``
        words: of it, (V)
        state: ``kenlm.State``
    """

    def __init__(self, model: Any, words: list[str], state: Any):
        self.order, self.size = int(model.order), len(words)
        self._model, self._words, self._state, self._end = model, words, state, words.index(END)

    def histories(self, numbers: NDArray[Any], before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the history after each word of a text, (n - 1, T): the words that it has, the last one first, -1 for no more.

        Args:
            numbers: of its words, (T)
            before: the history of the first, (n - 1)
        """
        padded = np.concatenate([before[::-1], np.asarray(numbers, dtype=np.int64)])
        rows = [padded[self.order - 1 - back : len(padded) - back] for back in range(self.order - 1)]
        over = np.zeros(len(numbers), dtype=bool)
        for number, row in enumerate(rows):
            rows[number] = np.where(over, -1, row)
            over |= (rows[number] == self._end) | (rows[number] < 0)
        return np.stack(rows) if rows else np.zeros((0, len(numbers)), dtype=np.int64)

    def _after(self, history: NDArray[np.int64]) -> Any:
        """Return kenlm's state after a history."""
        numbers = [number for number in history.tolist() if number >= 0][::-1]
        state, following = self._state(), self._state()
        if numbers and numbers[0] == self._end:
            self._model.BeginSentenceWrite(state)
            numbers = numbers[1:]
        else:
            self._model.NullContextWrite(state)
        for number in numbers:
            self._model.BaseScore(state, self._words[number], following)
            state, following = following, state
        return state

    def _shares(self, history: NDArray[np.int64], words: list[str]) -> list[float]:
        state, unused = self._after(history), self._state()
        *scores, unknown = (10 ** self._model.BaseScore(state, word, unused) for word in [*words, UNKNOWN])
        return [score / (1 - unknown) for score in scores]

    def probabilities(self, histories: NDArray[np.int64], numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Return p(word | history) of one word a position, (T), 0 for -1."""
        pairs = zip(histories.T, numbers.tolist(), strict=True)
        found = [self._shares(history, [self._words[number]])[0] if number >= 0 else 0.0 for history, number in pairs]
        return np.array(found)

    def distributions(self, histories: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return p(. | history), (T, V)."""
        return np.array([self._shares(history, self._words) for history in histories.T]).reshape(-1, self.size)


def open_arpa(path: Path) -> tuple[ArpaNGrams, list[str], dict[str, Any]]:
    """Open an ARPA file; return what ``WordNGrams`` has.

    Raises:
        OptionError: kenlm is not installed.
        DataError: it is no ARPA file, or its words are not UTF-8, which kenlm's wrapper takes alone.
    """
    missing = OptionError(f"--ngram-path {path}: an ARPA file is read by the package kenlm: pip install kenlm")
    kenlm = imported("kenlm", missing)
    try:
        words = _words(path)
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8") from None
    quiet = kenlm.Config()
    quiet.show_progress, quiet.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    try:
        model = kenlm.Model(str(path), quiet)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} is no ARPA file that kenlm reads: {str(error).strip().splitlines()[-1]}") from None
    return ArpaNGrams(model, words, kenlm.State), words, {"order": int(model.order)}


def _words(path: Path) -> list[str]:
    """Return the words of a file: those of the n-grams of one word, without ``<s>`` and ``<unk>``."""
    words, within = [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("\\"):
                if within:
                    break
                within = line.startswith("\\1-grams:")
            elif within and line.strip():
                words.append(line.split()[1] if len(line.split()) > 1 else "")
    found = [word for word in words if word not in (BEGIN, UNKNOWN, "<UNK>")]
    if END not in found:
        raise DataError(f"{path} is no ARPA file of a text with lines: it has no {END} among its words")
    return found


def save_arpa(path: Path, ngrams: NGrams, words: list[str]) -> None:
    """Write an n-gram to a file, which appears whole or not at all.

    Words that training lacks have the probability 0 there: those of training share the uniform distribution.

    Args:
        words: that it numbers, (V), ``</s>`` among them
    """
    sections, end = list(_sections(ngrams)), words.index(END)
    last, others = (np.array([begin if word == END else word for word in words], object) for begin in (END, BEGIN))
    own = [f"{NEVER}\t{BEGIN}{weight}" for weight in _weights(sections[0][2][end : end + 1]) or [""]]
    own += [f"{NEVER}\t{UNKNOWN}"] if UNKNOWN not in words else []
    with replace_file(path) as file:
        counts = [len(p) + (0 if number else len(own)) for number, (_, p, _) in enumerate(sections)]
        file.write("\\data\\\n" + "".join(f"ngram {length}={count}\n" for length, count in enumerate(counts, start=1)))
        for length, (grams, p, gammas) in enumerate(sections, start=1):
            file.write(f"\n\\{length}-grams:\n" + "".join(f"{line}\n" for line in own if length == 1))
            columns = [*(others[column] for column in grams[:-1]), last[grams[-1]]]
            weights = _weights(gammas) or [""] * len(p)
            for log, gram, weight in zip(np.log10(p).tolist(), zip(*columns, strict=True), weights, strict=True):
                file.write(f"{log:.7f}\t{' '.join(gram)}{weight}\n")
        file.write("\n\\end\\\n")


def _weights(gammas: NDArray[Any]) -> list[str]:
    return [f"\t{weight:.7f}" for weight in np.log10(gammas).tolist()]


def _sections(ngrams: NGrams) -> Iterator[Section]:
    """Yield for each length the n-grams, (L, N), the probability of the last word, (N), and each one's weight as a history.

    p(w | h) = share + gamma(h) p(w | h without its first word). The weights are (N), and (0) of the longest.
    """
    gammas: list[NDArray[Any]] = [*(level.gammas for level in ngrams.levels), np.zeros(0)]
    grams, p = np.arange(ngrams.size)[None], ngrams.shares + ngrams.floor / ngrams.size
    shorter = np.zeros(0, np.int64)  # of each n-gram, the place of that without its first word
    yield grams, p, gammas[0]
    for number, level in enumerate(ngrams.levels):
        first, word = np.divmod(level.keys, ngrams.size)
        shorter = ngrams.place(number - 1, shorter[first], word) if number else word
        p = level.shares + gammas[number][first] * p[shorter]
        grams = np.concatenate([grams[:, first], word[None]])
        yield grams, p, gammas[number + 1]
