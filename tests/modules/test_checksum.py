import pytest
import torch

from fairseq_groc.modules.checksum import SMALL, Checksum

SIZES = [(), (7,), (5, 5), (3, 4, 5), (300, 300), (SMALL + 1,), (SMALL + 1, 1), (70, 10, 100)]


@pytest.fixture(params=SIZES, ids=str)
def tensor(request):
    return torch.randn(request.param, generator=torch.Generator().manual_seed(1))


def changes_of(tensor):
    flat = tensor.flatten()
    yield "none but a copy", tensor.clone(), True
    yield "negated", -tensor, False
    first, last = flat.clone(), flat.clone()
    first[0] += 0.5
    last[-1] += 0.5
    yield "first number", first.view_as(tensor), False
    yield "last number", last.view_as(tensor), False
    if tensor.numel() > 1:
        yield "reversed", flat.flip(0).view_as(tensor), False
        yield "first two exchanged", torch.cat([flat[[1, 0]], flat[2:]]).view_as(tensor), False
    if tensor.dim() == 2 and len(tensor) == tensor.shape[1]:
        yield "transposed", tensor.t().contiguous(), False


def test_differs_after_any_change_alone(tensor):
    checksum = Checksum()
    before = checksum([tensor])
    for name, changed, same in changes_of(tensor):
        assert (checksum([changed]) == before) == same, name


def test_is_the_weighted_sum(tensor):
    places = [torch.arange(1, n + 1, dtype=torch.float64) for n in (tensor.numel(), len(tensor) if tensor.dim() else 1)]
    if tensor.numel() <= SMALL:
        weights = places[0].cos()
    else:
        columns = tensor.numel() // len(tensor)
        weights = torch.outer(places[1].sin(), places[0][:columns].cos()).flatten()
    [found] = Checksum()([tensor])
    assert found == pytest.approx(float(tensor.double().flatten() @ weights), rel=1e-4, abs=1e-3)


def test_of_many_in_their_order(tensor):
    checksum = Checksum()
    a, b = checksum([tensor]), checksum([torch.ones(3)])
    assert checksum([tensor, torch.ones(3)]) == a + b
    assert checksum([]) == []


def test_autocast_changes_nothing(tensor):
    checksum = Checksum()
    before = checksum([tensor])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert checksum([tensor]) == before
