"""Contexts guessed from text: how good Bayes' rule is over a model's log-likelihoods (Jaech and Ostendorf 2018, equation 7).

S (L, n) has the summed natural logarithm of the probability of each of L lines under each of n contexts, the classes. Labels (L)
are numbers of classes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.errors import DataError, OptionError, imported

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
TEMPERATURES = (1e-6, 1e3)  # where tau is looked for
BINS = 15  # of the calibration error


def scikit_learn(module: str) -> Any:
    """Return a module of scikit-learn, or of SciPy, which comes with it.

    Raises:
        OptionError: it is not installed.
    """
    missing = OptionError("this is done with scikit-learn, which is not installed: pip install 'scikit-learn>=1.7'")
    return imported(module, missing)


def log_posterior(likelihoods: Floats, log_prior: Floats | None = None, tau: float = 1.0) -> Floats:
    """Return log p(class | line) in proportion to p(line | class)^tau p(class), (L, n).

    Args:
        likelihoods: S, (L, n)
        log_prior: of each class, (n); None: all alike, as in the paper
        tau: below 1 it makes up for summed log-likelihoods that are too sure of themselves; see ``fit_temperature``

    Raises:
        DataError: a line is impossible, or has no number.
    """
    if not np.isfinite(likelihoods).all():
        line = int(np.flatnonzero(~np.isfinite(likelihoods).all(1))[0])
        raise DataError(f"line {line + 1} has a likelihood of {likelihoods[line].min()}: give a text of words that the model has")
    prior = 0.0 if log_prior is None else log_prior
    return scikit_learn("scipy.special").log_softmax(tau * likelihoods + prior, axis=1)


def quality(posterior: Floats, labels: Labels) -> dict[str, Any]:
    """Return how good the most probable classes are, and the probabilities.

    Args:
        posterior: logarithms, (L, n)
        labels: (L)

    Returns:
        accuracy: share of lines whose guess is their label
        macro_f1: mean of F1 over the classes that are a label or a guess
        confusion: lines by label (rows) and guess (columns), (n, n)
        log_loss: mean of -log p(label), nats
        brier: mean over lines of the squared error of p summed over classes, 0 to 2
        calibration_error: expected distance between the largest p of a line and the share of such guesses that are right
    """
    metrics, classes = scikit_learn("sklearn.metrics"), np.arange(posterior.shape[1])
    guesses, probabilities = posterior.argmax(1), np.exp(posterior)
    return {
        **_of_guesses(labels, guesses),
        "confusion": metrics.confusion_matrix(labels, guesses, labels=classes).tolist(),
        "log_loss": log_loss(posterior, labels),
        "brier": float(metrics.brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)),
        "calibration_error": calibration_error(probabilities.max(1), guesses == labels),
    }


def _of_guesses(labels: Sequence[Any] | Labels, guesses: Any) -> dict[str, float]:
    metrics = scikit_learn("sklearn.metrics")
    macro_f1 = metrics.f1_score(labels, guesses, average="macro")
    return {"accuracy": float(metrics.accuracy_score(labels, guesses)), "macro_f1": float(macro_f1)}


def log_loss(posterior: Floats, labels: Labels) -> float:
    """Return the mean of -log p(label), nats; scikit-learn's takes probabilities, and so ends at 36 nats a line."""
    return float(-posterior[np.arange(len(labels)), labels].mean())


def calibration_error(confidences: Floats, right: NDArray[np.bool_], bins: int = BINS) -> float:
    """Return the expected calibration error of Naeini et al. (2015), over bins of one width.

    Args:
        confidences: the probability of each guess, (L)
        right: which guesses are, (L)
    """
    places = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidences)  # as calibration_curve of scikit-learn
    return float(np.abs(np.bincount(places, confidences - right)).sum() / len(right))


def fit_temperature(likelihoods: Floats, labels: Labels, log_prior: Floats | None = None) -> float:
    """Return the tau whose posterior gives the labels of calibration lines the smallest log loss, in which it is convex.

    Where all lines are guessed right, it is any tau that is large enough: nothing says how sure is too sure.

    Args:
        likelihoods: S, (L, n)
        labels: (L)
        log_prior: (n)
    """

    def loss(exponent: float) -> float:
        return log_loss(log_posterior(likelihoods, log_prior, float(np.exp(exponent))), labels)

    bounds = tuple(np.log(TEMPERATURES))
    found = scikit_learn("scipy.optimize").minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x))


def baseline(
    train_texts: Sequence[str], train_labels: Sequence[Any], texts: Sequence[str], labels: Sequence[Any]
) -> dict[str, dict[str, float]]:
    """Return accuracy and macro F1 of bags of words: naive Bayes, and a logistic regression on counts.

    Args:
        train_texts: tokens with blanks between them
        train_labels: of each, numbers or names
        texts, labels: those that are guessed
    """
    bayes, linear = scikit_learn("sklearn.naive_bayes"), scikit_learn("sklearn.linear_model")
    words = scikit_learn("sklearn.feature_extraction.text").CountVectorizer(token_pattern=r"\S+", lowercase=False)
    counts = words.fit_transform(train_texts)
    models = {"naive Bayes": bayes.MultinomialNB(), "logistic regression": linear.LogisticRegression(max_iter=1000)}
    guesses = {name: model.fit(counts, train_labels).predict(words.transform(texts)) for name, model in models.items()}
    return {name: _of_guesses(labels, guessed) for name, guessed in guesses.items()}
