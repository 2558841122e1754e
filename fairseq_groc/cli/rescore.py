"""Rescore an n-best list: the model's log-probabilities mixed with other scores, by weights tuned on references."""

import logging
import math
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.arguments import add_adapter_arguments, add_cleaning, add_lexicon_path, add_model, fields_of_context
from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.text import cleaner, read_lines, warn_of_cleaning
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.evaluation.lines import context_reader
from fairseq_groc.evaluation.loading import options_of
from fairseq_groc.evaluation.nbest import (
    LM,
    WORDS,
    Columns,
    Floats,
    NBest,
    best_of,
    features_of,
    parse_weights,
    read_nbest,
    read_references,
)
from fairseq_groc.evaluation.results import aligned
from fairseq_groc.evaluation.word_errors import errors_of, total_errors, tuned_weights
from fairseq_groc.files import check_place, replace_file
from fairseq_groc.serving.scorer import load
from fairseq_groc.serving.service import LineScore

logger = logging.getLogger(__name__)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("nbest", type=Path, help="tab-separated, with a header, or with numbers for the fields")
    add_model(parser)
    add_cleaning(parser)
    fields = parser.add_argument_group("fields of the list: names of its header; or numbers from 1, then it has none")
    fields.add_argument("--id-field", default="id", metavar="NAME", help="of the utterance")
    fields.add_argument("--text-field", default="text", metavar="NAME", help="of the hypothesis")
    what = "what says the context of a hypothesis; --context says its other variables"
    fields.add_argument("--context-fields", type=fields_of_context, metavar="NAME=NAME,...", default={}, help=what)
    fields.add_argument(
        "--score-fields",
        nargs="+",
        metavar="NAME",
        help="other scores, logarithms (default: all other columns; by numbers: none)",
    )
    mixing = parser.add_argument_group("mixing")
    mixing.add_argument(
        "--weights", metavar="NAME=NUMBER,...", help=f"of {LM}, {WORDS} (their number) and the other scores (default: 1, 0, 1)"
    )
    mixing.add_argument(
        "--tune", type=Path, metavar="REFERENCES", help="find the weights: lines of an id, a tab and what was said"
    )
    mixing.add_argument("--tune-ids", type=Path, metavar="FILE", help="tune on these utterances (default: every other one)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the best hypotheses: an id, a tab and a text for each utterance"
    )
    parser.add_argument("--scores", type=Path, metavar="FILE", help="the list as score prints it: log-probability, tokens, line")
    parser.add_argument("--add-words", action="store_true", help="add the list's words to the vocabulary of DATA first")
    add_lexicon_path(parser, "of words that are added: that of the data's tables")
    add_adapter_arguments(parser)


def run(args: Namespace) -> None:
    _check(args)
    scores = tuple(args.score_fields) if args.score_fields else None
    nbest = read_nbest(args.nbest, Columns(args.id_field, args.text_field, scores, args.context_fields))
    _check_replaced(args, nbest)
    names, _ = features_of(nbest, [0.0] * len(nbest.lines))
    weights = parse_weights(args.weights, names) if args.weights else np.array([1.0] * (len(names) - 1) + [0.0])
    references = read_references(args.tune, nbest.ids) if args.tune else {}
    errors = _errors(nbest, references)
    tuned_on = _tuned_on(args.tune_ids, references, nbest) if args.tune else np.zeros(0, bool)
    found = _scored(nbest, args)
    names, features = features_of(nbest, [score.log_probability for score in found])
    if args.tune:
        weights = tuned_weights(nbest, features, errors, tuned_on)
        _report(nbest, names, features, weights, errors, tuned_on, references)
    if args.scores:
        with replace_file(args.scores) as file:
            file.writelines(
                f"{score.log_probability:.4f}\t{score.tokens}\t{line.whole}\n"
                for score, line in zip(found, nbest.lines, strict=True)
            )
    if args.out:
        best = best_of(nbest, features, weights)
        with replace_file(args.out) as file:
            file.writelines(f"{name}\t{nbest.lines[i].text}\n" for name, i in zip(nbest.ids, best, strict=True))


def _check(args: Namespace) -> None:
    """Refuse, before the work, options that do not go together.

    Raises:
        OptionError: which, and why.
    """
    if not (args.out or args.scores or args.tune):
        raise OptionError("nothing to do: give --out FILE for the best hypotheses, --scores FILE, or --tune REFERENCES")
    if args.weights and args.tune:
        raise OptionError("--weights are what --tune finds: give one of them")
    if args.tune_ids and not args.tune:
        raise OptionError("--tune-ids says which utterances --tune uses: give --tune REFERENCES")
    if args.lexicon_path and not args.add_words:
        raise OptionError("--lexicon-path concerns new words: give --add-words")
    if args.out and args.scores and args.out.resolve() == args.scores.resolve():
        raise OptionError(f"--out and --scores {args.out} are one file: give two names")
    for option, path in (("--out", args.out), ("--scores", args.scores)):
        if path:
            check_place(option, path)


def _check_replaced(args: Namespace, nbest: NBest) -> None:
    """Refuse to replace what is no earlier result.

    Raises:
        OptionError: which file.
    """
    earlier = {"--out": rf"({'|'.join(map(re.escape, nbest.ids))})\t[^\t]*", "--scores": r"(-?\d+\.\d{4}|-inf)\t\d+\t.*"}
    read = [path.resolve() for path in (args.nbest, args.tune, args.tune_ids) if path]
    for option, path in (("--out", args.out), ("--scores", args.scores)):
        if not path or not path.exists():
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            first = file.readline().rstrip("\n")
        if path.resolve() in read or not (first == "" or re.fullmatch(earlier[option], first)):
            raise OptionError(f"{option} {path} exists and is no earlier result: give another name")


def _scored(nbest: NBest, args: Namespace) -> list[LineScore]:
    warn_of_cleaning(args.nbest, args.data, args.tokenize, args.lower)
    scorer = load(args.path, args.data, lexicon_path=args.lexicon_path, **options_of(args))
    texts = [*map(cleaner(args.tokenize, args.lower), (line.text for line in nbest.lines))]
    if args.add_words:
        words = dict.fromkeys(word for text in texts for word in text.split())
        scorer.add_words([word for word in words if word != scorer.decoder.dictionary.unk_word])
    read = context_reader(scorer.schema, args.context_fields, args.context)
    found = scorer.score(texts, context=None if read is None else Contexts.joined([*map(read, nbest.lines)]))
    impossible = sum(score.log_probability == -math.inf for score in found)
    if impossible:
        logger.warning(
            f"{impossible:,} of {len(found):,} hypotheses have words that the model has no row for, and probability 0: they are "
            "chosen where there is no other. Give --uniform-weight W to mix in the uniform distribution."
        )
    return found


def _errors(nbest: NBest, references: dict[str, str]) -> NDArray[np.int64]:
    """Return the errors of each hypothesis, (N), 0 where there is no reference."""
    errors = np.zeros(len(nbest.lines), np.int64)
    known = np.flatnonzero(nbest.of(references))
    if len(known):
        said = [references[nbest.ids[nbest.utterance[i]]] for i in known]
        errors[known] = errors_of(said, [nbest.lines[i].text for i in known])
    return errors


def _tuned_on(path: Path | None, references: dict[str, str], nbest: NBest) -> NDArray[np.bool_]:
    """Return which hypotheses are of utterances that weights are tuned on, (N).

    Raises:
        DataError: none is, or one has no reference.
    """
    known = [name for name in nbest.ids if name in references]
    chosen = set(known[::2])
    if path is not None:
        chosen = {line.strip() for line in read_lines(path)} - {""}
        lacking = [name for name in chosen if name not in references]
        if lacking or not chosen:
            what = f"{shown(min(lacking))} has no reference or is not in the list" if lacking else "no id"
            raise DataError(f"{path}: {what}")
    return nbest.of(chosen)


def _report(
    nbest: NBest,
    names: Sequence[str],
    features: Floats,
    weights: Floats,
    errors: NDArray[np.int64],
    tuned_on: NDArray[np.bool_],
    references: dict[str, str],
) -> None:
    """Print the word error rates of each score, of the mixture, and of the best there is."""
    parts = {"tuned on": tuned_on, "others": nbest.of(references) & ~tuned_on}

    def rates(name: str, features: Floats, weights: Floats) -> list[str]:
        row = [name]
        for part in parts.values():
            total = sum(len(references[nbest.ids[number]].split()) for number in set(nbest.utterance[part].tolist()))
            wrong = total_errors(nbest, features, errors, part, weights)
            row.append(f"{wrong / total:.2%}" if total else "")
        return row

    alone = np.eye(len(names))
    rows = [rates(name, features, alone[i]) for i, name in enumerate(names) if name != WORDS]
    rows.append(rates("mixture", features, weights))
    rows.append(rates("best there is", -errors[:, None].astype(np.float64), np.ones(1)))
    counts = [f"{len(set(nbest.utterance[part].tolist())):,}" for part in parts.values()]
    print(aligned(["word error rate", *parts], [*rows, ["utterances", *counts]]))
    print("--weights " + ",".join(f"{name}={weight:.6g}" for name, weight in zip(names, weights, strict=True)))
