"""Rows that move together."""

import pytest
import torch

from fairseq_groc.modules.drift import DriftingRows


def drifting(rows=400, columns=12, rank=3, noise=0.0, dtype=torch.double):
    torch.manual_seed(2)
    low = torch.randn(rows, rank, dtype=torch.double) @ torch.randn(rank, columns, dtype=torch.double)
    before = low + noise * torch.randn(rows, columns, dtype=torch.double) + 1
    return before, DriftingRows(before.to(dtype).clone(), torch.Generator().manual_seed(1))


def dense(kept):
    return kept.times(torch.eye(kept.rows.size(1), dtype=kept.movement.dtype))


def test_products_are_those_of_the_rows():
    before, kept = drifting(noise=0.3)
    torch.testing.assert_close(dense(kept), before, rtol=0, atol=1e-12)
    kept.renew(torch.arange(0, 400, 3), before[::3] * 1.5 + torch.randn(134, 12, dtype=torch.double))
    rows, weight, grad = dense(kept), torch.randn(5, 12, dtype=torch.double), torch.randn(400, 5, dtype=torch.double)
    torch.testing.assert_close(kept.times(weight), rows @ weight.t(), rtol=0, atol=1e-11)
    torch.testing.assert_close(kept.times_transposed(grad), grad.t() @ rows, rtol=0, atol=1e-10)


def test_renewed_rows_are_what_they_were_said_to_be():
    _, kept = drifting(noise=1.0)
    for step in range(5):
        which = torch.arange(step, 400, 7)
        now = torch.randn(len(which), 12, dtype=torch.double)
        kept.renew(which, now)
        torch.testing.assert_close(dense(kept)[which], now, rtol=0, atol=1e-12)


def test_the_others_follow_a_movement_of_all():
    """All rows move by an affine map of their components; only some are looked at."""
    before, kept = drifting()
    now = before
    for step in range(3):
        now = now * 1.1 + 0.3
        which = torch.arange(step, 400, 5)
        kept.renew(which, now[which])
    left = (dense(kept) - now).norm() / (before - now).norm()
    assert left < 0.15  # the ridge holds back 10 in 80 observations of the last step


def test_one_row_alone_moves_the_others_little():
    before, kept = drifting(noise=1.0)
    kept.renew(torch.tensor([7]), before[7:8] + 10)
    others = torch.arange(400) != 7
    assert (dense(kept) - before)[others].norm(dim=1).mean() < 0.5 * 10 * 12**0.5


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_and_rows_alike(rows):
    kept = DriftingRows(torch.ones(rows, 4), torch.Generator().manual_seed(1))
    kept.renew(torch.tensor([0]), torch.full((1, 4), 3.0))
    assert dense(kept).isfinite().all()
    torch.testing.assert_close(dense(kept)[0], torch.full((4,), 3.0))


def test_half_precision_keeps_rows_small_and_close():
    before, kept = drifting(noise=0.3, dtype=torch.bfloat16)
    assert kept.rows.dtype == torch.bfloat16 and kept.movement.dtype == torch.float32
    kept.renew(torch.arange(0, 400, 3), (before[::3] + 0.5).bfloat16())
    expected = torch.where((torch.arange(400) % 3 == 0)[:, None], before + 0.5, dense(kept).double())
    assert (dense(kept) - expected).norm() <= 1e-2 * before.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_and_gradients_in_half_precision(dtype):
    before, kept = drifting(noise=0.3, dtype=dtype)
    kept.renew(torch.arange(0, 400, 3), (before[::3] + 0.5).to(dtype))
    rows, weight, grad = dense(kept).double(), torch.randn(5, 12).to(dtype), torch.randn(400, 5).to(dtype)
    for product, expected in (
        (kept.times(weight), rows @ weight.double().t()),
        (kept.times_transposed(grad), grad.double().t() @ rows),
    ):
        assert product.dtype == dtype and (product.double() - expected).norm() <= 2e-2 * expected.norm()
