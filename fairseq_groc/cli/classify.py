"""Guess a variable of each line's context from its words, by Bayes' rule over its values; beside bags of words."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from numpy.typing import NDArray

from fairseq_groc.arguments import add_out, add_text, positive
from fairseq_groc.contexts.arrays import open_contexts
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.table import read_table
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.classification import baseline, fit_temperature, log_posterior, quality, scikit_learn
from fairseq_groc.evaluation.in_context import log_likelihoods, variable_of
from fairseq_groc.evaluation.loading import open_split
from fairseq_groc.evaluation.results import aligned, write_json

Candidates = Callable[[Contexts], list[Contexts]]  # from the contexts of lines to those that they would have with each value


def add_arguments(parser: ArgumentParser) -> None:
    add_text(parser)
    parser.set_defaults(sample_break_mode="eos")
    parser.add_argument("--variable", required=True, metavar="NAME", help="that is guessed; others are as the data say")
    parser.add_argument(
        "--candidates", metavar="FILE", help="a table of values to guess and their contexts; the model need not know the variable"
    )
    parser.add_argument("--prior", choices=("uniform", "train"), default="uniform", help="prior probabilities of the values")
    parser.add_argument("--calibrate", metavar="SPLIT", help="fit how sure guesses are on this text, such as valid")
    parser.add_argument("--baseline", action="store_true", help="train bags of words on the data's training text")
    parser.add_argument("--batch-size", type=positive, default=50, help="lines at a time")
    add_out(parser, drawn=False)


def run(args: Namespace) -> None:
    scikit_learn("sklearn")  # before the work
    if args.context:
        raise OptionError("--context would give all lines one value, and what is guessed are theirs: leave it out")
    hub, dataset = open_split(args)
    values, candidates, counts = candidates_of(hub.task.schema, args)
    labels = labels_of(args, dataset, values)
    labelled = labels >= 0
    baselines = {"baselines": bags_of_words(args, hub.task, dataset, values)} if args.baseline else {}

    def scores(of: StreamDataset) -> NDArray[np.float64]:
        assert of.contexts is not None
        return log_likelihoods(hub.models[0], of, candidates(of.contexts), args.batch_size, hub.task.block_length()).numpy()

    prior = None if counts is None else np.log(np.array(counts) / sum(counts))
    tau = 1.0
    if args.calibrate:
        hub.task.load_dataset(args.calibrate)
        other = hub.task.dataset(args.calibrate)
        known = labels_of(args, other, values)
        tau = fit_temperature(scores(other)[known >= 0], known[known >= 0], prior)
    likelihoods = scores(dataset)
    posterior = log_posterior(likelihoods, prior, tau)
    report = {
        "variable": args.variable,
        "values": values,
        "lines": int(labelled.sum()),
        "without a value": int((~labelled).sum()),
        "prior": args.prior,
        "temperature": tau,
        **quality(posterior[labelled], labels[labelled]),
        **baselines,
    }
    show(report)
    if args.out:
        found_of = {"likelihoods": likelihoods, "labels": labels, "guesses": posterior.argmax(1)}
        write_json(args.out, {**report, **{name: values.tolist() for name, values in found_of.items()}})


def candidates_of(schema: Schema | None, args: Namespace) -> tuple[list[str], Candidates, tuple[int, ...] | None]:
    """Return the values to guess, what makes of a text's contexts those with each value, and their counts if they are the prior.

    Raises:
        OptionError: a variable that the model lacks, candidates that say nothing of its variables, or have no counts.
        DataError: candidates that cannot be told from each other, or fewer than two.
    """
    if args.candidates is None:
        place, variable = variable_of(schema, args.variable)
        numbers, counts = range(1, len(variable.values) + 1), variable.counts if args.prior == "train" else None
        return list(variable.values), lambda own: [with_value(own, place, number) for number in numbers], counts
    if args.prior == "train":
        raise OptionError("--prior train: nothing says how often training has --candidates. Leave it out.")
    table = read_table(args.candidates)
    known = [] if schema is None else [one.name for one in schema.variables if one.name in table.names]
    if schema is None or not known or args.variable not in table.names:
        raise OptionError(
            f"--candidates {args.candidates}: expected columns {args.variable} and variables of the model's contexts"
        )
    cells = {name: [table.column(name).values[code] for code in table.column(name).codes] for name in (args.variable, *known)}
    rows = [*map(schema.parser(), ({name: cells[name][row] for name in known} for row in range(table.rows)))]
    names = cells[args.variable]
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        raise DataError(f"{args.candidates}: expected two or more values of {args.variable} to guess, each in a row of its own")
    return names, lambda own: rows, None


def labels_of(args: Namespace, dataset: StreamDataset, values: list[str]) -> NDArray[np.int64]:
    """Return the place of each line's value among those to guess, -1: it is none of them, (lines).

    Raises:
        OptionError: the data say nothing of it.
        DataError: no line has any of them.
    """
    arrays = open_contexts(Path(args.data, dataset.name), dataset.sizes)
    given = {} if arrays is None else {one.name: one for one in arrays.variables if one.kind == "category"}
    if arrays is None or args.variable not in given:
        raise OptionError(f"--variable {args.variable}: {args.data} has no such category of the lines of '{dataset.name}'")
    places = {value: place for place, value in enumerate(values)}
    numbers = np.array([-1, *(places.get(value, -1) for value in given[args.variable].values)], np.int64)
    labels = numbers[arrays.column(args.variable)]
    if not (labels >= 0).any():
        raise DataError(f"{args.data}: no line of '{dataset.name}' has a {args.variable} that is among those to guess")
    return labels


def with_value(contexts: Contexts, place: int, number: int) -> Contexts:
    """Return the lines' contexts with one value of a category in place of their own."""
    categories = contexts.categories.copy()
    categories[:, place] = number
    return contexts._replace(categories=categories)


def bags_of_words(args: Namespace, task: Any, dataset: StreamDataset, values: list[str]) -> dict[str, dict[str, float]]:
    """Return how good bags of words are that were trained on the training text.

    Raises:
        DataError: its lines have not two of the values.
    """
    subset = utils.split_paths(task.cfg.train_subset)[0]
    task.load_dataset(subset)
    texts = []
    for of in (task.dataset(subset), dataset):
        labels = labels_of(args, of, values)
        chosen = np.flatnonzero(labels >= 0)
        texts.append(([of.dictionary.string(of.lines[int(i)]) for i in chosen], labels[chosen].tolist()))
    if len(set(texts[0][1])) < 2 or not any(texts[0][0]):
        lacking = f"fewer than two values of {args.variable}, or no words"
        raise DataError(f"--baseline: the lines of '{subset}' in {args.data} have {lacking}")
    return baseline(*texts[0], *texts[1])


def show(report: dict[str, Any]) -> None:
    """Print the figures, and which values are taken for which."""
    print(f"{report['lines']:,} lines, {len(report['values'])} values of {report['variable']}, prior {report['prior']}")
    own = [abs(report[name]) for name in ("log_loss", "brier", "calibration_error")]  # rounding may leave a loss of 0 below it
    rows = [["model", f"{report['accuracy']:.1%}", f"{report['macro_f1']:.3f}", *(f"{loss:.3f}" for loss in own)]]
    for name, found in report.get("baselines", {}).items():
        rows.append([f"bag of words, {name}", f"{found['accuracy']:.1%}", f"{found['macro_f1']:.3f}", "", "", ""])
    print(aligned(["", "accuracy", "macro F1", "log loss", "Brier", "calibration error"], rows))
    values = [escaped(value) for value in report["values"]]
    counts = [[value, *map(str, row)] for value, row in zip(values, report["confusion"], strict=True)]
    print(aligned(["lines of, taken for", *values], counts))
