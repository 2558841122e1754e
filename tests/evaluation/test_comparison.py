"""The paired bootstrap, against SciPy's, and what seeds have in common."""

import math

import numpy as np
import pytest
from scipy import stats

from fairseq_groc.evaluation import comparison
from fairseq_groc.evaluation.comparison import paired_bootstrap, seeds


def drawn(lines=40):
    rng = np.random.default_rng(3)
    tokens = rng.integers(1, 9, lines).astype(float)
    theirs = tokens * rng.gamma(5.0, 1.0, lines)
    return tokens, theirs * rng.normal(0.95, 0.1, lines), theirs


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_is_that_of_scipy(monkeypatch, confidence):
    monkeypatch.setattr(comparison, "AT_ONCE", 400)  # in several steps

    def ratio(tokens, ours, theirs, axis):
        return np.exp(ours.sum(axis) / tokens.sum(axis)) / np.exp(theirs.sum(axis) / tokens.sum(axis))

    tokens, ours, theirs = drawn()
    found = paired_bootstrap(tokens, ours, theirs, confidence, 999, seed=5)
    options = {"paired": True, "method": "percentile", "n_resamples": 999, "confidence_level": confidence}
    expected = stats.bootstrap((tokens, ours, theirs), ratio, rng=np.random.default_rng(5), **options).confidence_interval
    ends = {"low": expected.low, "high": expected.high}
    assert found == pytest.approx({"ratio": ratio(tokens, ours, theirs, 0), **ends}, rel=1e-12)


def test_the_interval_turns_round_with_its_sides_and_narrows_where_models_agree():
    tokens, ours, theirs = drawn()
    one, other = (paired_bootstrap(tokens, *pair, 0.9, 500, 1) for pair in ((ours, theirs), (theirs, ours)))
    assert other == pytest.approx({"ratio": 1 / one["ratio"], "low": 1 / one["high"], "high": 1 / one["low"]}, rel=1e-3)
    constant = paired_bootstrap(tokens, theirs + 0.1 * tokens, theirs, 0.9, 500, 1)  # every token costs as much more
    assert constant == pytest.approx(dict.fromkeys(("ratio", "low", "high"), math.exp(0.1)), rel=1e-12)


def test_draws_without_such_tokens_count_for_nothing():
    tokens = np.array([0.0, 0.0, 2.0])
    found = paired_bootstrap(tokens, np.array([0, 0, 3.0]), np.array([0, 0, 1.0]), 0.95, 200, 1)
    assert (found["low"], found["high"]) == pytest.approx((math.e, math.e), rel=1e-12)


def test_seeds_have_a_mean_and_a_spread_and_one_has_none():
    tokens = np.array([2.0, 3.0])
    both = seeds(tokens, [np.array([2.0, 3.0]), np.array([4.0, 6.0])])
    assert both["perplexities"] == pytest.approx((math.e, math.e**2)) and both["mean"] == pytest.approx((math.e + math.e**2) / 2)
    assert both["deviation"] == pytest.approx((math.e**2 - math.e) / math.sqrt(2))
    assert seeds(tokens, [tokens])["deviation"] is None
