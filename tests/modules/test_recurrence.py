import itertools

import pytest
import torch

from fairseq_groc.modules.positions import products_at
from fairseq_groc.modules.recurrence import Factor, coupled_loop, coupled_lstm

NAMES = ["gates", "weight", "h", "m", "inner", "left", "right"]


def values(time, streams, size, rank, contexts):
    torch.manual_seed(0)
    shapes = [(time, streams, 3 * size), (size, 3 * size), (streams, size), (streams, size)]
    shapes += [(time, streams, rank), (contexts, size, rank), (contexts, rank, 3 * size)]
    return [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]


def written_out(gates, weight, h, m, inner, left, right, index, kept):
    """The equations with a weight matrix for each stream and step."""
    hs = []
    for t in range(len(gates)):
        steps = []
        for b in range(gates.size(1)):
            c = index[b] if index.dim() == 1 else index[t, b]
            changed = weight + left[c] @ right[c]
            j, f, o = (gates[t, b] + inner[t, b] @ right[c] + h[b] @ changed).chunk(3)
            f = 1 / (1 + torch.exp(-f))
            memory = m[b] * f + (1 - f) * torch.tanh(j) * kept[t, b]
            steps.append((torch.tanh(memory) / (1 + torch.exp(-o)), memory))
        h, m = (torch.stack(both) for both in zip(*steps, strict=True))
        hs.append(h)
    return torch.stack(hs), m


CASES = {  # T, B, d, r, C, index
    "unequal groups": (5, 6, 4, 3, 3, [0, 2, 0, 0, 2, 0]),
    "a context for each stream": (4, 3, 4, 2, 3, [1, 0, 2]),
    "groups that are split": (3, 60, 2, 1, 8, [0] * 53 + list(range(1, 8))),
    "one of each": (1, 1, 2, 1, 1, [0]),
    "one step": (1, 4, 3, 2, 2, [1, 1, 1, 0]),
    "one stream": (6, 1, 3, 2, 2, [1]),
    "positions": (5, 3, 4, 2, 4, [[0, 1, 3], [0, 1, 3], [2, 1, 0], [2, 0, 0], [0, 0, 0]]),
    "one position": (1, 1, 2, 1, 2, [[1]]),
    "positions of one stream": (4, 1, 2, 1, 3, [[0], [2], [2], [0]]),
}


@pytest.fixture(params=CASES)
def case(request):
    time, streams, size, rank, contexts, index = CASES[request.param]
    kept = torch.randn(time, streams, size, dtype=torch.double).exp()
    return values(time, streams, size, rank, contexts), torch.tensor(index), kept


def outcome(function, leaves):
    """Return h, m and the gradients of a sum in which every number of both counts by another weight."""
    h, m = function(*leaves)
    torch.manual_seed(3)
    weights = torch.randn_like(h), torch.randn_like(m)
    before = [one.clone() for one in weights]
    grads = torch.autograd.grad((h, m), leaves, weights, allow_unused=True)
    assert all(map(torch.equal, weights, before))
    return h, m, dict(zip(NAMES, grads, strict=False))


@pytest.mark.parametrize("dropped", [False, True])
def test_equals_a_matrix_for_each_stream_and_step(case, dropped):
    leaves, index, kept = case
    mask = kept if dropped else None
    expected = outcome(lambda *v: written_out(*v, index, kept if dropped else torch.ones_like(kept)), leaves)
    found = outcome(lambda *v: coupled_lstm(*v[:4], Factor(*v[4:], index), mask), leaves)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    looped = outcome(lambda *v: coupled_loop(*v[:4], lambda z: z, Factor(*v[4:], index), mask), leaves)
    torch.testing.assert_close(looped, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in CASES if name != "groups that are split"])
@pytest.mark.parametrize("dropped", [False, True])
def test_gradients(name, dropped):
    *sizes, index = CASES[name]
    leaves, index = values(*sizes), torch.tensor(index)
    kept = torch.rand(*leaves[0].shape[:2], sizes[2], dtype=torch.double) if dropped else None
    assert torch.autograd.gradcheck(lambda *v: coupled_lstm(*v[:4], Factor(*v[4:], index), kept), leaves)


@pytest.mark.parametrize("dropped", [False, True])
def test_without_a_factor_it_is_one_that_is_zero(dropped):
    leaves, index = values(5, 4, 3, 2, 2), torch.tensor([0, 1, 1, 0])
    kept = torch.rand(5, 4, 3, dtype=torch.double) if dropped else None
    zero = Factor(torch.zeros(5, 4, 2).double(), torch.zeros(2, 3, 2).double(), torch.zeros(2, 2, 9).double(), index)
    expected = outcome(lambda *v: coupled_lstm(*v, zero, kept), leaves[:4])
    torch.testing.assert_close(outcome(lambda *v: coupled_lstm(*v, None, kept), leaves[:4]), expected, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(lambda *v: coupled_lstm(*v, None, kept), leaves[:4])
    torch.testing.assert_close(
        outcome(lambda *v: coupled_loop(*v, lambda z: z, None, kept), leaves[:4]), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("index", [[0, 1, 1, 1, 0, 1, 1], [3, 0, 2, 1, 4, 6, 5]], ids=["groups", "streams"])
def test_positions_of_one_context_are_streams_of_it(index):
    index = torch.tensor(index)
    leaves = values(5, 7, 4, 3, 7)
    streams, positions = (
        outcome(lambda *v, of=of: coupled_lstm(*v[:4], Factor(*v[4:], of)), leaves) for of in (index, index.expand(5, 7))
    )
    torch.testing.assert_close(streams, positions, rtol=0, atol=1e-12)


def test_what_nobody_has_has_no_gradient():
    leaves = values(3, 4, 3, 2, 5)
    for index in (torch.tensor([1, 1, 3, 1]), torch.tensor([[1, 1, 3, 1]] * 3)):
        _, _, grads = outcome(lambda *v, index=index: coupled_lstm(*v[:4], Factor(*v[4:], index)), leaves)
        for name in ("left", "right"):
            assert [bool(grad.any()) for grad in grads[name]] == [False, True, False, True, False]


@pytest.mark.parametrize("index", [[2, 0, 2], [[2, 0, 2], [2, 1, 1], [0, 0, 0], [2, 2, 2]]], ids=["streams", "positions"])
def test_products_with_the_matrix_of_a_position(index):
    torch.manual_seed(0)
    index = torch.tensor(index)
    x, matrices = (torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in ((4, 3, 5), (4, 5, 2)))
    found = products_at(x, matrices, index)
    for t, b in itertools.product(range(4), range(3)):
        own = matrices[index[b] if index.dim() == 1 else index[t, b]]
        torch.testing.assert_close(found[t, b], x[t, b] @ own, rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(lambda *v: products_at(*v, index), (x, matrices))
