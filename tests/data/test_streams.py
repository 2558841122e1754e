"""Every token of a text is in exactly one row of one batch, however the text is cut."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairseq_groc.data.streams import Block, plan_group, plan_streams, similar_lengths, split_streams, varied_lengths


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
            assert all(a == b for (_, a), (b, _) in zip(previous.rows, plan.rows, strict=True))
        else:
            assert all(a == start for (a, _), start in zip(plan.rows, plan.streams, strict=True))
        assert all(0 <= b - a <= block.end - block.begin for a, b in plan.rows)
        latest[block.group] = plan


few, blocks = st.integers(1, 9), st.integers(1, 40)


@given(tokens=st.integers(1, 300), streams=few, shards=few, block=blocks, vary=st.booleans())
def test_a_running_text_is_covered_once(tokens, streams, shards, block, vary):
    plans = plan_streams("train", 3, split_streams(tokens, streams * shards), streams, shards, block, vary, seed=5)
    assert covered(plans) == once(tokens)
    assert all(len(plan.rows) == len(plan.streams) == streams for plan in plans)
    assert {(plan.block.text, plan.block.epoch) for plan in plans} == {("train", 3)}
    begins = [begin for plan in plans[:shards] for begin in plan.streams]
    sizes = [b - a for a, b in zip(begins, [*begins[1:], tokens], strict=True)]
    assert begins[0] == 0 and max(sizes) - min(sizes) <= 1
    *lengths, _ = (plan.block.end - plan.block.begin for plan in plans[::shards])
    assert all(length >= 5 if vary else length == block for length in lengths)
    check_shards(plans, shards)
    check_continuity(plans)


def test_a_running_text_by_hand():
    plans = plan_streams("t", 1, split_streams(10, 2), 2, 1, 3)
    assert [(p.block, p.rows) for p in plans] == [
        (Block("t", 1, 0, 0, 3), ((0, 3), (5, 8))),
        (Block("t", 1, 0, 3, 5), ((3, 5), (8, 10))),
    ]
    assert plans[0].streams == plans[1].streams == (0, 5)


def test_varied_lengths_depend_on_seed_and_epoch_alone():
    lengths = varied_lengths(1000, 35, 1, 1)
    assert lengths == varied_lengths(1000, 35, 1, 1)
    others = [varied_lengths(1000, 35, seed, epoch) for seed, epoch in ((1, 2), (2, 1), (2, 2), (1, 3))]
    assert len({tuple(x) for x in [lengths, *others]}) == 5


def test_varied_lengths_have_the_mean_of_awd_lstm():
    lengths = varied_lengths(1_000_000, 35, 1, 1)
    expected = 0.95 * 35 + 0.05 * 35 / 2 - 0.5  # normal, cut to an integer
    assert abs(sum(lengths) / len(lengths) - expected) < 0.25


lines_in_some_order = st.lists(st.integers(1, 60), min_size=1, max_size=12).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.permutations(range(len(sizes))))
)


@given(sized=lines_in_some_order, batch_size=few, shards=few, block=blocks)
def test_independent_lines_are_covered_once(sized, batch_size, shards, block):
    sizes, order = sized
    ends = list(itertools.accumulate(sizes))
    expected = list(zip([0, *ends[:-1]], ends, strict=True))
    plans = plan_streams("test", 1, [expected[i] for i in order], batch_size, shards, block)
    assert covered(plans) == once(ends[-1])
    assert all(1 <= len(plan.rows) <= batch_size for plan in plans)
    assert shards > 1 or all((0, 0) not in plan.rows for plan in plans)  # workers alone may be short of lines
    check_shards(plans, shards)
    check_continuity(plans)
    lines = {(start, max(b for p in plans for s, (a, b) in zip(p.streams, p.rows, strict=True) if s == start and b > a))
             for plan in plans for start, (a, b) in zip(plan.streams, plan.rows, strict=True) if b > a}  # fmt: skip
    assert lines == set(expected)  # a stream is one line, from its first token to its last


def test_lines_follow_the_order_given():
    plans = plan_streams("t", 1, [(4, 9), (0, 3), (3, 4)], 1, 1, 35)
    assert [plan.rows for plan in plans] == [((4, 9),), ((0, 3),), ((3, 4),)]
    assert [plan.block.group for plan in plans] == [0, 1, 2]


@given(sizes=st.lists(st.integers(1, 99), min_size=1, max_size=40), step=few)
def test_lines_of_similar_lengths_are_all_lines(sizes, step):
    order = similar_lengths(np.array(sizes), step, np.random.default_rng(1)).tolist()
    assert sorted(order) == list(range(len(sizes)))
    # a line that is longer than one of a step and shorter than another, whatever the factors, is in that step
    for begin in range(0, len(order) - step, step):
        of_step = [sizes[i] for i in order[begin : begin + step]]
        others = [sizes[i] for i in order[: len(order) // step * step] if i not in order[begin : begin + step]]
        assert not any(1.25 * min(of_step) < other and 1.25 * other < max(of_step) for other in others)


def test_lines_of_similar_lengths_are_together_and_in_no_order():
    """Of 1,000 lines, 100 a step: most padding is gone, and each epoch has other steps in another order."""
    sizes = np.random.default_rng(2).lognormal(3.5, 0.6, 1010).astype(int) + 1
    orders = [similar_lengths(sizes, 100, np.random.default_rng((1, epoch))) for epoch in range(40)]
    shuffled = np.random.default_rng(3).permutation(1010)

    def padding(order):
        return sum(100 * part.max() for part in np.split(sizes[order[:1000]], 10)) / sizes[order[:1000]].sum() - 1

    assert max(map(padding, orders)) < 0.5 and padding(shuffled) > 2
    first = [sizes[order[:100]].mean() for order in orders]
    assert max(first) > 3 * min(first)  # long lines first, or short ones
    assert len({frozenset(order[:1000].tolist()) for order in orders}) == 40  # not always the same lines are left for the end
    together = {frozenset(part.tolist()) for order in orders for part in np.split(order[:1000], 10)}
    assert len(together) == 400
    rest = [sizes[order[1000:]].mean() for order in orders]
    assert max(rest) > 3 * min(rest)


def test_a_stream_that_is_over_has_empty_rows():
    plans = list(plan_group("t", 1, 0, [(0, 5), (5, 6)], [2, 3]))
    assert [plan.rows for plan in plans] == [((0, 2), (5, 6)), ((2, 5), (6, 6))]
