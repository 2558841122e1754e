"""An n-gram of ours as an ARPA file, which kenlm and other tools read. N: n-grams of one length L; V: words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.adapters.arpa import BEGIN, UNKNOWN
from fairseq_groc.adapters.ngram_file import END
from fairseq_groc.files import replace_file
from fairseq_groc.modules.kneser_ney import NGrams

NEVER = -99  # log10 of a probability of 0


class _Section(NamedTuple):
    """The n-grams of one length.

    Args:
        words: the numbers of their words, (L, N)
        p: of the last word after the others, (N)
        gammas: of each as a history, (N); nothing of the longest, (0)
    """

    words: NDArray[np.int64]
    p: NDArray[np.float64]
    gammas: NDArray[Any]


def save_arpa(path: Path, ngrams: NGrams, words: list[str]) -> None:
    """Write an n-gram to a file, which appears whole or not at all.

    Words that training lacks have the probability 0 there: those of training share the uniform distribution.

    Args:
        words: that it numbers, (V), ``</s>`` among them
    """
    sections, end = list(_sections(ngrams)), words.index(END)
    last, others = (np.array([begin if word == END else word for word in words], object) for begin in (END, BEGIN))
    own = [f"{NEVER}\t{BEGIN}{weight}" for weight in _weights(sections[0].gammas[end : end + 1]) or [""]]
    own += [f"{NEVER}\t{UNKNOWN}"] if UNKNOWN not in words else []
    with replace_file(path, "wb") as file:

        def write(text: str) -> None:
            file.write(text.encode("utf-8", "surrogateescape"))

        counts = [len(section.p) + (0 if number else len(own)) for number, section in enumerate(sections)]
        write("\\data\\\n" + "".join(f"ngram {length}={count}\n" for length, count in enumerate(counts, start=1)))
        for length, section in enumerate(sections, start=1):
            write(f"\n\\{length}-grams:\n" + "".join(f"{line}\n" for line in own if length == 1))
            columns = [*(others[column] for column in section.words[:-1]), last[section.words[-1]]]
            weights = _weights(section.gammas) or [""] * len(section.p)
            for p, gram, weight in zip(np.log10(section.p).tolist(), zip(*columns, strict=True), weights, strict=True):
                write(f"{p:.7f}\t{' '.join(gram)}{'' if gram[-1] == END else weight}\n")  # nothing follows the end of a line
        write("\n\\end\\\n")


def _weights(gammas: NDArray[Any]) -> list[str]:
    return [f"\t{weight:.7f}" for weight in np.log10(gammas).tolist()]


def _sections(ngrams: NGrams) -> Iterator[_Section]:
    """Yield the n-grams of each length: p(w | h) = share + gamma(h) p(w | h without its first word)."""
    gammas: list[NDArray[Any]] = [*(level.gammas for level in ngrams.levels), np.zeros(0)]
    section = _Section(np.arange(ngrams.size)[None], ngrams.shares + ngrams.floor / ngrams.size, gammas[0])
    shorter = np.zeros(0, np.int64)  # of each n-gram, the place of that without its first word
    yield section
    for number, level in enumerate(ngrams.levels):
        first, word = np.divmod(level.keys, ngrams.size)
        shorter = ngrams.place(number - 1, shorter[first], word) if number else word
        p = level.shares + section.gammas[first] * section.p[shorter]
        section = _Section(np.concatenate([section.words[:, first], word[None]]), p, gammas[number + 1])
        yield section
