"""Contexts of several texts: the same columns, of kinds that options say, a row a line."""

import pytest

from fairseq_groc.contexts.splits import check_rows, contexts_of, described, read_contexts
from fairseq_groc.contexts.table import read_table
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.errors import DataError, OptionError


def test_columns_must_be_those_of_training(table):
    train, test = table("train", "topic year", "a 1"), table("test", "topic hour year", "a 1 1")
    with pytest.raises(DataError, match=r"train\.tsv: has no column hour, which .*test\.tsv has"):
        contexts_of({"train": train, "test": test})
    with pytest.raises(DataError, match=r"train\.tsv: has no column hour, which .*test\.tsv has"):
        contexts_of({"train": test, "test": train})


@pytest.mark.parametrize(
    "numeric, cyclic, message",
    [
        (["yaer"], {}, "--context-numeric yaer: .*t.tsv has no such column. It has topic, year"),
        ([], {"hour": 24.0}, "--context-cyclic hour: .*t.tsv has no such column"),
        (["year"], {"year": 10.0}, "--context-numeric year and --context-cyclic year: give one"),
    ],
)
def test_columns_that_are_not_there(table, numeric, cyclic, message):
    with pytest.raises(OptionError, match=message):
        contexts_of({"train": table("t", "topic year", "a 1")}, numeric, cyclic)


def test_a_cell_that_is_no_number_is_named(tmp_path):
    (tmp_path / "t.tsv").write_text("topic\tyear\na\t1\nb\tMay\n")
    with pytest.raises(DataError, match=r"t\.tsv:3: column year: 'May'"):
        contexts_of({"train": read_table(str(tmp_path / "t.tsv"))}, ["year"])


@pytest.fixture
def files(table):
    train = table("train", "topic year hour", "a 1990 1", "b - 2", "- 1980 3", "a 1990 -")
    return {"train": train.path, "test": table("test", "hour year topic", "4 1970 b", "- - x").path}


def test_contexts_are_read_as_their_options_say(files):
    contexts = read_contexts(files, ["year"], {"hour": 24.0})
    kinds = (Variable("topic", "category", ("a", "b", "x")), Variable("year", "number"), Variable("hour", "cycle", period=24.0))
    assert {arrays.variables for arrays in contexts.values()} == {kinds}
    assert contexts["test"].categories.tolist() == [[2], [3]] and contexts["test"].numbers[0].tolist() == [1970, 4]
    assert contexts["train"].name == files["train"]


def test_one_line_says_what_there_is(files):
    line = described(read_contexts(files, ["year"], {"hour": 24.0}))
    parts = "topic (3 values; 16.67% missing), year (a number; 33.33% missing), hour (a cycle of 24; 33.33% missing)"
    assert line == f"contexts of train, test: {parts}"


def test_contexts_that_training_says_nothing_with_are_refused(table, files, caplog):
    other = {**files, "train": table("same", "topic year hour", "a 1 1", "a 2 2").path}
    with pytest.raises(OptionError, match=r"same\.tsv: context topic: has 1 value in the training lines"):
        read_contexts(other, ["year"], {"hour": 24.0})
    assert read_contexts({"test": files["test"]}, [], {})["test"].categories.shape == (2, 3)  # without a training all may be
    assert not caplog.text


def test_values_that_training_lacks_are_warned_of(table, files, caplog):
    strange = table("test", "hour year topic", "4 1970 x", "- - x").path
    read_contexts({**files, "test": strange}, ["year"], {"hour": 24.0})
    assert (
        "test.tsv: 100% of the lines with a topic have one that training lacks or has too few lines of, the first is 'x'"
        in caplog.text
    )


@pytest.mark.parametrize("lines, hint", [(5, ". Does it lack these? Its first row is topic, year, hour"), (3, ""), (6, "")])
def test_there_is_a_row_a_line(files, lines, hint):
    arrays = read_contexts(files, ["year"], {"hour": 24.0})["train"]
    check_rows(arrays, 4, "train.txt")
    with pytest.raises(DataError) as error:
        check_rows(arrays, lines, "train.txt")
    said = f"train.tsv has 4 rows for the {lines} lines of train.txt: expected a row a line, below names of columns"
    assert str(error.value).endswith(said + hint)
