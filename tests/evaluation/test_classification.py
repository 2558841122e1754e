"""Guesses of contexts against sums by hand, scikit-learn's own measures and samples of a known posterior."""

import itertools
import math
import sys
from argparse import Namespace
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from fairseq_groc.cli.classify import labels_of
from fairseq_groc.contexts.arrays import write_contexts
from fairseq_groc.contexts.variables import SplitContexts, Variable
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation import in_context
from fairseq_groc.evaluation.classification import (
    TEMPERATURES,
    baseline,
    calibration_error,
    fit_temperature,
    log_posterior,
    quality,
)
from fairseq_groc.modules.probabilities import LOG_ZERO

S = np.array([[-10.0, -12.0, -11.0], [-20.0, -19.0, -25.0], [-3.0, -3.5, -3.2], [-7.0, -9.0, -6.0]])
LABELS = np.array([0, 1, 2, 2])


def by_hand(row, prior=(0, 0, 0), tau=1.0):
    parts = [math.exp(tau * s + p) for s, p in zip(row, prior, strict=True)]
    return [part / sum(parts) for part in parts]


def sample(lines, classes, seed=1):
    """Return likelihoods and labels drawn from the posterior that they give."""
    draw = np.random.default_rng(seed)
    likelihoods = draw.normal(-50, 2, (lines, classes))
    posterior = np.array([by_hand(row, (0,) * classes) for row in likelihoods])
    return likelihoods, (posterior.cumsum(1) < draw.random((lines, 1))).sum(1)


@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_posterior_is_bayes_rule(tau):
    prior = np.log([0.5, 0.3, 0.2])
    expected = [by_hand(row, prior, tau) for row in S]
    np.testing.assert_allclose(np.exp(log_posterior(S, prior, tau)), expected, rtol=1e-12)
    np.testing.assert_allclose(log_posterior(S), np.log([by_hand(row) for row in S]), rtol=1e-12)


class Text(list):
    name = "valid"


def test_a_line_with_an_impossible_word_is_impossible(monkeypatch):
    lines, words = torch.tensor([1, -1, 0]), torch.tensor([[-1.0, -2.0], [0.0, 0.0], [LOG_ZERO, -2.0]])
    monkeypatch.setattr(in_context, "in_context", lambda *_: nullcontext())
    monkeypatch.setattr(in_context, "token_scores", lambda *_: [(lines, None, words)])
    with pytest.raises(DataError, match="line 1 of 'valid' has words that the model has not"):
        in_context.log_likelihoods(None, Text([None] * 2), [None], 3, 2)
    words[2, 0] = -3.0
    assert in_context.log_likelihoods(None, Text([None] * 2), [None], 3, 2).tolist() == [[-5.0], [-3.0]]


def test_a_text_without_a_label_is_refused(tmp_path):
    arrays = SplitContexts("table", (Variable("topic", "category", ("a",)),), np.array([[1], [0]], np.int32), np.zeros((2, 0)))
    text, args = Namespace(name="valid", sizes=np.array([3, 4])), Namespace(data=tmp_path, variable="topic")
    write_contexts(tmp_path / "valid", arrays, text.sizes)
    assert labels_of(args, text, ["b", "a"]).tolist() == [1, -1]
    with pytest.raises(DataError, match="no line of 'valid' has a topic that is among those to guess"):
        labels_of(args, text, ["b", "c"])


def test_posterior_of_long_lines_does_not_underflow():
    posterior = log_posterior(np.array([[-5000.0, -5100.0]]))
    np.testing.assert_allclose(posterior, [[0, -100]], atol=1e-12)
    assert quality(posterior, np.array([1]))["log_loss"] == pytest.approx(100, rel=1e-12)


def test_quality_by_hand():
    found = quality(log_posterior(S), LABELS)
    rows = [by_hand(row) for row in S]
    assert found["accuracy"] == 0.75
    assert found["confusion"] == [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 2 / 3) / 3, rel=1e-12)
    assert found["log_loss"] == pytest.approx(-sum(math.log(p[k]) for p, k in zip(rows, LABELS, strict=True)) / 4, rel=1e-12)
    squares = [sum((value - (k == place)) ** 2 for place, value in enumerate(p)) for p, k in zip(rows, LABELS, strict=True)]
    assert found["brier"] == pytest.approx(sum(squares) / 4, rel=1e-12)


def test_brier_of_two_classes_is_of_the_same_scale():
    posterior = np.log(np.array([[0.8, 0.2], [0.4, 0.6]]))
    found = quality(posterior, np.array([0, 0]))
    assert found["brier"] == pytest.approx((2 * 0.2**2 + 2 * 0.6**2) / 2, rel=1e-12)
    assert found["confusion"] == [[1, 1], [0, 0]]


def test_log_loss_is_scikit_learns():
    from sklearn.metrics import log_loss

    likelihoods, labels = sample(500, 4)
    posterior = log_posterior(likelihoods)
    assert quality(posterior, labels)["log_loss"] == pytest.approx(log_loss(labels, np.exp(posterior)), rel=1e-10)


def test_calibration_error_by_hand():
    confidences = np.array([0.9, 0.95, 0.55, 0.6, 0.3])
    right = np.array([True, False, True, True, False])
    # bins of a half: (0, 0.5] has 0.3; (0.5, 1] the others
    assert calibration_error(confidences, right, bins=2) == pytest.approx((0.3 + abs(3.0 - 3)) / 5, abs=1e-12)
    # of a fifth: 0.3 alone; 0.55 and 0.6 with two right; 0.9 and 0.95 with one
    assert calibration_error(confidences, right, bins=5) == pytest.approx((0.3 + 0.85 + 0.85) / 5, rel=1e-12)


def test_calibration_error_has_the_bins_of_scikit_learn():
    from sklearn.calibration import calibration_curve

    draw = np.random.default_rng(3)
    confidences = np.concatenate([draw.random(300), [0.0, 0.2, 1.0]])
    right = draw.random(303) < confidences**2
    shares, means = calibration_curve(right, confidences, n_bins=15)
    edges = np.linspace(0, 1, 16)
    weights = [((confidences > low) & (confidences <= high)).mean() for low, high in itertools.pairwise(edges)]
    weights[0] += 1 / 303  # what is 0
    assert calibration_error(confidences, right) == pytest.approx(float(np.abs(shares - means) @ weights), rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 10.0, 0.2])
def test_temperature_of_samples_is_recovered(scale):
    likelihoods, labels = sample(20_000, 5)
    tau = fit_temperature(scale * likelihoods, labels)
    assert tau == pytest.approx(1 / scale, rel=0.03)  # 20,000 samples
    loss = quality(log_posterior(scale * likelihoods, None, tau), labels)["log_loss"]
    for other in (0.99 * tau, 1.01 * tau):
        assert quality(log_posterior(scale * likelihoods, None, other), labels)["log_loss"] > loss
    assert quality(log_posterior(scale * likelihoods, None, tau), labels)["calibration_error"] < 0.02


def test_temperature_is_that_of_the_prior_too():
    likelihoods, labels = sample(5000, 3)
    prior = np.log([0.7, 0.2, 0.1])
    assert fit_temperature(likelihoods - prior, labels, prior) != pytest.approx(
        fit_temperature(likelihoods - prior, labels), rel=1e-3
    )
    assert fit_temperature(likelihoods - prior, labels, prior) == pytest.approx(1, rel=0.05)


def test_temperature_where_all_or_nothing_is_right():
    tau = fit_temperature(S[:2], LABELS[:2])
    assert tau > 30 and quality(log_posterior(S, None, tau)[:2], LABELS[:2])["log_loss"] < 1e-10
    assert fit_temperature(S[:1], np.array([1])) == pytest.approx(TEMPERATURES[0], rel=1e-3)


@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_impossible_lines_are_named(value):
    likelihoods = S.copy()
    likelihoods[2, 1] = value
    with pytest.raises(DataError, match="line 3 has a likelihood of (-inf|nan)"):
        log_posterior(likelihoods)


def naive_bayes(train, labels, text):
    """Return the most probable class of a text, counts smoothed by one."""
    vocabulary = {word for line in train for word in line.split()}
    scores = {}
    for label in set(labels):
        own = [word for line, of in zip(train, labels, strict=True) if of == label for word in line.split()]
        scores[label] = math.log(labels.count(label) / len(labels)) + sum(
            math.log((own.count(word) + 1) / (len(own) + len(vocabulary))) for word in text.split() if word in vocabulary
        )
    return max(scores, key=scores.get)


def test_baseline_is_naive_bayes_over_tokens():
    draw = np.random.default_rng(5)
    words = ["Goal", "goal", "x", "it's", "7.5", "vote"]

    def line(sport):
        weights = np.array([6, 2, 3, 3, 1, 1]) if sport else np.array([1, 3, 3, 3, 2, 4])
        return " ".join(draw.choice(words, 6, p=weights / weights.sum()))

    labels = ["news" if place % 5 < 2 else "sport" for place in range(60)]
    texts = [line(label == "sport") for label in labels]
    guesses = [naive_bayes(texts[:40], labels[:40], text) for text in texts[40:]]
    right = sum(guess == label for guess, label in zip(guesses, labels[40:], strict=True)) / 20
    found = baseline(texts[:40], labels[:40], texts[40:], labels[40:])
    assert 0.5 < right < 1 and found["naive Bayes"]["accuracy"] == pytest.approx(right, abs=1e-12)
    assert 0.5 < found["logistic regression"]["accuracy"] <= 1
    f1 = [
        2 * sum(g == k == one for g, k in zip(guesses, labels[40:], strict=True)) / (guesses.count(one) + labels[40:].count(one))
        for one in ("news", "sport")
    ]
    assert found["naive Bayes"]["macro_f1"] == pytest.approx(sum(f1) / 2, rel=1e-12)


def test_without_scikit_learn_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(OptionError, match="scikit-learn, which is not installed: pip install 'scikit-learn>=1.7'"):
        quality(log_posterior(S), LABELS)
