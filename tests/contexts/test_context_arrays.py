"""Contexts as files: what is written is read, and nothing that is damaged or another text's."""

import json

import numpy as np
import pytest

from fairseq_groc.contexts.arrays import earlier_contexts, open_contexts, write_contexts
from fairseq_groc.contexts.splits import contexts_of
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.errors import DataError

ROWS = {"train": ["topic year", "a 1990", "b -", "a 1980"], "valid": ["year topic", "- x", "7 b"]}
LENGTHS = {"train": np.array([3, 1, 2]), "valid": np.array([4, 4])}


@pytest.fixture
def folder(table, tmp_path):
    """A folder with the contexts of two texts."""
    made = contexts_of({name: table(name, *rows) for name, rows in ROWS.items()}, ["year"])
    (tmp_path / "data").mkdir()
    write_contexts(tmp_path / "data", made, LENGTHS)
    return tmp_path / "data"


def test_by_hand(folder):
    train, valid = (open_contexts(folder / split, LENGTHS[split]) for split in ("train", "valid"))
    assert train.variables == valid.variables == (Variable("topic", "category", ("a", "b", "x")), Variable("year", "number"))
    assert train.categories.tolist() == [[1], [2], [1]] and valid.categories.tolist() == [[3], [2]]
    np.testing.assert_array_equal(train.numbers, [[1990], [np.nan], [1980]])
    np.testing.assert_array_equal(valid.numbers, [[np.nan], [7]])
    assert (train.categories.dtype, train.numbers.dtype) == (np.int32, np.float64)
    assert isinstance(train.categories, np.memmap) and isinstance(train.numbers, np.memmap)
    assert train.column("topic").tolist() == [1, 2, 1] and valid.column("year").tolist()[1] == 7


def test_the_files_that_are_documented(folder):
    note = json.loads((folder / "context.json").read_text())
    assert note["format"] == 1 and note["splits"]["train"]["lines"] == 3
    topic = {"name": "topic", "kind": "category", "values": ["a", "b", "x"], "period": 0.0}
    assert note["variables"][0].items() >= topic.items() and note["earlier"] == []
    kinds = ("categories", "numbers")
    assert {p.name for p in folder.iterdir()} == {"context.json"} | {f"{s}.context.{k}.npy" for s in ROWS for k in kinds}


def test_what_an_earlier_training_knows_is_kept(folder, tmp_path):
    first = open_contexts(folder / "train", LENGTHS["train"])
    earlier = (
        Variable("town", "category", ("here", "there"), (5, 2), unknown=1),
        Variable("age", "number", mean=4.0, deviation=0.5),
    )
    write_contexts(tmp_path, {"test": first._replace(earlier=earlier)}, {"test": LENGTHS["train"]})
    assert open_contexts(tmp_path / "test", LENGTHS["train"]).earlier == earlier_contexts(tmp_path) == earlier
    assert earlier_contexts(folder) == earlier_contexts(tmp_path / "nowhere") == ()
    note = json.loads((tmp_path / "context.json").read_text())
    note["earlier"].insert(0, note["variables"].pop())  # which is then not of the text
    (tmp_path / "context.json").write_text(json.dumps(note))
    with pytest.raises(DataError, match="is not as it was written"):
        open_contexts(tmp_path / "test", LENGTHS["train"])


@pytest.mark.parametrize("numeric", [[], ["topic", "year"]])
def test_arrays_of_one_kind_alone(table, tmp_path, numeric):
    made = contexts_of({"train": table("t", "topic year", "1 2", "3 4")}, numeric)
    write_contexts(tmp_path, made, {"train": np.array([1, 2])})
    found = open_contexts(tmp_path / "train", np.array([1, 2]))
    assert np.array_equal(found.categories, made["train"].categories) and np.array_equal(found.numbers, made["train"].numbers)
    assert sorted((found.categories.shape, found.numbers.shape)) == [(2, 0), (2, 2)]


def test_a_text_without_contexts_has_none(folder, tmp_path):
    assert open_contexts(folder / "test", np.array([1])) is None
    assert open_contexts(tmp_path / "nowhere" / "train", np.array([1])) is None


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([3, 1], r"train: its contexts are of another text \(that one has 3 lines, this one 2\)\. Preprocess the text again"),
        ([3, 2, 1], r"train: its contexts are of another text \(as many lines, of other lengths\)"),
    ],
)
def test_contexts_of_another_text_are_refused(folder, lengths, message):
    with pytest.raises(DataError, match=message):
        open_contexts(folder / "train", np.array(lengths))


def test_arrays_that_nothing_describes_are_refused(folder):
    for kind in ("categories", "numbers"):
        (folder / f"train.context.{kind}.npy").rename(folder / f"test.context.{kind}.npy")
    with pytest.raises(DataError, match=r"test has contexts that .*context\.json knows nothing of"):
        open_contexts(folder / "test", np.array([1]))
    with pytest.raises(DataError, match=r"train\.context\.categories\.npy: No such file"):
        open_contexts(folder / "train", LENGTHS["train"])
    (folder / "context.json").unlink()
    with pytest.raises(DataError, match=r"test has contexts, but .* has no context\.json"):
        open_contexts(folder / "test", np.array([1]))


@pytest.mark.parametrize("name", ["train.context.categories.npy", "train.context.numbers.npy", "context.json"])
def test_damage_is_noticed_wherever_it_is(folder, name):
    path = folder / name
    before = path.read_bytes()
    spoilt = [before[: len(before) // 2], before[:-3], b"", b"[]", b"[" * 9999]
    for place in range(0, len(before), 3):
        changed = bytearray(before)
        changed[place] ^= 4
        spoilt.append(bytes(changed))
    refused = 0
    for raw in spoilt:
        path.write_bytes(raw)
        try:
            found = open_contexts(folder / "train", LENGTHS["train"])
        except DataError as error:
            assert "Preprocess the text again" in str(error) and str(folder) in str(error)
            refused += 1
        else:  # what is said of another split, or its name
            assert name == "context.json" and (found is None or found.categories.tolist() == [[1], [2], [1]])
    assert refused == len(spoilt) if name != "context.json" else refused > len(spoilt) / 2


def test_values_that_are_respelt_are_refused(folder):
    path = folder / "context.json"
    path.write_text(path.read_text().replace('"x"', '"y"'))
    with pytest.raises(DataError, match=r"or context\.json is not as it was written"):
        open_contexts(folder / "train", LENGTHS["train"])


@pytest.mark.parametrize(
    "value", [None, {}, {"format": 2, "variables": [], "splits": {}}, {"format": 1, "variables": [3], "splits": {}}]
)
def test_a_description_of_something_else_is_refused(folder, value):
    (folder / "context.json").write_text(json.dumps(value))
    with pytest.raises(DataError, match=r"context\.json is not readable\. Preprocess"):
        open_contexts(folder / "train", LENGTHS["train"])
