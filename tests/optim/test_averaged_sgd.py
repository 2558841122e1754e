"""The averages are means of iterates, and everything else is as without them."""

import copy
import json

import pytest
import torch
from fairseq.optim.adam import Adam

from fairseq_groc.optim.averaged_sgd import AveragedSGD, non_monotonic
from fairseq_groc.optim.nt_asgd import AveragedAdam

BASES = {"sgd": (AveragedSGD, torch.optim.SGD, 0.3), "adam": (AveragedAdam, Adam, 0.01)}


@pytest.mark.parametrize("log", ["ptb_awd", "ptb_drill_4", "wt2_awd", "wt2_drill_4"])
def test_the_rule_finds_where_the_released_trainings_began_to_average(data, log):
    recorded = json.loads((data / "validation_perplexities.json").read_text())
    losses = recorded["curves"][log]
    met = [epoch for epoch in range(1, len(losses) + 1) if non_monotonic(losses[:epoch], 5)]
    assert met[0] == recorded["switch_after"][log]


@pytest.mark.parametrize(
    "losses, interval, expected",
    [
        ([], 5, False),
        ([1.0, 2, 3, 4, 5, 6], 5, False),  # there is none that is old enough
        ([1.0, 2, 3, 4, 5, 6, 7], 5, True),
        ([1.0, 0, 0, 0, 0, 0, 1], 5, False),  # as low as the only old one
        ([9.0, 1, 5, 5, 5, 5, 5, 2], 5, True),
        ([9.0, 8, 1, 5, 5, 5, 5, 2], 5, False),  # the lowest is not old enough
        ([1.0, 2], 0, True),
        ([2.0, 1], 0, False),
        ([1.0, float("nan")], 0, False),
        ([1.0, float("inf")], 0, True),
        ([float("inf"), float("inf")], 0, False),
    ],
)
def test_the_rule_by_hand(losses, interval, expected):
    assert non_monotonic(losses, interval) is expected


def parameters(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(size, generator=generator, dtype=dtype)) for size in ((3, 4), (5,))]


def set_gradients(params, step, without=None):
    """Let the gradients be some function of the parameters and the step."""
    generator = torch.Generator().manual_seed(100 + step)
    for i, p in enumerate(params):
        noise = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        p.grad = None if i == without else p.detach() + noise


def values(params):
    return [p.detach().clone() for p in params]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def train(optimizer, params, steps, epoch=lambda step: 1, seen=None):
    for step in steps:
        optimizer.begin_step(epoch(step))
        set_gradients(params, step)
        optimizer.step()
        if seen is not None:
            seen.append(values(params))


FALLEN = {1: 1.0, 2: 1.5, 3: 1.1}  # with an interval of 1 averaging begins in epoch 4


def at_three(step):
    """Return the epoch of a step: averaging begins with the fourth step."""
    return 3 if step < 3 else 4


def averaged(base, params, **options):
    kind, _, lr = BASES[base]
    return kind(params, lr=lr, weight_decay=0.01, **options)


@pytest.mark.parametrize("base", BASES)
def test_the_average_is_the_mean_of_all_iterates_since_it_began(base):
    params, seen = parameters(), []
    optimizer = averaged(base, params, interval=1)
    optimizer.losses.update(FALLEN)
    train(optimizer, params, range(7), at_three, seen)
    assert optimizer.averaging
    optimizer.swap_in()
    for p, *iterates in zip(params, *seen[3:], strict=True):
        torch.testing.assert_close(p.detach(), torch.stack(iterates).mean(0), rtol=1e-13, atol=1e-15)
    optimizer.swap_in()  # the second time changes nothing
    optimizer.swap_out()
    assert equal(values(params), seen[-1])


@pytest.mark.parametrize("base", BASES)
def test_iterates_are_the_bases_to_the_bit(base):
    mine, others = parameters(torch.float32), parameters(torch.float32)
    _, plain, lr = BASES[base]
    optimizer, reference = averaged(base, mine, from_start=True), plain(others, lr=lr, weight_decay=0.01)
    for step in range(9):
        train(optimizer, mine, [step])
        set_gradients(others, step)
        reference.step()
        assert equal(values(mine), values(others))
        if step % 3 == 0:
            optimizer.swap_in()
            assert step == 0 or not equal(values(mine), values(others))


@pytest.mark.parametrize("from_start", [False, True])
def test_a_step_has_the_learning_rate_of_its_own_time(from_start):
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = AveragedSGD([p], lr=5.0, from_start=from_start)
    steps = []
    for lr in (1.0, 10.0, 100.0):
        optimizer.begin_step(1)
        p.grad = torch.ones_like(p)
        optimizer.param_groups[0]["lr"] = lr
        before = p.item()
        optimizer.step()
        steps.append(before - p.item())
    assert steps == [1, 10, 100]


def test_a_parameter_without_gradient_is_left_out_of_the_step_and_of_its_mean():
    params, seen = parameters(), []
    optimizer = averaged("adam", params, from_start=True)
    for step in range(6):
        optimizer.begin_step(1)
        set_gradients(params, step, without=1 if step in (0, 3) else None)
        optimizer.step()
        seen.append(values(params))
    optimizer.swap_in()
    means = [torch.stack([seen[step][i] for step in steps]).mean(0) for i, steps in ((0, range(6)), (1, (1, 2, 4, 5)))]
    for p, mean in zip(params, means, strict=True):
        torch.testing.assert_close(p.detach(), mean, rtol=1e-13, atol=1e-15)


def test_a_step_may_be_corrected_after_it():
    params, seen = parameters(), []
    optimizer = averaged("sgd", params, from_start=True)
    for step in range(3):
        train(optimizer, params, [step])
        with torch.no_grad():
            params[0].mul_(0.5)
        seen.append(values(params))
    optimizer.swap_in()
    for p, *iterates in zip(params, *seen, strict=True):
        torch.testing.assert_close(p.detach(), torch.stack(iterates).mean(0), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("at", [2, 5])
def test_going_on_from_a_state_is_never_having_stopped(base, swapped, at):
    """Before and after averaging began, with iterates or averages in the parameters' place."""

    whole, parts = parameters(torch.float32), parameters(torch.float32)
    one, first = (averaged(base, params, interval=1) for params in (whole, parts))
    for optimizer in (one, first):
        optimizer.losses.update(FALLEN)
    train(one, whole, range(8), at_three)
    train(first, parts, range(at), at_three)
    if swapped:
        first.swap_in()
    state, saved = copy.deepcopy(first.state_dict()), values(parts)
    resumed = [torch.nn.Parameter(p) for p in saved]
    second = averaged(base, resumed, interval=1)
    second.load_state_dict(state)
    train(second, resumed, range(at, 8), at_three)
    assert first.averaging is (at > 3) and one.averaging and second.averaging
    assert equal(values(whole), values(resumed))
    for optimizer in (one, second):
        optimizer.swap_in()
    assert equal(values(whole), values(resumed))


def test_averages_take_no_step():
    params = parameters()
    optimizer = averaged("sgd", params, from_start=True)
    train(optimizer, params, range(2))
    optimizer.swap_in()
    set_gradients(params, 2)
    with pytest.raises(RuntimeError, match="call swap_out first"):
        optimizer.step()


def test_swapping_is_in_place_and_seen_by_what_is_kept_of_parameters():
    params = parameters()
    optimizer = averaged("sgd", params, from_start=True)
    train(optimizer, params, range(2))
    pointers, versions = [p.data_ptr() for p in params], [p._version for p in params]
    optimizer.swap_in()
    between = [p._version for p in params]
    optimizer.swap_out()
    assert pointers == [p.data_ptr() for p in params]
    assert all(a < b < p._version for a, b, p in zip(versions, between, params, strict=True))
