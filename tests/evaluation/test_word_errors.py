"""Weights of n-best lists: the fewest errors that any weights have, where that can be known."""

import itertools

import numpy as np
import pytest

from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.lines import Line
from fairseq_groc.evaluation.nbest import Columns, NBest, best_of, parse_weights, read_nbest, read_references
from fairseq_groc.evaluation.word_errors import errors_of, total_errors, tuned_weights


def distance(a, b):
    """Levenshtein's, from its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


def test_errors_are_the_edit_distance_of_words():
    pytest.importorskip("jiwer")
    rng = np.random.default_rng(1)
    texts = [list(rng.choice(["a", "b", "cc"], rng.integers(0, 6))) for _ in range(60)]
    pairs = list(itertools.pairwise(texts))
    found = errors_of([" ".join(a) for a, _ in pairs], [" ".join(b) for _, b in pairs])
    assert found.tolist() == [distance(a, b) for a, b in pairs] and max(found) > 2


def nbest_of(utterances, size, scores):
    utterance = np.repeat(np.arange(utterances), size)
    return NBest([str(i) for i in range(utterances)], utterance, [], scores, [Line("a", "", "a", {})] * len(utterance))


@pytest.fixture
def mixed():
    """Two scores that are each half right and a third that is nothing, in sizes that have nothing to do with it."""
    rng = np.random.default_rng(3)
    errors = rng.integers(0, 5, 100 * 8)
    features = np.column_stack([-errors + rng.normal(0, 2, len(errors)) for _ in range(2)] + [rng.integers(3, 9, len(errors))])
    features = features * np.array([100.0, 0.01, 1.0]) + np.repeat(rng.normal(0, 1e3, 100), 8)[:, None]
    return nbest_of(100, 8, features), features, errors


def test_tuned_weights_are_as_good_as_a_grid(mixed):
    nbest, features, errors = mixed
    everything = np.ones(len(errors), bool)
    found = total_errors(nbest, features, errors, everything, tuned_weights(nbest, features, errors, everything))
    grid = [
        total_errors(nbest, features, errors, everything, np.array([np.cos(a) / 100, np.sin(a) * 100, words]))
        for a in np.linspace(0, np.pi / 2, 30)
        for words in (-0.3, 0.0, 0.3)
    ]
    alone = [total_errors(nbest, features, errors, everything, one) for one in np.eye(3)]
    weights = tuned_weights(nbest, features, errors, everything)
    assert found <= min(grid) * 1.05 and found < 0.9 * min(alone) and min(weights[:2]) > 0


def test_what_is_one_number_within_each_utterance_weighs_nothing(mixed):
    nbest, features, errors = mixed
    more = np.column_stack([features, np.repeat(np.random.default_rng(1).normal(0, 1e3, 100), 8) / 3])
    weights = tuned_weights(nbest, more, errors, np.ones(len(errors), bool))
    assert weights[3] == 0 and np.abs(weights).max() < 1e6
    worst = np.tile(np.arange(5), 20)  # the constant alone would leave the first hypothesis of each, and no error
    wrong = np.column_stack([worst, np.repeat(np.arange(20.0), 5), np.full(100, 5.0)])
    assert tuned_weights(nbest_of(20, 5, wrong), wrong, worst, np.ones(100, bool)).tolist() == [1, 0, 0]


def test_only_the_chosen_utterances_count(mixed):
    nbest, features, errors = mixed
    chosen = nbest.utterance % 2 == 0
    other = np.where(chosen, errors, errors.max() - errors)
    weights = tuned_weights(nbest, features, errors, chosen)
    assert np.array_equal(weights, tuned_weights(nbest, features, other, chosen)) and weights[0] == 1


def test_what_is_impossible_is_chosen_where_there_is_nothing_else():
    nbest = nbest_of(2, 2, np.zeros((4, 0)))
    features = np.array([[-np.inf, 5.0], [-3.0, -9.0], [-np.inf, 1.0], [-np.inf, 2.0]])
    assert best_of(nbest, features, np.array([0.0, 1.0])).tolist() == [1, 2]
    errors = np.array([0, 1, 0, 0])
    assert np.isfinite(tuned_weights(nbest, features, errors, np.ones(4, bool))).all()


def test_fields_by_name_and_by_number(tmp_path):
    rows = ["u1\t-1\tthe  cat\t2.5", "u2\t-2\ta dog\t1", "u1\t-3\t\t0"]
    (tmp_path / "named").write_text("\n".join(["id\tac\ttext\tkn", *rows]) + "\n")
    (tmp_path / "plain").write_text("\n".join(rows) + "\n")
    named = read_nbest(tmp_path / "named", Columns("id", "text", None))
    plain = read_nbest(tmp_path / "plain", Columns("1", "3", ("2", "4")))
    for found in (named, plain):
        assert found.ids == ["u1", "u2"] and found.utterance.tolist() == [0, 1, 0]
        assert [line.text for line in found.lines] == ["the cat", "a dog", ""]
        assert found.scores.tolist() == [[-1, 2.5], [-2, 1], [-3, 0]] and [line.whole for line in found.lines] == rows
    assert named.names == ["ac", "kn"] and read_nbest(tmp_path / "named", Columns("id", "text", ("kn",))).names == ["kn"]
    assert parse_weights("kn=2,lm=-.5", ["lm", "ac", "kn"]).tolist() == [-0.5, 0, 2]


@pytest.mark.parametrize(
    "text, columns, message",
    [
        ("id\ttxt\nu\ta\n", ("id", "text", None), ":1: no column 'text' in"),
        ("id\tid\ttext\nu\tu\ta\n", ("id", "text", None), ":1: several columns 'id'"),
        ("id\ttext\ts\nu\ta\n", ("id", "text", None), ":2: 2 tab-separated fields, 3 expected"),
        ("id\ttext\ts\nu\ta\tnan\n", ("id", "text", None), ":2: the score 'nan' is no finite number"),
        ("id\ttext\ts\nu\ta\tx\n", ("id", "text", None), ":2: the score 'x' is no finite number"),
        ("id\ttext\tlm\nu\ta\t1\n", ("id", "text", None), "a score named 'lm'"),
        ("id\ttext\n", ("id", "text", None), "has no hypothesis"),
        ("id\ttext\ts\nu\ta\t1\n", ("id", "text", ("s", "s")), "--score-fields: s twice. Leave one of them out"),
        ("id\ttext\nu\ta <pad>\n", ("id", "text", None), ":2: contains <pad>"),
        ("u\ta\n", ("1", "text", None), "expected names of the header, or numbers of all"),
        ("u\ta\n", ("0", "2", None), "fields are numbered from 1"),
        ("u\ta\n", ("1", "3", None), ":1: 2 tab-separated fields, 3 expected"),
    ],
)
def test_lists_that_are_none(tmp_path, text, columns, message):
    (tmp_path / "nbest").write_text(text)
    with pytest.raises((DataError, OptionError), match=message):
        read_nbest(tmp_path / "nbest", Columns(*columns))


@pytest.mark.parametrize(
    "text, message",
    [("u a\n", ":1: no tab"), ("u\ta\nu\tb\n", ":2: 'u' has a reference already"), ("v\ta\n", "no reference of any utterance")],
)
def test_references_that_are_none(tmp_path, text, message):
    (tmp_path / "said").write_text(text)
    with pytest.raises(DataError, match=message):
        read_references(tmp_path / "said", ["u", "w"])
    for weights in ("ac", "x=1", "lm=inf", "lm=1,,"):
        with pytest.raises(OptionError, match="expected NAME=NUMBER, with a name of lm, ac"):
            parse_weights(weights, ["lm", "ac"])
