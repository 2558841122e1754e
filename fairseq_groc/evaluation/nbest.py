"""N-best lists: hypotheses of utterances with scores, chosen by a weighted sum.

N: hypotheses of all utterances; U: utterances; F: features, the scores and the number of words.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.data.text import check_text, read_lines
from fairseq_groc.errors import DataError, OptionError, number_in, shown
from fairseq_groc.evaluation.lines import Line

Floats = NDArray[np.float64]
FIELDS = "--id-field, --text-field, --context-fields, --score-fields"
LM, WORDS = "lm", "words"  # what the model gives, and the number of words, whose weight is the insertion penalty


class Columns(NamedTuple):
    """Which tab-separated column of a list is what: names of its header, or numbers from 1 where it has none.

    Args:
        id: of the utterance
        text: of the hypothesis, tokenised
        scores: logarithms, the larger the better; None: all other columns of the header
        context: the column that each variable of the context is in
    """

    id: str
    text: str
    scores: tuple[str, ...] | None
    context: Mapping[str, str] = {}

    def without_scores(self) -> list[str]:
        """Return those of the id, the text and the context."""
        return [self.id, self.text, *self.context.values()]

    def numbered(self) -> bool:
        """Say whether they are numbers.

        Raises:
            OptionError: some are and some are not.
        """
        kinds = {name.isascii() and name.isdecimal() for name in (*self.without_scores(), *(self.scores or ()))}
        if len(kinds) > 1:
            raise OptionError(f"{FIELDS}: expected names of the header, or numbers of all of them")
        return kinds == {True}


class NBest(NamedTuple):
    """Hypotheses in the order of the list.

    Args:
        ids: of the utterances, in the order of their first hypotheses, U of them
        utterance: of which each hypothesis is, (N)
        names: of the scores
        scores: (N, their number)
        lines: of the hypotheses, N of them
    """

    ids: list[str]
    utterance: NDArray[np.int64]
    names: list[str]
    scores: Floats
    lines: list[Line]

    def of(self, ids: Collection[str]) -> NDArray[np.bool_]:
        """Return which hypotheses are of some utterances, (N)."""
        return np.array([name in ids for name in self.ids])[self.utterance]


def read_nbest(path: Path, columns: Columns) -> NBest:
    """Read a list.

    Raises:
        DataError: it has no such column, a line has not all of them, or a score is no number; says where.
        OptionError: a score has a name that means something else, or is named twice.
    """
    lines, own = list(read_lines(path)), columns.without_scores()
    if columns.numbered():
        names, first = [f"field {int(name)}" for name in columns.scores or ()], 0
        places = [int(name) - 1 for name in (*own, *(columns.scores or ()))]
        if -1 in places:
            raise OptionError(f"{FIELDS}: fields are numbered from 1")
    else:
        header, first = lines[0].split("\t"), 1
        names = [name for name in header if name not in own] if columns.scores is None else list(columns.scores)
        for name in (*own, *names):
            if header.count(name) != 1:
                what = "no column" if name not in header else "several columns"
                raise DataError(f"{path}:1: {what} {shown(name)} in its header {shown(lines[0])}. Name them: {FIELDS}")
        places = [header.index(name) for name in (*own, *names)]
    if taken := {LM, WORDS}.intersection(names):
        raise OptionError(f"{path}: a score named {taken.pop()!r}, as the model's own is. Rename the column.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"--score-fields: {twice[0]} twice. Leave one of them out.")
    numbered = enumerate(lines[first:], start=first + 1)
    rows = [_row(line, f"{path}:{number}", places, list(columns.context)) for number, line in numbered]
    if not rows:
        raise DataError(f"{path} has no hypothesis")
    ids = list(dict.fromkeys(row[0] for row in rows))
    numbers = {name: number for number, name in enumerate(ids)}
    utterance = np.array([numbers[row[0]] for row in rows])
    scores = np.array([row[2] for row in rows], np.float64).reshape(len(rows), len(names))
    return NBest(ids, utterance, names, scores, [row[1] for row in rows])


def _row(line: str, where: str, places: Sequence[int], variables: Sequence[str]) -> tuple[str, Line, list[float]]:
    """Return the id, what is text and context, and the scores; *places* has their fields in this order."""
    fields = line.split("\t")
    if len(fields) <= max(places):
        raise DataError(f"{where}: {len(fields)} tab-separated fields, {max(places) + 1} expected")
    name, text, *others = (fields[place] for place in places)
    check_text(text, where)
    scores = [_number(score, where) for score in others[len(variables) :]]
    return name, Line(line, where, " ".join(text.split()), dict(zip(variables, others, strict=False))), scores


def _number(text: str, where: str) -> float:
    value = number_in(text)
    if not math.isfinite(value):
        raise DataError(f"{where}: the score {shown(text)} is no finite number")
    return value


def read_references(path: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return the words that were said, by utterance: lines of an id, a tab and a text; those of other utterances are left out.

    Raises:
        DataError: a line has no tab, an id comes twice, or none is among *ids*.
    """
    wanted, found = set(ids), dict[str, str]()
    for number, line in enumerate(read_lines(path), start=1):
        name, tab, text = line.partition("\t")
        if not tab:
            raise DataError(f"{path}:{number}: no tab. Expected an id, a tab and the words that were said")
        if name in found:
            raise DataError(f"{path}:{number}: {shown(name)} has a reference already")
        if name in wanted:
            found[name] = " ".join(text.split())
    if not found:
        raise DataError(f"{path}: no reference of any utterance of the list")
    return found


def features_of(nbest: NBest, log_probabilities: Sequence[float]) -> tuple[list[str], Floats]:
    """Return the names of the features and their values, (N, F): the model's, the other scores, the number of words."""
    lengths = [len(line.text.split()) for line in nbest.lines]
    return [LM, *nbest.names, WORDS], np.column_stack([log_probabilities, nbest.scores, lengths])


def best_of(nbest: NBest, features: Floats, weights: Floats) -> NDArray[np.int64]:
    """Return the first hypothesis of each utterance that has the largest weighted sum, (U).

    The sum is -inf where the model has given probability 0, whatever its weight.

    Args:
        features: (N, F)
        weights: (F)
    """
    possible = np.isfinite(features)
    total = np.where(possible.all(1), np.where(possible, features, 0.0) @ weights, -np.inf)
    order = np.lexsort((np.arange(len(total)), -total, nbest.utterance))
    _, first = np.unique(nbest.utterance[order], return_index=True)
    return order[first]


def parse_weights(text: str, names: Sequence[str]) -> Floats:
    """Return the weights of all features from NAME=NUMBER,...; those that are not named have 0.

    Raises:
        OptionError: no such feature, or no number.
    """
    found = dict.fromkeys(names, 0.0)
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        value = number_in(number)
        if name not in found or not equals or not math.isfinite(value):
            raise OptionError(f"--weights {shown(part)}: expected NAME=NUMBER, with a name of {', '.join(names)}")
        found[name] = value
    return np.array(list(found.values()))
