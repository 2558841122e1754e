"""Score the lines of a file with a checkpoint: tab-separated log-probability, tokens, line."""

import logging
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from fairseq_groc.arguments import add_adapter_arguments, add_cleaning, add_lexicon_path, add_model, fields_of_context, positive
from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.text import Unseparated, cleaner, cleaning, escaped, warn_of_cleaning
from fairseq_groc.data.word_list import listed_words
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.evaluation.characters import pieces_of
from fairseq_groc.evaluation.line_scores import BLOCK, block_lengths, score_lines
from fairseq_groc.evaluation.lines import Line, context_reader, lines_of
from fairseq_groc.evaluation.loading import data_lexicon, load_as
from fairseq_groc.logs import NOTICE
from fairseq_groc.modules.probabilities import perplexity
from fairseq_groc.open_vocabulary.masses import ADAPTIVE, fixed_mass, mass_of
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer

logger = logging.getLogger(__name__)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "text", help="a file of lines, tokenised or to --tokenize, - for the standard input; with --field, tab-separated"
    )
    add_model(parser)
    add_cleaning(parser)
    parser.add_argument("--field", type=positive, help="the text is this field of each line, from 1 (an n-best list, say)")
    what = "with --field, the fields that say the line's context; --context says its other variables"
    parser.add_argument("--context-fields", type=_places, metavar="NAME=FIELD,...", default={}, help=what)
    parser.add_argument("--running", action="store_true", help="one running text: do not begin anew at each line")
    add_adapter_arguments(parser)
    _add_vocabulary_arguments(parser)
    what = f"tokens at a time; default: {BLOCK}, the training's where no state is carried, or what an adapter wants"
    parser.add_argument("--tokens-per-sample", type=positive, help=what)


def run(args: Namespace) -> None:
    _check(args)
    marks, clean = Unseparated(), cleaner(args.tokenize, args.lower)
    lines: Iterable[Line] = lines_of(args.text, args.field, args.context_fields, lambda text: marks.saw(clean(text)))
    lines = lines if args.open_vocabulary else list(lines)  # bad input is refused before anything is scored
    hub = load_as(args)
    warn_of_cleaning(args.text, args.data, args.tokenize, args.lower)
    if args.limit_vocabulary:
        _limit(hub.models[0], args)
    (_run_open if args.open_vocabulary else _run_closed)(hub, lines, args)
    marks.warn(args.text)


def _run_closed(hub: Any, lines: Iterable[Line], args: Namespace) -> None:
    """Score lines over the vocabulary as it is."""
    lines = list(lines)
    texts = [line.text for line in lines]
    read = context_reader(hub.task.schema, args.context_fields, args.context)
    contexts = None if read is None else Contexts.joined([read(line) for line in lines])
    _report_unknown(texts, hub.task.dictionary, args)
    total, counted, impossible = 0.0, 0, 0
    scores = score_lines(hub, texts, args.running, args.tokens_per_sample, contexts)
    for line, (score, tokens) in zip(lines, scores, strict=True):
        total, counted, impossible = total + score, counted + tokens, impossible + (score == -math.inf)
        write_score(score, tokens, line.whole)
    logger.log(NOTICE, f"{len(lines):,} lines, {counted:,} tokens with their ends; perplexity {perplexity(-total, counted):,.2f}")
    if impossible:
        why = "words beyond --limit-vocabulary, or " if args.limit_vocabulary else "words "
        logger.warning(
            f"{impossible:,} of {len(lines):,} lines have {why}that the model has no row for, and probability 0. "
            "Give --uniform-weight W to mix in the uniform distribution."
        )


def _report_unknown(texts: list[str], dictionary: Any, args: Namespace) -> None:
    unknown = [word for text in texts for word in text.split() if word not in dictionary.indices]
    if unknown:
        file = "FILE" if args.field or args.text == "-" else args.text
        options = " ".join(["--vocabulary-from", quote(args.data), "--test", quote(file), *cleaning(args.tokenize, args.lower)])
        logger.warning(
            f"{len(unknown):,} words, {shown(unknown[0])} first, are not in the vocabulary of {args.data} and score as <unk>. "
            f"Give --open-vocabulary, or add them: scripts/preprocess.sh {options} --dest DIR, then --data DIR."
        )


def _places(given: str) -> dict[str, int]:
    """Return the number of the field that each variable is in, from 1."""
    return {name: positive(field) for name, field in fields_of_context(given).items()}


def _add_vocabulary_arguments(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("vocabulary")
    group.add_argument(
        "--open-vocabulary", action="store_true", help="take words into the vocabulary when they are first met, line by line"
    )
    group.add_argument(
        "--new-word-mass",
        metavar="MASS",
        help="with --open-vocabulary, the probability that the next word is a new one: a number; unk: that of <unk>; "
        "adaptive (default): the rate of new words so far",
    )
    group.add_argument("--limit-vocabulary", metavar="FILE", help="predict only the words of this file, the first of each line")
    add_lexicon_path(group, "of new words: that of the data's tables")


def _check(args: Namespace) -> None:
    """Refuse options that do not go together.

    Raises:
        OptionError: which, and why.
    """
    if args.new_word_mass is not None and not args.open_vocabulary:
        raise OptionError("--new-word-mass concerns words that are met: give --open-vocabulary")
    if args.context_fields and not args.field:
        raise OptionError("--context-fields: the text is one field of several. Give --field, which says which.")
    if args.lexicon_path and not (args.open_vocabulary or args.limit_vocabulary):
        raise OptionError("--lexicon-path concerns new words: give --open-vocabulary or --limit-vocabulary")
    fixed_mass(args.new_word_mass or ADAPTIVE)


def _limit(model: Any, args: Namespace) -> None:
    """Let a model predict only the words of a file; those that its vocabulary lacks are added.

    Raises:
        DataError: it has no words, or something that is none.
    """
    words = listed_words(Path(args.limit_vocabulary), args.lower)
    before = len(model.decoder.dictionary)
    try:
        if any(word not in model.decoder.dictionary.indices for word in words):
            model.add_words(words, data_lexicon(model.decoder.origin, args.lexicon_path))
        model.limit_vocabulary(words)
    except DataError as error:
        raise DataError(f"{args.limit_vocabulary}: {error}") from None
    added = len(model.decoder.dictionary) - before
    logger.log(NOTICE, f"vocabulary limited to {len(words):,} words of {args.limit_vocabulary}, {added:,} of them new")


def _run_open(hub: Any, lines: Iterable[Line], args: Namespace) -> None:
    """Score lines as they come, and report at the end."""
    model = hub.models[0]
    lexicon = data_lexicon(model.decoder.origin, args.lexicon_path)
    mass = mass_of(args.new_word_mass or ADAPTIVE, model.decoder.dictionary, Path(args.data))
    if args.running and model.decoder.carried is None:
        logger.warning("--open-vocabulary: this model carries no state, so it reads every line by itself; caches go on")
    whole_words = pieces_of(model.decoder.dictionary.symbols) is None
    _, block = block_lengths(hub, args.running, args.tokens_per_sample)
    scorer = OpenVocabularyScorer(model, mass, lexicon, args.running, block)
    read = context_reader(hub.task.schema, args.context_fields, args.context)
    for line in lines:
        context = None if read is None else read(line).of_lines(np.zeros(1, np.int64))
        try:
            score, tokens = scorer.score(line.text, context)
        except DataError as error:
            raise DataError(f"{line.where}: {error}") from None
        write_score(score, tokens, line.whole)
    logger.log(NOTICE, scorer.totals.report(whole_words))
    if scorer.totals.impossible:
        logger.warning(
            f"{scorer.totals.impossible:,} tokens have probability 0: the model has no row for a word that is met again"
            f"{', or it is beyond --limit-vocabulary' if args.limit_vocabulary else ''}. "
            "Give --uniform-weight W or --local-weight W."
        )


def write_score(score: float, tokens: int, line: str) -> None:
    """Print a line's score at once, for whoever waits for it; programs get the line as it is, terminals nothing to obey."""
    if sys.stdout.isatty():
        line = "\t".join(map(escaped, line.split("\t")))
    sys.stdout.write(f"{score:.4f}\t{tokens}\t{line}\n")
    sys.stdout.flush()
