"""Contexts as users type them: names with values, and values as numbers."""

import logging
import math

import pytest

from fairseq_groc.contexts.typed import assignments, number_of_value, plain, typed_number
from fairseq_groc.errors import OptionError


@pytest.mark.parametrize(
    "text, expected",
    [
        ("topic=sports,year=1990", {"topic": "sports", "year": "1990"}),
        (" topic = sports , year = ", {"topic": "sports", "year": ""}),
        ("place=Paris, France,year=1", {"place": "Paris, France", "year": "1"}),
        ("formula=a=b", {"formula": "a=b"}),
        (" missing ", {}),
        ("topic=missing", {"topic": "missing"}),
    ],
)
def test_names_with_values(text, expected):
    assert assignments(text) == expected


@pytest.mark.parametrize(
    "text, why", [("sports", "expected NAME=VALUE"), ("=1", "expected NAME=VALUE"), ("a=1,a=2", "a has two")]
)
def test_what_says_no_name_or_one_twice_is_refused(text, why):
    with pytest.raises(OptionError, match=why):
        assignments(text)


def test_what_programs_give_is_as_it_would_be_typed():
    assert [plain(value) for value in (None, " a ", 1990, 0.5)] == ["", "a", "1990", "0.5"]


def test_unknown_values_are_warned_of_once_each(caplog):
    with caplog.at_level(logging.WARNING):
        numbers = {"a": 1, "b": 2}
        found = [number_of_value("topic", value, numbers) for value in ("b", "", "no\x1b", "a", "no\x1b", "not", "no\x1b")]
    assert found == [2, 0, 0, 1, 0, 0, 0]
    assert [record.getMessage().partition(":")[2].partition(":")[0] for record in caplog.records] == [
        r" context topic='no\x1b'",
        " context topic='not'",
    ]


def test_numbers():
    assert typed_number("year", "-1.5e3") == -1500 and math.isnan(typed_number("year", ""))
    for text in ("x", "nan", "inf", "1_0", "1\x1b"):
        with pytest.raises(OptionError, match=r"context year=.*: expected a finite number") as error:
            typed_number("year", text)
        assert str(error.value).isprintable()
