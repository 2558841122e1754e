"""What ``score`` does beyond a fixed vocabulary: words that enter it when they are first met, and limits to it."""

import itertools
import logging
import math
import sys
from pathlib import Path
from typing import Iterable, List, Optional, Sequence, Tuple

from fairseq_groc.cli.tables import add_lexicon_path
from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.data.text import escaped, read_lines
from fairseq_groc.dictionary import is_filler
from fairseq_groc.errors import DataError, LexiconError, OptionError
from fairseq_groc.evaluation.characters import pieces_of
from fairseq_groc.lexicon import Lexicon, open_lexicons
from fairseq_groc.lexicon.tables import Origin
from fairseq_groc.open_vocabulary.new_words import NewWordMass, rate_of_new_words
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer

logger = logging.getLogger(__name__)
ADAPTIVE, UNK = "adaptive", "unk"


def add_arguments(parser) -> None:
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


def check(args) -> None:
    """Refuse options that do not go together.

    Raises:
        OptionError: which, and why.
    """
    if args.new_word_mass is not None and not args.open_vocabulary:
        raise OptionError("--new-word-mass concerns words that are met: give --open-vocabulary")
    if args.lexicon_path and not (args.open_vocabulary or args.limit_vocabulary):
        raise OptionError("--lexicon-path concerns new words: give --open-vocabulary or --limit-vocabulary")
    _fixed_mass(args.new_word_mass or ADAPTIVE)


def limit(model, args) -> None:
    """Let a model predict only the words of a file; those that its vocabulary lacks are added.

    Raises:
        DataError: it has no words, or something that is none.
    """

    def no_filler(line: str, number: int) -> str:
        return " ".join(word for word in line.split() if not is_filler(word))  # a dict.txt may have them

    words = [line.split()[0] for line in read_lines(Path(args.limit_vocabulary), no_filler) if line.strip()]
    words = list(dict.fromkeys(word for word in words if not is_filler(word) and word != model.decoder.dictionary.unk_word))
    before = len(model.decoder.dictionary)
    try:
        if any(word not in model.decoder.dictionary.indices for word in words):
            model.add_words(words, data_lexicon(model.decoder.origin, args.lexicon_path))
        model.limit_vocabulary(words)
    except DataError as error:
        raise DataError(f"{args.limit_vocabulary}: {error}") from None
    added = len(model.decoder.dictionary) - before
    logger.info(f"vocabulary limited to {len(words):,} words of {args.limit_vocabulary}, {added:,} of them new")


def run(model, lines: Iterable[Tuple[str, str]], args) -> None:
    """Score lines as they come, each with what of it is text, and report at the end."""
    lexicon, mass = data_lexicon(model.decoder.origin, args.lexicon_path), _mass(model.decoder.dictionary, args)
    whole_words = pieces_of(model.decoder.dictionary.symbols) is None
    scorer = OpenVocabularyScorer(model, mass, lexicon, args.running, args.tokens_per_sample)
    for number, (line, text) in enumerate(lines, start=1):
        try:
            score, tokens = scorer.score(text)
        except DataError as error:
            raise DataError(f"{args.text}:{number}: {error}") from None
        write_score(score, tokens, line)
    logger.info(scorer.totals.report(whole_words))
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


def data_lexicon(origin: Optional[Origin], paths: Optional[Sequence[str]]) -> Optional[Lexicon]:
    """Return the lexicon to look words up in: the one at *paths*, or the one that the data's tables come from.

    Args:
        origin: of the tables; None: the model reads none

    Raises:
        DataError: no path is given, and the lexicon of the tables is not where it was, or has changed.
    """
    if origin is None:
        return None
    if paths:
        lexicon = open_lexicons(paths)
        if not origin.is_of(lexicon):
            logger.warning(f"words are looked up in another lexicon ({lexicon.fingerprint()}) than the data's ({origin})")
        return lexicon
    why = "nothing says where it is"
    if origin.sources:
        try:
            lexicon = open_lexicons(origin.sources)
        except LexiconError as error:
            why = str(error)
        else:
            if origin.is_of(lexicon):
                return lexicon
            why = f"what is there is {lexicon.fingerprint()}"
    raise DataError(f"the data's tables come from a lexicon ({origin}) that is needed again: {why}. Give --lexicon-path LEXICON.")


def _fixed_mass(given: str) -> Optional[float]:
    if given in (ADAPTIVE, UNK):
        return None
    try:
        mass = float(given)
    except ValueError:
        mass = math.nan
    if not 0 < mass < 1:
        raise OptionError(f"--new-word-mass {given}: expected {ADAPTIVE}, {UNK} or a number between 0 and 1")
    return mass


def _mass(dictionary, args) -> Optional[NewWordMass]:
    given = args.new_word_mass or ADAPTIVE
    fixed = _fixed_mass(given)
    if fixed is not None:
        return NewWordMass(fixed, fixed=True)
    return None if given == UNK else NewWordMass(rate_of_new_words(_trained_counts(dictionary, Path(args.data))))


def _trained_counts(dictionary, data: Path) -> List[int]:
    """Return how often the training text has each of its words."""
    known = trained_words(data, len(dictionary))
    entries = list(zip(dictionary.symbols, dictionary.count, itertools.repeat(True) if known is None else known))
    return [count for word, count, there in entries[dictionary.nspecial :] if there and not is_filler(word)]
