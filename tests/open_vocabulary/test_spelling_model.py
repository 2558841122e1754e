import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest

from fairseq_groc.embeddings.vocabulary import END
from fairseq_groc.open_vocabulary.new_words import NewWordMass, NewWords, rate_of_new_words
from fairseq_groc.open_vocabulary.spelling_model import WORD_BYTES, SpellingModel

LEARNED = [b"ab", b"abb", b"b", b"ba", b"abab", b"bbb", b"aab"]


def strings(longest):
    return [bytes(s) for n in range(1, longest + 1) for s in itertools.product(b"abc", repeat=n)]


def following(learned, order, prefix):
    """p(. | prefix) by its definition, symbol by symbol; at a word's beginning END is left out."""
    learned, context = [[None, *word, END] for word in learned], [None, *prefix]
    p = dict.fromkeys([*b"abc", END], 1 / 4)
    for length in range(min(order, len(context) + 1)):
        places = [(word, i) for word in learned for i in range(max(1, length), len(word))]
        found = Counter(word[i] for word, i in places if word[i - length : i] == context[len(context) - length :])
        total, types = sum(found.values()), len(found)
        p = {symbol: (found[symbol] + types * rest) / (total + types) for symbol, rest in p.items()} if found else p
    return p if prefix else {symbol: 0 if symbol == END else rest / (1 - p[END]) for symbol, rest in p.items()}


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("learned", [LEARNED, [b"ab"], []])
def test_it_is_witten_bell_over_all_words(order, learned):
    """All strings up to a length, and the mass of the beginnings that go on: what is left is exactly theirs."""
    model, words = SpellingModel(learned, order, b"abc"), strings(4)
    symbols = {prefix: following(learned, order, prefix) for prefix in (b"", *words)}
    expected = [math.prod(symbols[word[:i]][symbol] for i, symbol in enumerate([*word, END])) for word in words]
    assert np.exp(model.log_probability(words)) == pytest.approx(expected, rel=1e-12)
    ends = [symbols[word][END] for word in words]
    going_on = sum(p * (1 - end) / end for word, p, end in zip(words, expected, ends, strict=True) if len(word) == 4)
    assert sum(expected) + going_on == pytest.approx(1, abs=1e-12)
    assert model.log_probability(words) == pytest.approx([model.log_probability([word])[0] for word in words], rel=1e-12)


def test_what_is_no_word_has_no_probability():
    model = SpellingModel([*LEARNED, b"xyz"], 3, b"abc")
    assert model.log_probability([b"", b"x", b"ax", b"a"]).tolist()[:3] == [-math.inf] * 3
    assert model.log_probability([b"a"]) == SpellingModel(LEARNED, 3, b"abc").log_probability([b"a"])
    assert model.log_probability([]).shape == (0,)
    everything = SpellingModel(["naïve".encode(), b"cat"])
    assert np.isfinite(everything.log_probability([b"x", "\N{GRINNING FACE}".encode(), b"\xff", b"x" * 5000])).all()


def test_a_byte_that_str_split_breaks_words_at_is_in_no_word():
    for byte in range(128):
        assert (byte in WORD_BYTES) == (f"a{chr(byte)}b".split() == [f"a{chr(byte)}b"]), byte
    assert set(range(128, 256)) <= set(WORD_BYTES) and not re.search(r"\s", WORD_BYTES[: WORD_BYTES.index(127)].decode())


@pytest.mark.parametrize("mass", [0.001, 0.3])
def test_vocabulary_and_new_words_sum_to_one(mass):
    """p over the vocabulary, which grows, and over every other string; the tail of long strings from an exact identity."""
    model = SpellingModel(LEARNED, 3, b"abc")
    vocabulary, longest = ["ab", "b", "</s>"], 5
    new_words = NewWords(model, vocabulary)
    everything = np.exp(model.log_probability(strings(longest))).sum()
    for added in (None, "cab", "a"):
        if added:
            new_words.add(added)
            vocabulary.append(added)
        others = [s.decode() for s in strings(longest) if s.decode() not in vocabulary]
        shares = sum(math.exp(new_words.log_share(word)) for word in others)
        known = sum(math.exp(model.log_probability([word.encode()])[0]) for word in vocabulary)
        tail = (1 - everything) / (1 - known)  # longer strings, all of them new
        in_vocabulary = 1 - mass  # p(. | h, V) sums to 1
        assert in_vocabulary + mass * (shares + tail) == pytest.approx(1, abs=1e-12)


def test_the_mass_of_new_words_is_their_rate_so_far():
    mass = NewWordMass(0.2)
    seen = [mass.now()]
    for new in (True, False, False, True):
        mass.saw(new)
        seen.append(mass.now())
    assert seen == pytest.approx([20 / 100, 21 / 101, 21 / 102, 21 / 103, 22 / 104])
    fixed = NewWordMass(0.2, fixed=True)
    fixed.saw(True)
    assert fixed.now() == 0.2
    assert rate_of_new_words([5, 1, 3, 1]) == 3 / 12 and rate_of_new_words([]) == 1 / 2
