"""Guess a variable of each line's context from its words, by Bayes' rule over its values; beside bags of words."""

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np
from fairseq import utils
from numpy.typing import NDArray

from fairseq_groc.arguments import add_out, add_text, positive
from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.classification import baseline, fit_temperature, log_posterior, quality, scikit_learn
from fairseq_groc.evaluation.in_context import line_scores, variable_of
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.results import aligned, check_out, write_json


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser)
    parser.set_defaults(sample_break_mode="eos")
    parser.add_argument("--variable", required=True, metavar="NAME", help="that is guessed; others are as the data say")
    parser.add_argument("--prior", choices=("uniform", "train"), default="uniform", help="of the values")
    parser.add_argument("--calibrate", metavar="SPLIT", help="fit how sure guesses are on this text (valid)")
    parser.add_argument("--baseline", action="store_true", help="train bags of words on the data's training text")
    parser.add_argument("--batch-size", type=positive, default=50, help="lines at a time")
    add_out(parser)


def run(args: Namespace) -> None:
    check_out(args.out)
    scikit_learn("sklearn")  # before the work
    if args.context:
        raise OptionError("--context would give all lines one value, and what is guessed are theirs: leave it out")
    hub, dataset = open_split(args)
    place, variable = variable_of(hub.task.schema, args.variable)
    labels = labels_of(dataset, place)
    labelled = labels >= 0
    if not labelled.any():
        raise DataError(f"{args.data}: no line of '{args.split}' has a {variable.name} that the model knows")

    def scores(of: StreamDataset) -> NDArray[np.float64]:
        candidates = [with_value(of.contexts, place, number) for number in range(1, len(variable.values) + 1)]
        made: NDArray[np.float64] = line_scores(hub.models[0], of, candidates, args.batch_size, hub.task.block_length()).numpy()
        return made

    prior = np.log(np.array(variable.counts) / sum(variable.counts)) if args.prior == "train" else None
    tau = 1.0
    if args.calibrate:
        hub.task.load_dataset(args.calibrate)
        other = hub.task.dataset(args.calibrate)
        known = labels_of(other, place)
        tau = fit_temperature(scores(other)[known >= 0], known[known >= 0], prior)
    likelihoods = scores(dataset)
    found = quality(log_posterior(likelihoods[labelled], prior, tau), labels[labelled])
    report = {
        "variable": variable.name,
        "values": list(variable.values),
        "lines": int(labelled.sum()),
        "without a value": int((~labelled).sum()),
        "prior": args.prior,
        "temperature": tau,
        **found.as_dict(),
    }
    if args.baseline:
        report["baselines"] = bags_of_words(hub.task, dataset, place)
    show(report)
    if args.out:
        write_json(args.out, {**report, "likelihoods": likelihoods.tolist(), "labels": labels.tolist()})


def labels_of(dataset: StreamDataset, place: int) -> NDArray[np.int64]:
    """Return the value of each line by its number from 0, -1: none that the model knows, (lines)."""
    assert dataset.contexts is not None
    return dataset.contexts.categories[dataset.contexts.index, place] - 1


def with_value(contexts: Contexts | None, place: int, number: int) -> Contexts:
    """Return the lines' contexts with one value of a category in place of their own."""
    assert contexts is not None
    categories = contexts.categories.copy()
    categories[:, place] = number
    return contexts._replace(categories=categories)


def bags_of_words(task: Any, dataset: StreamDataset, place: int) -> dict[str, dict[str, float]]:
    """Return how good bags of words are that were trained on the training text."""
    subset = utils.split_paths(task.cfg.train_subset)[0]
    task.load_dataset(subset)
    texts = []
    for of in (task.dataset(subset), dataset):
        labels = labels_of(of, place)
        chosen = np.flatnonzero(labels >= 0)
        texts.append(([of.dictionary.string(of.lines[int(i)]) for i in chosen], labels[chosen].tolist()))
    return baseline(*texts[0], *texts[1])


def show(report: dict[str, Any]) -> None:
    """Print the figures, and which values are taken for which."""
    print(f"{report['lines']:,} lines, {len(report['values'])} values of {report['variable']}, prior {report['prior']}")
    rows = []
    own = [f"{report[name]:.3f}" for name in ("log_loss", "brier", "calibration_error")]
    rows.append(["model", f"{report['accuracy']:.1%}", f"{report['macro_f1']:.3f}", *own])
    for name, found in report.get("baselines", {}).items():
        rows.append([f"bag of words, {name}", f"{found['accuracy']:.1%}", f"{found['macro_f1']:.3f}", "", "", ""])
    print(aligned(["", "accuracy", "macro F1", "log loss", "Brier", "calibration error"], rows))
    values = [escaped(value) for value in report["values"]]
    counts = [[value, *map(str, row)] for value, row in zip(values, report["confusion"], strict=True)]
    print(aligned(["lines of, taken for", *values], counts))
