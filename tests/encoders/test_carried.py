import logging

import pytest
import torch

from fairseq_groc.data.streams import Block
from fairseq_groc.encoders.carried import CarriedState, reordered

FIRST, SECOND, THIRD = (Block("train", 1, 0, begin, begin + 7) for begin in (0, 7, 14))


def state(value, batch_size=2):
    """A state of two layers; h is the value, c its negative."""
    return [(torch.full((1, batch_size, 3), value), torch.full((1, batch_size, 3), -value)) for _ in range(2)]


def value(found):
    assert len(found) == 2 and all(torch.equal(h, -c) for h, c in found)
    return found[0][0][0, 0, 0].item()


def run(carried, *blocks, start=1.0):
    """Read blocks as the model does; the state after the i-th is start + i."""
    for i, block in enumerate(blocks):
        carried.before(block, 2)
        carried.after(block, state(start + i))


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def test_a_text_begins_from_zero(quiet):
    carried = CarriedState()
    assert carried.before(FIRST, 2) is None
    run(carried, FIRST, SECOND)
    assert carried.before(FIRST, 2) is None and carried.before(Block("train", 2, 0, 0, 9), 2) is None
    assert not quiet.records  # that is as it should be


def test_the_state_after_a_block_is_the_state_before_the_next(quiet):
    carried = CarriedState()
    run(carried, FIRST)
    assert value(carried.before(SECOND, 2)) == 1
    run(carried, SECOND, start=2.0)
    assert value(carried.before(THIRD, 2)) == 2
    assert not quiet.records


def test_a_repeated_step_begins_where_it_began(quiet):
    carried = CarriedState()
    run(carried, FIRST, SECOND)
    for attempt in (7.0, 8.0, 9.0):
        assert value(carried.before(SECOND, 2)) == 1
        carried.after(SECOND, state(attempt))
        assert value(carried.before(THIRD, 2)) == attempt
    assert not quiet.records


def test_a_repeated_update_of_several_blocks_begins_where_it_began(quiet):
    carried = CarriedState()
    carried.begin_update(0)
    run(carried, FIRST)
    for attempt in (10.0, 20.0):
        carried.begin_update(1)
        assert value(carried.before(SECOND, 2)) == 1
        run(carried, SECOND, THIRD, start=attempt)
    assert len(carried._states["train"]) == 3
    carried.begin_update(2)
    assert value(carried.before(Block("train", 1, 0, 21, 28), 2)) == 21 and len(carried._states["train"]) == 1
    assert not quiet.records


def test_texts_do_not_touch_each_other():
    carried = CarriedState()
    run(carried, FIRST, SECOND)
    run(carried, Block("valid", 1, 0, 0, 14), Block("valid", 1, 0, 14, 21), start=50.0)
    assert value(carried.before(THIRD, 2)) == 2
    assert value(carried.before(Block("valid", 1, 0, 21, 28), 2)) == 51


@pytest.mark.parametrize(
    "block, batch_size",
    [
        (Block("train", 2, 0, 14, 21), 2),  # another epoch
        (Block("train", 1, 1, 14, 21), 2),  # another group
        (Block("train", 1, 0, 15, 21), 2),  # another place
        (Block("valid", 1, 0, 14, 21), 2),  # another text
        (Block("train", 1, 0, 14, 21), 5),  # another number of streams
    ],
)
def test_a_state_that_is_not_there_is_warned_of(quiet, block, batch_size):
    carried = CarriedState()
    run(carried, FIRST, SECOND)
    assert carried.before(block, batch_size) is None
    (record,) = quiet.records
    expected = f"no state is carried into token {block.begin} of the streams of '{block.text}': beginning from zero"
    assert record.getMessage() == expected and record.levelno == logging.WARNING


def test_only_the_latest_block_is_kept(quiet):
    carried = CarriedState()
    run(carried, *(Block("train", 1, 0, begin, begin + 1) for begin in range(100)))
    assert len(carried.state_dict()["train"]) == 1 and len(carried._states["train"]) == 2


def tree():
    """A state of two streams as no LSTM has it."""
    return {"h": torch.arange(6.0).view(3, 2, 1).requires_grad_() * 1, "more": [(torch.tensor([[3, 4]]), []), None]}


def test_any_tree_is_carried_without_its_graph_and_restored(tmp_path, quiet):
    carried, restored = CarriedState(), CarriedState()
    carried.after(FIRST, tree())
    torch.save(carried.state_dict(), tmp_path / "carried.pt")
    restored.load_state_dict(torch.load(tmp_path / "carried.pt", weights_only=True), "cpu", torch.float64)
    for of, dtype in ((carried, torch.float32), (restored, torch.float64)):
        found, expected = of.before(SECOND, 2), tree()
        assert found["h"].dtype == dtype and not found["h"].requires_grad and torch.equal(found["h"].float(), expected["h"])
        assert torch.equal(found["more"][0][0], expected["more"][0][0]) and found["more"][1:] == [None]
    assert not quiet.records and carried.before(SECOND, 3) is None


def test_an_encoder_without_a_state_carries_none(quiet):
    carried = CarriedState()
    carried.after(FIRST, None)
    assert carried.before(SECOND, 2) is None and not quiet.records


def test_streams_are_reordered():
    moved = reordered(tree(), torch.tensor([1, 1, 0]))
    assert moved["h"][..., 0].tolist() == [[1, 1, 0], [3, 3, 2], [5, 5, 4]] and moved["more"][0][0].tolist() == [[4, 4, 3]]


def test_a_round_trip_through_a_file(tmp_path):
    carried, restored = CarriedState(), CarriedState()
    run(carried, FIRST, SECOND)
    run(carried, Block("valid", 1, 0, 0, 3), start=50.0)
    torch.save(carried.state_dict(), tmp_path / "carried.pt")
    restored.load_state_dict(torch.load(tmp_path / "carried.pt", weights_only=True), "cpu", torch.float64)
    for block in (THIRD, Block("valid", 1, 0, 3, 6)):
        assert value(restored.before(block, 2)) == value(carried.before(block, 2))
        assert restored.before(block, 2)[0][0].dtype == torch.float64
    run(restored, THIRD, start=3.0)  # and it goes on from there
    assert value(restored.before(Block("train", 1, 0, 21, 28), 2)) == 3


def test_loading_replaces():
    carried = CarriedState()
    run(carried, FIRST)
    carried.load_state_dict({}, "cpu", torch.float32)
    assert carried.before(SECOND, 2) is None
