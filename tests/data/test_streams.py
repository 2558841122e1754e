"""Every token of a text is in exactly one row of one batch, however the text is cut."""

from collections import Counter

import pytest

from fairseq_groc.data.streams import Block, fixed_lengths, plan_group, plan_lines, plan_text, split_streams, varied_lengths


def covered(plans):
    return Counter(token for plan in plans for begin, end in plan.rows for token in range(begin, end))


def once(num_tokens):
    return Counter(range(num_tokens))


def check_shards(plans, num_shards):
    """Every worker has as many batches, of the same lengths: one that had fewer would leave the others waiting."""
    assert len(plans) % num_shards == 0
    ends = [[(p.block.begin, p.block.end) for p in plans[i::num_shards]] for i in range(num_shards)]
    assert all(e == ends[0] for e in ends)
    for i in range(num_shards):
        assert {plan.block.group % num_shards for plan in plans[i::num_shards]} == {i}


def check_continuity(plans):
    """A row goes on where the row of the batch before it ended, in every group."""
    latest = {}
    for plan in plans:
        block = plan.block
        if block.begin:
            previous = latest[block.group]
            assert previous.block.end == block.begin and previous.streams == plan.streams
            assert all(a == b for (_, a), (b, _) in zip(previous.rows, plan.rows))
        else:
            assert all(a == start for (a, _), start in zip(plan.rows, plan.streams))
        assert all(0 <= b - a <= block.end - block.begin for a, b in plan.rows)
        latest[block.group] = plan


@pytest.mark.parametrize("num_tokens", [1, 53, 1000])
@pytest.mark.parametrize("num_streams", [1, 2, 3, 7, 100])
def test_streams_are_contiguous_and_even(num_tokens, num_streams):
    streams = split_streams(num_tokens, num_streams)
    assert len(streams) == num_streams and streams[0][0] == 0 and streams[-1][1] == num_tokens
    assert [a for a, _ in streams[1:]] == [b for _, b in streams[:-1]]
    sizes = [b - a for a, b in streams]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("num_tokens", [1, 8, 71, 280])
@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 7, 35])
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("vary", [False, True])
def test_a_running_text_is_covered_once(num_tokens, streams, block, shards, vary):
    plans = plan_text("train", 3, num_tokens, streams, shards, block, vary, seed=5)
    assert covered(plans) == once(num_tokens)
    assert all(len(plan.rows) == len(plan.streams) == streams for plan in plans)
    assert {(plan.block.text, plan.block.epoch) for plan in plans} == {("train", 3)}
    check_shards(plans, shards)
    check_continuity(plans)


def test_a_running_text_by_hand():
    plans = plan_text("t", 1, 10, 2, 1, 3)
    assert [(p.block, p.rows) for p in plans] == [
        (Block("t", 1, 0, 0, 3), ((0, 3), (5, 8))),
        (Block("t", 1, 0, 3, 5), ((3, 5), (8, 10))),
    ]
    assert plans[0].streams == plans[1].streams == (0, 5)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_more_streams_than_tokens(shards):
    plans = plan_text("t", 1, 3, 8, shards, 35)
    assert covered(plans) == once(3) and len(plans) == shards
    assert all(len(plan.rows) == 8 for plan in plans)
    check_shards(plans, shards)


def test_fixed_lengths():
    assert fixed_lengths(10, 4) == [4, 4, 2] and fixed_lengths(8, 4) == [4, 4] and fixed_lengths(3, 4) == [3]


@pytest.mark.parametrize("longest", [1, 4, 5, 36, 1000])
@pytest.mark.parametrize("block", [1, 7, 35])
def test_varied_lengths_cover_the_text(longest, block):
    lengths = varied_lengths(longest, block, 1, 1)
    assert sum(lengths) == longest and min(lengths) >= 1 and all(length >= 5 for length in lengths[:-1])


def test_varied_lengths_depend_on_seed_and_epoch_alone():
    lengths = varied_lengths(1000, 35, 1, 1)
    assert lengths == varied_lengths(1000, 35, 1, 1)
    others = [varied_lengths(1000, 35, seed, epoch) for seed, epoch in ((1, 2), (2, 1), (2, 2), (1, 3))]
    assert len({tuple(x) for x in [lengths, *others]}) == 5


def test_varied_lengths_have_the_mean_of_awd_lstm():
    lengths = varied_lengths(1_000_000, 35, 1, 1)
    expected = 0.95 * 35 + 0.05 * 35 / 2 - 0.5  # normal, cut to an integer
    assert abs(sum(lengths) / len(lengths) - expected) < 0.25


LINES = [(0, 5), (5, 6), (6, 23), (23, 24), (24, 84), (84, 87), (87, 89)]


@pytest.mark.parametrize("batch_size", [1, 2, 4, 9])
@pytest.mark.parametrize("block", [1, 7, 35])
@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6], [6, 2, 0, 4, 1, 3, 5]])
def test_independent_lines_are_covered_once(batch_size, block, shards, order):
    plans = plan_lines("test", 1, LINES, batch_size, shards, block, order)
    assert covered(plans) == once(89)
    assert all(1 <= len(plan.rows) <= batch_size for plan in plans)
    assert shards > 1 or all((0, 0) not in plan.rows for plan in plans)  # workers alone may be short of lines
    check_shards(plans, shards)
    check_continuity(plans)
    lines = {(start, max(b for p in plans for s, (a, b) in zip(p.streams, p.rows) if s == start and b > a))
             for plan in plans for start, (a, b) in zip(plan.streams, plan.rows) if b > a}  # fmt: skip
    assert lines == set(LINES)  # a stream is one line, from its first token to its last


def test_lines_follow_the_order_given():
    plans = plan_lines("t", 1, [(0, 3), (3, 4), (4, 9)], 1, 1, 35, [2, 0, 1])
    assert [plan.rows for plan in plans] == [((4, 9),), ((0, 3),), ((3, 4),)]
    assert [plan.block.group for plan in plans] == [0, 1, 2]


def test_a_stream_that_is_over_has_empty_rows():
    plans = list(plan_group("t", 1, 0, [(0, 5), (5, 6)], [2, 3]))
    assert [plan.rows for plan in plans] == [((0, 2), (5, 6)), ((2, 5), (6, 6))]
