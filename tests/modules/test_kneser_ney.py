"""Modified Kneser-Ney smoothing against the paper's formulas word by word, and for what a language model must be."""

import itertools
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from fairseq_groc.modules.kneser_ney import FALLBACK, train

END, V = 0, 12


def text_of(lines, seed=1):
    """Return lines of words 1 to V - 1, the last of them seldom; every word occurs."""
    rng = random.Random(seed)
    weights = [1 / word**1.5 for word in range(1, V)]
    text = [rng.choices(range(1, V), weights, k=rng.choice([0, 1, 2, 5, 9])) for _ in range(lines)]
    return [*text, list(range(1, V))]


def flat(lines):
    return np.array([word for line in lines for word in [*line, END]])


def begin_of(ngrams):
    """Return the history of a line's first word."""
    return ngrams.histories(np.array([END]), np.full(ngrams.order - 1, -1))[:, -1]


class Slow:
    """The formulas with dictionaries, one word at a time."""

    def __init__(self, lines, order):
        self.order, self.counts = order, [Counter() for _ in range(order + 1)]
        occurring = [Counter() for _ in range(order + 1)]
        for line in lines:
            padded = [END, *line, END]
            for last in range(1, len(padded)):
                for length in range(1, min(order, last + 1) + 1):
                    occurring[length][tuple(padded[last + 1 - length : last + 1])] += 1
        for length in range(1, order + 1):
            if length == order:
                self.counts[length] = occurring[length]
                continue
            preceded = defaultdict(set)
            for gram in occurring[length + 1]:
                preceded[gram[1:]].add(gram[0])
            for gram, count in occurring[length].items():
                begins = length > 1 and gram[0] == END
                self.counts[length][gram] = count if begins else len(preceded[gram])
        self.discounts = [None, *(self.discounts_of(self.counts[length]) for length in range(1, order + 1))]
        self.after = [defaultdict(dict) for _ in range(order + 1)]
        for length in range(1, order + 1):
            for gram, count in self.counts[length].items():
                self.after[length][gram[:-1]][gram[-1]] = count

    @staticmethod
    def discounts_of(counts):
        n1, n2, n3, n4 = (sum(count == k for count in counts.values()) for k in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return FALLBACK
        y = n1 / (n1 + 2 * n2)
        found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        return found if all(0 < d <= k for k, d in zip((1, 2, 3), found, strict=True)) else FALLBACK

    def p(self, word, history):
        """Return p(word | history), a tuple of words since the line began, the end of the last one first."""
        return self.at(word, history[len(history) - min(len(history), self.order - 1) :])

    def at(self, word, history):
        length = len(history) + 1
        lower = self.at(word, history[1:]) if history else 1 / V
        after = self.after[length].get(history)
        if not after:
            return lower
        taken = [0, *self.discounts[length]]
        count, total = after.get(word, 0), sum(after.values())
        gamma = sum(taken[min(c, 3)] for c in after.values()) / total
        return (count - taken[min(count, 3)]) / total + gamma * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
def test_it_is_the_papers(order):
    lines = text_of(300)
    ngrams, rough = train(flat(lines), V, END, order)
    slow = Slow(lines, order)
    assert rough == [n for n in range(1, order + 1) if slow.discounts[n] == FALLBACK] and len(rough) < max(order, 2)
    tried = text_of(40, seed=2)
    text = flat(tried)
    begin = begin_of(ngrams)
    histories = ngrams.histories(np.concatenate([[END], text[:-1]]), begin * 0 - 1)
    words = [[END, *line, END] for line in tried]
    expected = [slow.p(line[i], tuple(line[:i])) for line in words for i in range(1, len(line))]
    np.testing.assert_allclose(ngrams.probabilities(histories, text), expected, rtol=1e-6)
    whole = ngrams.distributions(histories)
    np.testing.assert_allclose(whole[np.arange(len(text)), text], expected, rtol=1e-6)
    np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-6)
    assert whole.min() > 0


def test_discounts_are_estimated_where_counts_say_them():
    _, rough = train(flat(text_of(2000)), V, END, 4)
    assert rough != [1, 2, 3, 4] and 4 not in rough
    assert train(np.array([1, END]), 2, END, 3)[1] == [1, 2, 3]


def test_lines_by_themselves_are_the_running_text():
    lines = text_of(100)
    ngrams, _ = train(flat(lines), V, END, 4)
    text = flat(lines)
    running = ngrams.distributions(ngrams.histories(np.concatenate([[END], text[:-1]]), begin_of(ngrams)))
    by_line = [ngrams.distributions(ngrams.histories(np.array([END, *line]), np.full(3, -1))) for line in lines]
    np.testing.assert_array_equal(running, np.concatenate(by_line))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_history_goes_on_from_where_it_ended(order):
    text = flat(text_of(30))
    ngrams, _ = train(text, V, END, order)
    whole = ngrams.histories(text, begin_of(ngrams))
    state, parts = begin_of(ngrams), []
    for part in np.split(text, [1, 2, 7, 40]):
        parts.append(ngrams.histories(part, state))
        state = parts[-1][:, -1]
    np.testing.assert_array_equal(np.concatenate(parts, 1), whole)


def test_words_that_training_lacks_share_the_uniform_distribution():
    """With two more of them everything sums to 1 as well; as a history they are as nothing."""
    text = flat(text_of(50))
    ngrams, _ = train(text, V, END, 3)
    histories = ngrams.histories(np.array([END, 3, -1, 4, 5]), begin_of(ngrams))
    all_words = np.array([*range(V), -1, -1])
    for position in range(5):
        here = np.repeat(histories[:, position : position + 1], V + 2, axis=1)
        p = ngrams.probabilities(here, all_words, spread=V + 2)
        assert p.sum() == pytest.approx(1, rel=1e-6) and p[-1] > 0
        assert ngrams.probabilities(here, all_words)[-1] == 0
    np.testing.assert_array_equal(histories[:, 2], [-1, -1])
    assert histories[1, 3] == -1 and histories[0, 3] == 4


def test_every_history_of_a_small_vocabulary_sums_to_one():
    ngrams, _ = train(flat(text_of(200)), V, END, 3)
    pairs = np.array(list(itertools.product(range(V), repeat=2)))
    for first, second in pairs:
        p = ngrams.distributions(ngrams.histories(np.array([first, second]), np.full(2, -1)))
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)


def test_a_word_that_training_lacks_is_taken_for_no_other():
    """Not for the last word after the word before, whose n-gram has the number before."""
    ngrams, _ = train(flat(text_of(50)), V, END, 3)
    for word in range(V):
        histories = ngrams.histories(np.array([word, -1]), np.full(2, -1))
        np.testing.assert_array_equal(histories[:, 1], -1)
        after = np.repeat(histories[:, :1], 2, axis=1)
        p = ngrams.probabilities(after, np.array([-1, V - 1]), spread=V + 1)
        gamma = ngrams.levels[0].gammas[word]
        assert p[0] == pytest.approx(gamma * ngrams.floor / (V + 1), rel=1e-6)
