import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fairseq_groc.embeddings.rows import NewRows, WordRows, draw_like


def trained(words):
    rows = WordRows(words, 2)
    rows.weight.data.copy_(torch.arange(1.0, len(words) + 1).unsqueeze(1).expand(-1, 2))
    return rows


def load(rows, state, name=""):
    rows.upgrade_state_dict_named(state, name)
    return rows.load_state_dict(state, strict=True)


vocabularies = st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True)


@given(old=vocabularies, new=vocabularies)
def test_rows_move_by_word(old, new):
    rows = WordRows(new, 2)
    load(rows, trained(old).state_dict())
    assert rows.weight.tolist() == [[old.index(word) + 1 if word in old else 0] * 2 for word in new]
    unknown = [word not in old for word in new]
    assert (None if rows.unknown() is None else rows.unknown().tolist()) == (unknown if any(unknown) else None)


def test_rows_move_below_a_name():
    old, new = nn.ModuleDict({"head": trained(["a", "b"])}), nn.ModuleDict({"head": WordRows(["b", "c"], 2)})
    state = old.state_dict()
    new["head"].upgrade_state_dict_named(state, "head")
    assert set(state) == set(new.state_dict()) == {"head.weight", "head._extra_state"}
    new.load_state_dict(state, strict=True)
    assert new["head"].weight.tolist() == [[2, 2], [0, 0]]


def test_the_source_is_left_as_it_was():
    old = trained(["a", "b"])
    load(WordRows(["b", "new"], 2), old.state_dict())
    assert old.weight.tolist() == [[1, 1], [2, 2]] and old.words == ["a", "b"]


def test_unknown_ends_with_training():
    rows = WordRows(["a", "new"], 2)
    load(rows, trained(["a"]).state_dict())
    rows.eval()
    assert rows.unknown().tolist() == [False, True]
    rows.train()
    assert rows.unknown() is None


def test_a_complete_state_after_an_incomplete_one_leaves_no_word_unknown():
    rows = WordRows(["a", "b"], 2)
    load(rows, trained(["a"]).state_dict())
    load(rows, trained(["a", "b"]).state_dict())
    assert rows.weight.tolist() == [[1, 1], [2, 2]] and rows.unknown() is None


def test_unknown_words_stay_unknown_through_a_checkpoint():
    first = WordRows(["a", "new"], 2)
    load(first, trained(["a"]).state_dict())
    second = WordRows(["a", "new"], 2)
    load(second, copy.deepcopy(first.state_dict()))  # saved without any training in between
    assert second.unknown() is not None and second.unknown().tolist() == [False, True]


def test_upgrading_twice_is_upgrading_once():
    rows, state = WordRows(["new", "a"], 2), trained(["a"]).state_dict()
    rows.upgrade_state_dict_named(state, "")
    load(rows, state)
    assert rows.weight.tolist() == [[0, 0], [1, 1]] and rows.unknown().tolist() == [True, False]


def test_a_state_without_words_is_taken_as_it_is():
    rows = WordRows(["a", "b"], 1)
    load(rows, {"weight": torch.ones(2, 1)})
    assert rows.weight.tolist() == [[1], [1]] and rows.unknown() is None


def test_a_state_without_rows_is_not_hidden():
    state = {}
    rows = WordRows(["a"], 1)
    rows.upgrade_state_dict_named(state, "")
    with pytest.raises(RuntimeError, match="Missing key.*weight"):
        rows.load_state_dict(state, strict=True)


def test_the_state_is_loaded_safely(tmp_path):
    old = trained(["a", "naïve"])
    torch.save(old.state_dict(), tmp_path / "rows.pt")
    rows = WordRows(["naïve"], 2)
    load(rows, torch.load(tmp_path / "rows.pt", weights_only=True))
    assert rows.weight.tolist() == [[2, 2]]


def test_new_rows_have_the_mean_and_covariance_of_the_others():
    torch.manual_seed(0)
    rows = torch.randn(500, 3, dtype=torch.double) @ torch.tensor([[2.0, 1, 0], [0, 1, 0], [0, 0, 0.1]]).double() + 5
    drawn = draw_like(rows, [f"word{i}" for i in range(20_000)])
    torch.testing.assert_close(drawn.mean(0), rows.mean(0), rtol=0, atol=0.1)
    torch.testing.assert_close(drawn.t().cov(), rows.t().cov(correction=0), rtol=0.1, atol=0.1)
    some = list(range(300, 10, -7))  # a word's row does not depend on the company it is drawn in
    assert torch.equal(draw_like(rows, [f"word{i}" for i in some]), drawn[some])
    assert torch.equal(draw_like(rows, ["word300"]), drawn[300:301])


def test_rows_that_are_all_the_same_are_drawn_the_same():
    assert draw_like(torch.full((5, 2), 3.0), ["new"]).tolist() == [[3, 3]]


def test_words_that_fill_a_dictionary_are_no_example_for_new_ones():
    old, new = WordRows(["<s>", "a", "b", "madeupword0000"], 1), WordRows(["a", "new", "b"], 1)
    old.weight.data.copy_(torch.tensor([[50.0], [1], [1], [99]]))
    new.new = NewRows(drawn=True)
    load(new, old.state_dict())
    assert new.weight.tolist() == [[1], [1], [1]]


def test_words_as_they_were_saved_once():
    rows, state = WordRows(["c", "b", "a"], 1), {"weight": torch.tensor([[1.0], [2]])}
    load(rows, {**state, "_extra_state": {"words": ["a", "b"], "unknown": ["b"]}})
    assert rows.weight.tolist() == [[0], [0], [1]] and rows.unknown().tolist() == [True, True, False]


def test_a_word_is_unknown_where_none_of_the_averaged_had_a_row():
    states = []
    for words in (["a"], ["a", "b"], ["a"]):
        rows = WordRows(["a", "b", "c"], 2)
        load(rows, trained(words).state_dict())
        states.append(rows.state_dict())
    mean = {key: sum(state[key] for state in states) / 3 for key in states[0]}
    rows = WordRows(["a", "b", "c"], 2)
    load(rows, mean)
    assert rows.unknown().tolist() == [False, False, True]
    torch.testing.assert_close(rows.weight.detach(), torch.tensor([[1, 1], [2 / 3, 2 / 3], [0, 0]]))


def test_drawn_rows_are_known_and_the_others_are_kept():
    old, new = WordRows(["a", "b", "c"], 2), WordRows(["c", "new", "a"], 2)
    old.weight.data.copy_(torch.tensor([[1.0, 2], [3, 5], [8, 13]]))
    new.new, state = NewRows(drawn=True), old.state_dict()
    new.upgrade_state_dict_named(state, "")
    new.load_state_dict(state)
    assert new.unknown() is None and new.weight[[0, 2]].tolist() == [[8, 13], [1, 2]] and bool((new.weight[1] != 0).all())


def test_new_rows_for_training_are_random_and_unknown_until_then():
    words, state = ["a", *(f"new{i}" for i in range(400)), "b"], trained(["a", "b"]).state_dict()
    first, again, other = WordRows(words, 2), WordRows(words, 2), WordRows(words, 2)
    for rows, name in ((first, "x"), (again, "x"), (other, "y")):
        rows.new = NewRows(limit=0.05)
        rows.upgrade_state_dict_named(named := {f"{name}.{key}": value for key, value in state.items()}, name)
        rows.load_state_dict({key.split(".", 1)[1]: value for key, value in named.items()}, strict=True)
    assert first.weight[[0, -1]].tolist() == [[1, 1], [2, 2]]
    new = first.weight.detach()[1:-1]
    assert new.abs().max() <= 0.05 and new.std() == pytest.approx(0.05 / 3**0.5, rel=0.05) and abs(new.mean()) < 0.005
    assert torch.equal(first.weight, again.weight) and not torch.equal(first.weight, other.weight)
    assert first.unknown().sum() == 400 and first.train().unknown() is None
