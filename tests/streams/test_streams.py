"""Every token of a text is predicted exactly once, however it is cut."""

import logging

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_groc.data.carried import CarriedState
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.data.streams import Block, fixed_lengths, plan_lines, plan_text, split_streams, varied_lengths
from fairseq_groc.errors import DataError


class Lines(list):
    """Lines as an indexed dataset."""

    @property
    def sizes(self):
        return [len(line) for line in self]


@pytest.fixture
def dictionary():
    dictionary = Dictionary()
    for i in range(200):
        dictionary.add_symbol(f"w{i}")
    return dictionary


def lines_of(*lengths):
    words = iter(range(4, 10_000))
    return Lines(torch.tensor([next(words) for _ in range(n - 1)] + [2]) for n in lengths)


@pytest.mark.parametrize("num_streams", [1, 2, 3, 7, 100])
def test_streams_are_contiguous_and_even(num_streams):
    streams = split_streams(53, num_streams)
    assert [a for a, _ in streams[1:]] == [b for _, b in streams[:-1]] and streams[0][0] == 0 and streams[-1][1] == 53
    sizes = [b - a for a, b in streams]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 7, 35])
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("independent", [False, True])
def test_every_token_once(dictionary, streams, block, shards, independent):
    lines = lines_of(5, 1, 17, 1, 60, 3, 2)
    text = torch.cat(list(lines))
    dataset = StreamDataset(lines, "test", dictionary, independent, True)
    plans = dataset.plan(1, streams, shards, block)
    assert len(plans) % shards == 0
    seen = torch.zeros(len(text), dtype=torch.long)
    for plan in plans:
        batch = dataset.collater([dataset[plan]])
        source, target = batch["net_input"]["src_tokens"], batch["target"]
        for row, (begin, end), start in zip(range(streams), plan.rows, plan.streams):
            n = end - begin
            seen[begin:end] += 1
            assert target[row, :n].tolist() == text[begin:end].tolist() and (target[row, n:] == 1).all()
            previous = [2 if i == start else int(text[i - 1]) for i in range(begin, end)]
            assert source[row, :n].tolist() == previous and (source[row, n:] == 1).all()
        assert batch["ntokens"] == sum(b - a for a, b in plan.rows)
    assert (seen == 1).all()
    if independent:
        assert {s for p in plans for s, (a, b) in zip(p.streams, p.rows) if b > a} == {0, 5, 6, 23, 24, 84, 87}


def test_more_streams_than_tokens():
    plans = plan_text("t", 1, 3, 8, 1, 35)
    assert sum(b - a for plan in plans for a, b in plan.rows) == 3


def test_lines_are_dealt_evenly():
    plans = plan_lines("t", 1, [(0, 3), (3, 4), (4, 9)], 1, 2, 2, [2, 0, 1])
    assert len(plans) % 2 == 0
    assert sorted(i for p in plans for a, b in p.rows for i in range(a, b)) == list(range(9))


def test_varied_lengths_depend_on_seed_and_epoch_alone():
    lengths = varied_lengths(1000, 35, 1, 1)
    assert lengths == varied_lengths(1000, 35, 1, 1) != varied_lengths(1000, 35, 1, 2)
    assert sum(lengths) == 1000 and min(lengths[:-1]) >= 5 and len(set(lengths)) > 5
    assert fixed_lengths(10, 4) == [4, 4, 2]


@pytest.mark.parametrize("special", [0, 1])
def test_a_special_symbol_in_the_text_is_refused(dictionary, special):
    dataset = StreamDataset(Lines([torch.tensor([5, special, 2])]), "valid", dictionary, False, True)
    with pytest.raises(DataError, match="'valid' contains the special symbol"):
        dataset[dataset.plan(1, 1, 1, 35)[0]]


def test_an_empty_text_is_refused(dictionary):
    with pytest.raises(DataError, match="holds no text"):
        StreamDataset(Lines(), "valid", dictionary, False, True)


def state(value):
    return [(torch.full((1, 2, 3), value), torch.full((1, 2, 3), -value))]


def test_carried_states_belong_to_blocks(caplog):
    carried, first, second = CarriedState(), Block("train", 1, 0, 0, 7), Block("train", 1, 0, 7, 14)
    assert carried.before(first, 2) is None
    carried.after(first, None, state(1.0))
    before = carried.before(second, 2)
    assert before[0][0][0, 0, 0] == 1
    carried.after(second, before, state(2.0))
    carried.after(Block("valid", 1, 0, 0, 7), None, state(9.0))  # another text
    assert carried.before(second, 2)[0][0][0, 0, 0] == 1  # a repeated step begins where it began
    assert carried.before(Block("train", 1, 0, 14, 21), 2)[0][0][0, 0, 0] == 2
    restored = CarriedState()
    restored.load_state_dict(carried.state_dict(), "cpu", torch.float32)
    assert torch.equal(restored.before(Block("train", 1, 0, 14, 21), 2)[0][1], carried.before(Block("train", 1, 0, 14, 21), 2)[0][1])
    with caplog.at_level(logging.WARNING):
        assert carried.before(Block("train", 2, 0, 14, 21), 2) is None  # another epoch
        assert carried.before(Block("train", 1, 0, 14, 21), 5) is None  # another number of streams
    assert caplog.text.count("no state is carried into token 14") == 2
