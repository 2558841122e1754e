"""The model's own numbers of values: made from training lines, mapped by name, said in words."""

import json
import logging
import math
import random

import numpy as np
import pytest
import torch

from fairseq_groc.contexts.learned import both
from fairseq_groc.contexts.schema import Contexts, Schema, distinct_rows
from fairseq_groc.contexts.splits import contexts_of
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.errors import DataError, OptionError

TRAINING = ["topic year hour", "a 1990 1", "b 2000 2", "c - 3", "b 1980 4", "- 1990 5", "b 1990 6", "a - -"]


@pytest.fixture
def training(split):
    return split(*TRAINING, numeric=["year"], cyclic={"hour": 24.0})


@pytest.fixture
def schema(training):
    return Schema.of_training(training, 1)


def rows_of(contexts):
    """Return the context of each line, None for a missing number."""
    known = [[None if math.isnan(n) else n for n in numbers] for numbers in contexts.numbers]
    return [(contexts.categories[i].tolist(), known[i]) for i in contexts.index]


def test_a_schema_by_hand(schema):
    topic, year, hour = schema.variables
    assert topic == Variable("topic", "category", ("b", "a", "c"), (3, 2, 1), unknown=1)
    assert year == Variable("year", "number", mean=1990.0, deviation=pytest.approx(math.sqrt(200 / 5)))
    assert hour == Variable("hour", "cycle", period=24.0)
    assert schema.categories == (topic,) and schema.numbers == (year, hour)


def test_rare_values_are_unknown(training):
    rare = Schema.of_training(training, 2)
    assert rare.variables[0] == Variable("topic", "category", ("b", "a"), (3, 2), unknown=2)
    assert [row[0] for row in rows_of(rare.rows(training))] == [[2], [1], [0], [1], [0], [1], [2]]


@pytest.mark.parametrize(
    "rows, unknown", [("aabb", 0), ("aabb-", 0), ("aaabb-", 0), ("aaabb--", 2), ("aaabb-c", 2), ("aabbc", 0)]
)
def test_fewer_unknown_lines_than_the_rarest_value_has_count_as_none(split, rows, unknown):
    variable = Schema.of_training(split("topic", *rows), 2).variables[0]
    assert variable.unknown == unknown and len(variable.values) == 2


def test_rows_by_hand(schema, training):
    expected = [([2], [1990, 1]), ([1], [2000, 2]), ([3], [None, 3]), ([1], [1980, 4]), ([0], [1990, 5]), ([1], [1990, 6]),
                ([2], [None, None])]  # fmt: skip
    assert rows_of(schema.rows(training)) == expected


def test_a_schema_survives_a_checkpoint(schema):
    assert Schema.from_dict(json.loads(json.dumps(schema.as_dict()))) == schema


def test_another_folders_numbers_are_the_models(schema, table):
    """Values in another order, columns too, some that the model has never seen: names alone count."""
    lines = [f"{topic} {hour} {year}" for topic in "cab-x" for hour in ("3", "-") for year in ("1950", "-")]
    random.Random(1).shuffle(lines)
    split = lambda name, *rows: contexts_of({name: table(name, *rows)}, ["year"], {"hour": 24.0})[name]  # noqa: E731
    other = split("valid", "topic hour year", *lines, "x 1 1", "x 1 1", "x 1 1")
    assert other.variables[0].values[0] == "x"
    number = {"b": 1, "a": 2, "c": 3}
    plain = lambda cell: None if cell == "-" else float(cell)  # noqa: E731
    expected = [([number.get(t, 0)], [plain(y), plain(h)]) for t, h, y in map(str.split, [*lines, *["x 1 1"] * 3])]
    contexts = schema.rows(other)
    assert rows_of(contexts) == expected
    assert len(contexts.categories) == len({(*c, *n) for c, n in expected})  # distinct ones alone


def test_distinct_rows_are_those_of_a_dictionary():
    rng = np.random.default_rng(1)
    for lines in (1, 7, 300):
        categories, numbers = rng.integers(0, 4, (lines, 2)), rng.choice([0.0, 1.5, np.nan, -2.0], (lines, 3))
        first, index = distinct_rows(categories, numbers)
        seen, keys = {}, [(*c, *map(str, n)) for c, n in zip(categories.tolist(), numbers.tolist(), strict=True)]
        for line, key in enumerate(keys):
            seen.setdefault(key, line)
        assert sorted(first.tolist()) == sorted(seen.values())
        assert [first[i] for i in index] == [seen[key] for key in keys]


@pytest.mark.parametrize("lines", [[3, 0, 3], [[0, 1], [5, 5]], [2]])
def test_a_batch_has_its_distinct_contexts_alone(schema, training, lines):
    contexts = schema.rows(training)
    batch = contexts.of_lines(np.array(lines))
    assert batch["index"].shape == np.array(lines).shape
    assert batch["categories"].dtype == batch["index"].dtype == torch.int64 and batch["numbers"].dtype == torch.float64
    whole = contexts.index[np.array(lines)]
    assert len(batch["categories"]) == len(batch["numbers"]) == len(np.unique(whole))
    assert torch.equal(batch["categories"][batch["index"]], torch.from_numpy(contexts.categories[whole]))
    torch.testing.assert_close(batch["numbers"][batch["index"]], torch.from_numpy(contexts.numbers[whole]), equal_nan=True)


@pytest.mark.parametrize(
    "given, expected",
    [
        ("topic=a,year=1990", ([2], [1990.0, None])),
        (" year = 7 , topic = c ", ([3], [7.0, None])),
        ("hour=23.5", ([0], [None, 23.5])),
        ("topic=,year=", ([0], [None, None])),
        ("missing", ([0], [None, None])),
        ({"topic": "b", "year": 1990}, ([1], [1990.0, None])),
        ({"topic": None}, ([0], [None, None])),
        ({}, ([0], [None, None])),
    ],
)
def test_a_context_in_words(schema, given, expected):
    contexts = schema.parse(given)
    assert rows_of(contexts) == [expected] and contexts.index.tolist() == [0]
    assert contexts.categories.dtype == np.int64 and contexts.numbers.dtype == np.float64


def test_a_value_may_have_commas_and_equals_signs(split):
    arrays = split("topic year", "a,b 1", "c=d 2", numeric=["year"])
    schema = Schema.of_training(arrays, 1)
    number = {value: i for i, value in enumerate(schema.variables[0].values, start=1)}
    assert schema.parse("topic=a,b,year=3").categories.tolist() == [[number["a,b"]]]
    assert schema.parse("topic=c=d").categories.tolist() == [[number["c=d"]]]


@pytest.mark.parametrize(
    "given, message",
    [
        ("topci=a", "context 'topci': the model has no such variable. It has topic, year, hour"),
        ("topic=a,yaer=3", "context 'yaer': the model has no such variable"),
        ({"yaer": 3}, "context 'yaer': the model has no such variable"),
        ("sports", "context 'sports': expected NAME=VALUE,NAME=VALUE, or missing"),
        ("", "context '': expected NAME=VALUE"),
        ("=a", "context '=a': expected NAME=VALUE"),
        ("topic=a,topic=b", "topic has two values: give one"),
        ("year=x", "context year='x': expected a finite number"),
        ({"year": float("nan")}, "context year='nan': expected a finite number"),
        ("hour=inf", "context hour='inf': expected a finite number"),
    ],
)
def test_what_a_context_cannot_be(schema, given, message):
    with pytest.raises(OptionError) as error:
        schema.parse(given)
    assert message in str(error.value)


def test_a_value_that_was_not_seen_is_unknown_and_warned_of(schema, caplog):
    assert schema.parse("topic=zebra").categories.tolist() == [[0]]
    assert "context topic='zebra': the model does not know this value" in caplog.text
    caplog.clear()
    schema.parse("topic=")
    assert not caplog.text


@pytest.mark.parametrize(
    "rows, numeric, threshold, message",
    [
        (
            ["topic", "a", "a", "-"],
            [],
            1,
            "context topic: has 1 value in the training lines: expected two or more. Leave it out, or name the",
        ),
        (["topic", "-", "-"], [], 1, "context topic: has 0 values in the training lines"),
        (
            ["topic", "a", "a", "b"],
            [],
            2,
            "has 1 value of 2 in 2 training lines or more: expected two. Give a smaller --context-thr",
        ),
        (["topic", "a", "b"], [], 50, "has 0 values of 2 in 50 training lines or more"),
        (["topic", "a", "<unknown>", "b"], [], 1, "context topic: 1 line with <unknown>, by which models call any other value"),
        (["year", "1990", "1990", "-"], ["year"], 1, "context year: is 1990 wherever it is given: expected numbers that vary"),
        (["hour", "1", "25", "-"], [], 1, "context hour: is 1 wherever it is given: expected numbers that vary"),
        (["year", "-"], ["year"], 1, "context year: is missing in every line: expected numbers that vary. Leave it out, or"),
        (["year", "1e308", "-1e308"], ["year"], 1, "context year: its numbers reach from -1e+308 to 1e+308, too far"),
    ],
)
def test_variables_that_say_nothing_are_refused(split, rows, numeric, threshold, message):
    with pytest.raises(OptionError) as error:
        Schema.of_training(split(*rows, numeric=numeric, cyclic={"hour": 24.0} if "hour" in rows else {}), threshold)
    assert message in str(error.value) and "train.tsv: context " in str(error.value)


def test_what_an_earlier_training_knows_is_known(split, caplog):
    """Its lines count, its statistics stay, its variables come first, and one value of a new text is enough."""
    numbers = {"numeric": ["year"], "cyclic": {"hour": 24.0}}
    first = Schema.of_training(split("topic year hour", "a 1 2", "a 3 4", "b 5 6", "c 7 8", **numbers), 1)
    earlier = first.variables
    second = split("tone year topic", "loud 9 b", "low 9 b", "low 9 d", numeric=["year"])._replace(earlier=earlier)
    made = Schema.of_training(second, 1)
    assert [one.name for one in made.variables] == ["topic", "year", "hour", "tone"]
    topic, *others, tone = made.variables
    assert dict(zip(topic.values, topic.counts, strict=True)) == {"b": 3, "a": 2, "c": 1, "d": 1}
    assert tuple(others) == tuple(one for one in earlier if one.kind != "category") and tone.values == ("low", "loud")
    assert Schema.of_training(second, 2, ["topic"]).variables[0].values == ("b", "a")
    alone = split("topic", "b", "b", name="own")._replace(earlier=earlier)
    assert Schema.of_training(alone, 1).variables[0].counts == (3, 2, 1)
    assert Schema.of_training(alone, 1).rows(alone).categories.tolist() == [[1]] and "has no year, hour" in caplog.text
    trained = Schema.of_training(split("topic", "a", "b", "-", name="missing"), 1)
    more = split("topic", "a", "b", "a", "b", name="more")._replace(earlier=trained.variables)
    assert Schema.of_training(more, 1).variables[0].unknown == 1  # its vector is kept, though now it is rarer than any value
    joined = both(topic, Variable("topic", "category", ("e", "b"), (4, 1), unknown=3), "")
    assert joined == Variable("topic", "category", ("e", "b", "a", "c", "d"), (4, 3, 2, 1, 1), unknown=3)
    other = split("year", "1", "2", name="kind")._replace(earlier=earlier)
    with pytest.raises(DataError, match="context year is a category there and a number in the model. Preprocess with --context"):
        Schema.of_training(other, 1)


def test_variables_come_in_the_order_that_is_asked_for(split):
    arrays = split("topic\tplace", "a\tx", "b\ty")
    for names, expected in ((None, ["topic", "place"]), (["place", " topic"], ["place", "topic"]), (["place"], ["place"])):
        assert [variable.name for variable in Schema.of_training(arrays, 1, names).variables] == expected


def test_a_tenth_is_the_same_tenth_everywhere(split):
    """Rounding gives equal numbers a deviation above 0."""
    with pytest.raises(OptionError, match=r"is 0\.1 wherever it is given"):
        Schema.of_training(split("x", *["0.1"] * 7, numeric=["x"]), 1)


def test_what_a_folder_lacks_is_missing_and_warned_of(schema, split, caplog):
    contexts = schema.rows(split("topic", "a", "b", name="valid"))
    assert rows_of(contexts) == [([2], [None, None]), ([1], [None, None])]
    assert "valid.tsv has no year, hour: the model takes these as missing in every line" in caplog.text


def test_what_the_model_lacks_is_left_out(schema, split, caplog):
    other = split("genre topic year hour", "x a 1 1", numeric=["year"], cyclic={"hour": 24.0}, name="valid")
    assert rows_of(schema.rows(other)) == [([2], [1.0, 1.0])] and not caplog.text


def test_a_folder_without_any_of_the_variables_is_refused(schema, split):
    with pytest.raises(DataError, match=r"valid\.tsv: has contexts of genre: the model expects topic, year, hour"):
        schema.rows(split("genre", "x", "y", name="valid"))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"numeric": ["hour", "year"]},
            "hour is a number there and a cycle of 24 in the model. Preprocess with --context-cyclic hour:24",
        ),
        ({"numeric": ["year"], "cyclic": {"hour": 12.0}}, "hour is a cycle of 12 there and a cycle of 24 in the model"),
        (
            {"cyclic": {"hour": 24.0}},
            "year is a category there and a number in the model. Preprocess with --context-numeric year",
        ),
        (
            {"numeric": ["topic", "year"], "cyclic": {"hour": 24.0}},
            "with neither --context-numeric nor --context-cyclic for topic",
        ),
    ],
)
def test_a_variable_of_another_kind_is_refused(schema, split, options, message):
    with pytest.raises(DataError) as error:
        schema.rows(split("topic year hour", "1 2 3", name="valid", **options))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "rows, warned", [(["x", "x", "y", "a", "b"], True), (["x", "y", "a", "b"], False), (["x", "-", "-", "a"], False)]
)
def test_a_split_of_unknown_values_is_warned_of(schema, split, caplog, rows, warned):
    with caplog.at_level(logging.WARNING):
        schema.rows(
            split("topic year hour", *(f"{row} 1 1" for row in rows), numeric=["year"], cyclic={"hour": 24.0}, name="test")
        )
    said = "test.tsv: 60% of the lines with a topic have one that training lacks or has too few lines of, the first is 'x'"
    assert (said in caplog.text) is warned and bool(caplog.text) is warned


def test_contexts_of_a_schema_of_categories_alone(split):
    arrays = split("topic", "a", "b")
    contexts = Schema.of_training(arrays, 1).rows(arrays)
    assert isinstance(contexts, Contexts) and contexts.numbers.shape == (2, 0)
    assert contexts.of_lines(np.array([1]))["numbers"].shape == (1, 0)
