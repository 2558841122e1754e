"""Score the lines of a file with a checkpoint: tab-separated log-probability, tokens, line."""

import itertools
import logging
import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_groc.arguments import add_adapter_arguments, add_lexicon_path, add_model, positive
from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.streams import Block
from fairseq_groc.data.text import checked, escaped, read_lines
from fairseq_groc.dictionary import is_filler
from fairseq_groc.errors import DataError, OptionError, shown
from fairseq_groc.evaluation.characters import pieces_of
from fairseq_groc.evaluation.lines import Line, context_reader, lines_of
from fairseq_groc.evaluation.loading import adapter_options, data_lexicon, load
from fairseq_groc.logs import NOTICE
from fairseq_groc.modules.probabilities import LOG_ZERO, numbers_of
from fairseq_groc.open_vocabulary.masses import ADAPTIVE, fixed_mass, mass_of
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer

logger = logging.getLogger(__name__)
BLOCK = 512


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("text", help="a file of tokenised lines, - for the standard input; with --field, tab-separated")
    add_model(parser)
    parser.add_argument("--field", type=positive, help="the text is this field of each line, from 1 (an n-best list, say)")
    what = "with --field, the fields that say the line's context; --context says its other variables"
    parser.add_argument("--context-fields", type=_places, metavar="NAME=FIELD,...", default={}, help=what)
    parser.add_argument("--running", action="store_true", help="one running text: do not begin anew at each line")
    add_adapter_arguments(parser)
    _add_vocabulary_arguments(parser)
    what = f"tokens at a time; default: {BLOCK}, or what an adapter wants"
    parser.add_argument("--tokens-per-sample", type=positive, help=what)


def run(args: Namespace) -> None:
    _check(args)
    lines: Iterable[Line] = lines_of(args.text, args.field, args.context_fields)
    if not args.open_vocabulary:
        lines = list(lines)  # bad input is refused before anything is scored
    hub = load(args.path, args.data, **adapter_options(args), any_lexicon=args.any_lexicon)
    if args.limit_vocabulary:
        _limit(hub.models[0], args)
    if args.open_vocabulary:
        _run_open(hub, lines, args)
        return
    texts = [line.text for line in lines]
    read = context_reader(hub.task.schema, args.context_fields, args.context)
    contexts = None if read is None else Contexts.joined([read(line) for line in lines])
    _report_unknown(texts, hub.task.dictionary, args.data)
    impossible, scores = 0, score_lines(hub, texts, args.running, args.tokens_per_sample, contexts)
    for line, (score, tokens) in zip(lines, scores, strict=True):
        impossible += score == -math.inf
        write_score(score, tokens, line.whole)
    if impossible:
        why = "words beyond --limit-vocabulary, or " if args.limit_vocabulary else "words "
        logger.warning(
            f"{impossible:,} of {len(texts):,} lines have {why}that the model has no row for, and probability 0. "
            "Give --uniform-weight W to mix in the uniform distribution."
        )


def _report_unknown(texts: list[str], dictionary: Any, data: str) -> None:
    unknown = [word for text in texts for word in text.split() if word not in dictionary.indices]
    if unknown:
        logger.warning(
            f"{len(unknown):,} words, {shown(unknown[0])} first, are not in the vocabulary of {data} and score as <unk>. "
            "Add them: scripts/preprocess.sh --vocabulary-from DATA --test FILE --dest DIR, then --data DIR."
        )


def _places(given: str) -> dict[str, int]:
    """Return the number of the field that each variable is in, from 1."""
    found: dict[str, int] = {}
    for part in given.split(","):
        name, equals, field = (piece.strip() for piece in part.partition("="))
        if not equals or not name or name in found:
            raise ArgumentTypeError(f"{given}: expected NAME=FIELD,NAME=FIELD, each name once")
        found[name] = positive(field)
    return found


def score_lines(
    hub: Any, texts: list[str], running: bool = False, block: int | None = None, contexts: Contexts | None = None
) -> Iterator[tuple[float, int]]:
    """Yield the log-probability (natural logarithm) and the number of tokens of every line, its ``</s>`` included.

    A line with an impossible word scores -inf.

    Args:
        hub: what ``from_pretrained`` returns
        running: carry the state from line to line; otherwise every line begins from the zero state
        block: tokens at a time; None: 512, or what an adapter wants
        contexts: one a line; None: nothing is known, or what the model was told of all lines
    """
    model, dictionary = hub.models[0], hub.task.dictionary
    wanted, length = block_lengths(model.decoder, running, block)
    numbers = ([*map(dictionary.index, text.split()), dictionary.eos()] for text in texts)
    lines = [torch.tensor(line, device=hub.device) for line in numbers]
    owners = [torch.full((len(line),), number) for number, line in enumerate(lines)]
    pieces = list(zip(lines, owners, strict=True))
    if wanted is not None:  # blocks of such a length do not end where lines do
        pieces = [(torch.cat(lines), torch.cat(owners))]
    scores = _scores(model, pieces, running, int(min(length, model.decoder.max_positions())), contexts)
    for line in lines:
        total = sum(itertools.islice(scores, len(line)))
        yield (total if total > LOG_ZERO / 2 else -math.inf), len(line)


def block_lengths(decoder: Any, running: bool, given: int | None) -> tuple[int | None, int]:
    """Return how many tokens an adapter wants to be read at a time, None for any, and how many are read.

    Raises:
        OptionError: an adapter does not go with lines by themselves, or its blocks are of another length.
    """
    if decoder.adapter is None:
        return None, given or BLOCK
    settings = decoder.adapter.settings
    if not running:
        settings.refuse("lines")
    settings.check_block(given)
    wanted = settings.block_length()
    return wanted, given or wanted or BLOCK


@torch.no_grad()
def _scores(
    model: Any, pieces: Iterable[tuple[Tensor, Tensor]], running: bool, block: int, contexts: Contexts | None
) -> Iterator[float]:
    """Yield the log-probability of each token of some pieces of a text, or of texts by themselves.

    Args:
        pieces: tokens, (T), and the number of the line that each is of, (T)
        contexts: one a line, by which its tokens are predicted
    """
    eos = model.decoder.dictionary.eos()
    previous, begin = eos, 0
    for number, (piece, owners) in enumerate(pieces):
        if not running:
            previous, begin = eos, 0
        for target, own in zip(piece.split(block), owners.split(block), strict=True):
            source = torch.cat([target.new_tensor([previous]), target[:-1]]).unsqueeze(0)  # (1, T)
            place = Block("scored", 0 if running else number, 0, begin, begin + len(target))
            of = own[:1] if own[0] == own[-1] else own.unsqueeze(0)  # (1), or (1, T)
            output = model(source, block=place, context=None if contexts is None else contexts.of_lines(of.numpy()))
            lprobs = model.get_normalized_probs(output, log_probs=True)[0]  # (T, V)
            yield from numbers_of("model", lprobs.gather(1, target.unsqueeze(1))).double().flatten().tolist()
            previous, begin = int(target[-1]), place.end


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
    found = ("".join(line.split()[:1]) for line in read_lines(Path(args.limit_vocabulary)))
    given = checked(("" if is_filler(word) else word for word in found), args.limit_vocabulary)  # a dict.txt may have them
    words = [word for word in dict.fromkeys(given) if word not in ("", model.decoder.dictionary.unk_word)]
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
    whole_words = pieces_of(model.decoder.dictionary.symbols) is None
    _, block = block_lengths(model.decoder, args.running, args.tokens_per_sample)
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
