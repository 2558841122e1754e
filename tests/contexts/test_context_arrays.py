"""Contexts as files: what is written is read, and nothing that is damaged or another text's."""

import numpy as np
import pytest
import torch
from fairseq.data.data_utils import _find_extra_valid_paths

from fairseq_groc.contexts.arrays import earlier_contexts, open_contexts, write_contexts
from fairseq_groc.contexts.splits import contexts_of
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.errors import DataError
from fairseq_groc.tensor_file import save_tensors

ROWS = {"train": ["topic year", "a 1990", "b -", "a 1980"], "valid": ["year topic", "- x", "7 b"]}
LENGTHS = {"train": np.array([3, 1, 2]), "valid": np.array([4, 4])}


@pytest.fixture
def folder(table, tmp_path):
    """A folder with the contexts of two texts."""
    made = contexts_of({name: table(name, *rows) for name, rows in ROWS.items()}, ["year"])
    (tmp_path / "data").mkdir()
    for name, contexts in made.items():
        write_contexts(tmp_path / "data" / name, contexts, LENGTHS[name])
    return tmp_path / "data"


def test_by_hand(folder):
    train, valid = (open_contexts(folder / split, LENGTHS[split]) for split in ("train", "valid"))
    assert train.variables == valid.variables == (Variable("topic", "category", ("a", "b", "x")), Variable("year", "number"))
    assert train.categories.tolist() == [[1], [2], [1]] and valid.categories.tolist() == [[3], [2]]
    np.testing.assert_array_equal(train.numbers, [[1990], [np.nan], [1980]])
    np.testing.assert_array_equal(valid.numbers, [[np.nan], [7]])
    assert (train.categories.dtype, train.numbers.dtype) == (np.int32, np.float64)
    assert {path.name for path in folder.iterdir()} == {f"{split}.contexts" for split in ROWS}
    assert train.column("topic").tolist() == [1, 2, 1] and valid.column("year").tolist()[1] == 7


def test_what_an_earlier_training_knows_is_kept(folder, tmp_path):
    first = open_contexts(folder / "train", LENGTHS["train"])
    earlier = (
        Variable("town", "category", ("here", "there"), (5, 2), unknown=1),
        Variable("age", "number", mean=4.0, deviation=0.5),
    )
    write_contexts(tmp_path / "test", first._replace(earlier=earlier), LENGTHS["train"])
    assert open_contexts(tmp_path / "test", LENGTHS["train"]).earlier == earlier_contexts(tmp_path) == earlier
    assert earlier_contexts(folder) == earlier_contexts(tmp_path / "nowhere") == ()


def test_fairseq_takes_none_for_a_text_of_its_own(folder):
    write_contexts(folder / "valid1", open_contexts(folder / "valid", LENGTHS["valid"]), LENGTHS["valid"])
    assert _find_extra_valid_paths(str(folder)) == {"valid1"}


@pytest.mark.parametrize("numeric", [[], ["topic", "year"]])
def test_arrays_of_one_kind_alone(table, tmp_path, numeric):
    made = contexts_of({"train": table("t", "topic year", "1 2", "3 4")}, numeric)
    write_contexts(tmp_path / "train", made["train"], np.array([1, 2]))
    found = open_contexts(tmp_path / "train", np.array([1, 2]))
    assert np.array_equal(found.categories, made["train"].categories) and np.array_equal(found.numbers, made["train"].numbers)
    assert sorted((found.categories.shape, found.numbers.shape)) == [(2, 0), (2, 2)]


def test_a_text_without_contexts_has_none(folder, tmp_path):
    assert open_contexts(folder / "test", np.array([1])) is None
    assert open_contexts(tmp_path / "nowhere" / "train", np.array([1])) is None


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([3, 1], r"train\.contexts: of another text \(that one has 3 lines, this one 2\)\. Preprocess"),
        ([3, 2, 1], r": of another text \(as many lines, of other lengths\)"),
    ],
)
def test_contexts_of_another_text_are_refused(folder, lengths, message):
    with pytest.raises(DataError, match=message):
        open_contexts(folder / "train", np.array(lengths))


def test_damage_is_noticed_wherever_it_is(folder):
    path = folder / "train.contexts"
    before = path.read_bytes()
    flipped = (before[:place] + bytes([before[place] ^ 4]) + before[place + 1 :] for place in range(0, len(before), 3))
    spelt = before.replace(b"x", b"y", 1)
    for raw in (before[: len(before) // 2], before[:-3], b"", b"[]", b"[" * 9999, spelt, *flipped):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"train\.contexts cannot be read .*Preprocess the text again"):
            open_contexts(folder / "train", LENGTHS["train"])


def test_contexts_of_an_earlier_version_are_refused(folder):
    (folder / "context.json").write_text("{}")
    with pytest.raises(DataError, match=r"data has contexts of an earlier version \(context\.json\)\. Preprocess"):
        earlier_contexts(folder)


def test_a_file_of_other_tensors_is_refused(folder):
    for header, message in (({"text": ""}, "format"), ({"format": 3}, "format 3, expected 2"), ({"format": 2}, "variables")):
        save_tensors(folder / "train.contexts", {"categories": torch.zeros(3, 1)}, header)
        with pytest.raises(DataError, match=f"cannot be read .*{message}.*Preprocess the text again"):
            open_contexts(folder / "train", LENGTHS["train"])
