import itertools
import math
import re

import numpy as np
import pytest

from fairseq_groc.embeddings.vocabulary import END
from fairseq_groc.open_vocabulary.new_words import NewWordMass, NewWords, rate_of_new_words
from fairseq_groc.open_vocabulary.spelling_model import WORD_BYTES, SpellingModel

LEARNED = [b"ab", b"abb", b"b", b"ba", b"abab", b"bbb", b"aab"]


def strings(longest):
    return [bytes(s) for n in range(1, longest + 1) for s in itertools.product(b"abc", repeat=n)]


def chain(model, word):
    """The product of the probabilities of a word's symbols, one after the other."""
    return math.prod(model.next_symbol(word[:i])[symbol] for i, symbol in enumerate([*word, END]))


def test_witten_bell_by_hand():
    """Learned from "ab": after the beginning a, after a b, after b the end; S = 4 symbols a, b, c, END."""
    model = SpellingModel([b"ab"], order=2, alphabet=b"abc")
    unigram = (1 + 3 * 1 / 4) / (3 + 3)  # of a, b and END alike: 3 symbols, all different
    rare = (0 + 3 * 1 / 4) / (3 + 3)
    assert model.next_symbol(b"a") == pytest.approx(
        {ord("a"): unigram / 2, ord("b"): (1 + unigram) / 2, ord("c"): rare / 2, END: unigram / 2}
    )
    not_empty = 1 - unigram / 2
    first = {ord("a"): (1 + unigram) / 2, ord("b"): unigram / 2, ord("c"): rare / 2, END: 0.0}
    assert model.next_symbol(b"") == pytest.approx({symbol: p / not_empty for symbol, p in first.items()})
    assert model.next_symbol(b"c") == pytest.approx({ord("a"): unigram, ord("b"): unigram, ord("c"): rare, END: unigram})
    assert model.log_probability([b"ab"])[0] == pytest.approx(math.log((1 + unigram) ** 3 / 8 / not_empty))


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("learned", [LEARNED, []])
def test_it_is_a_distribution_over_all_words(order, learned):
    """All strings up to a length, and the mass of the beginnings that go on: what is left is exactly theirs."""
    model, longest = SpellingModel(learned, order, b"abc"), 6
    whole = np.exp(model.log_probability(strings(longest))).sum()
    going_on = 0.0
    for word in strings(longest):
        if len(word) == longest:
            end = model.next_symbol(word)[END]
            going_on += math.exp(model.log_probability([word])[0]) * (1 - end) / end
    assert whole + going_on == pytest.approx(1, abs=1e-12) and going_on < 0.6
    for prefix in (b"", b"a", b"ab", b"abcabc"):
        assert sum(model.next_symbol(prefix).values()) == pytest.approx(1, abs=1e-12)


def test_many_words_at_once_are_each_their_symbols():
    model = SpellingModel(LEARNED, 4, b"abc")
    words = [b"ab", b"c", b"abbbb", b"bab"]
    assert np.exp(model.log_probability(words)) == pytest.approx([chain(model, word) for word in words], rel=1e-12)
    alone = [model.log_probability([word])[0] for word in words]
    assert model.log_probability(words) == pytest.approx(alone, rel=1e-12)


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
    mass = NewWordMass(0.2, prior=10)
    seen = [mass.now()]
    for new in (True, False, False, True):
        mass.saw(new)
        seen.append(mass.now())
    assert seen == pytest.approx([2 / 10, 3 / 11, 3 / 12, 3 / 13, 4 / 14])
    fixed = NewWordMass(0.2, fixed=True)
    fixed.saw(True)
    assert fixed.now() == 0.2
    assert rate_of_new_words([5, 1, 3, 1]) == 3 / 12 and rate_of_new_words([]) == 1 / 2
