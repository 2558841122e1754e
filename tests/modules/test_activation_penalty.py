import torch

from fairseq_groc.modules.activation_penalty import activation_penalty

ALPHA, BETA = 2.0, 1.0


def by_hand(h, last, real):
    total = 0
    for b, length in enumerate(real.sum(1).tolist()):
        squares = [h[b, t].square().mean() for t in range(length)]
        changes = [(last[b, t + 1] - last[b, t]).square().mean() for t in range(length - 1)]
        total += length * (ALPHA * sum(squares) / length + BETA * sum(changes) / max(1, length - 1))
    return total / real.sum()


def test_it_is_the_mean_over_real_places_and_pairs_of_them():
    h, last = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    penalty = activation_penalty(h, last, real, ALPHA, BETA)
    torch.testing.assert_close(penalty, by_hand(h, last, real), rtol=1e-6, atol=0)
    of_h, of_last = torch.autograd.grad(penalty, [h, last])
    assert of_h[~real].eq(0).all() and of_h[real].ne(0).all()
    assert of_last[~real].eq(0).all() and of_last[real].any(1).tolist() == [True] * 7 + [False]  # a row of one token


def test_it_is_that_of_parts_by_their_tokens():
    """So several workers, and several blocks an update, add what one worker adds with one block."""
    h, last = torch.randn(2, 4, 6, 3, generator=torch.Generator().manual_seed(1))
    real = torch.arange(6) < torch.tensor([[6], [5], [6], [1]])
    parts = [slice(0, 1), slice(1, 4)]
    expected = sum(real[p].sum() * activation_penalty(h[p], last[p], real[p], ALPHA, BETA) for p in parts) / real.sum()
    torch.testing.assert_close(activation_penalty(h, last, real, ALPHA, BETA), expected, rtol=1e-6, atol=0)
    whole = torch.ones(4, 6).bool()  # without padding it is the mean over all places, and all pairs
    plain = ALPHA * h.square().mean() + BETA * (last[:, 1:] - last[:, :-1]).square().mean()
    torch.testing.assert_close(activation_penalty(h, last, whole, ALPHA, BETA), plain, rtol=1e-6, atol=0)


def test_of_rounded_encodings_it_is_not_rounded():
    h, last = torch.randn(2, 4, 6, 3, generator=torch.Generator().manual_seed(1)).bfloat16()
    real = torch.ones(4, 6).bool()
    expected = activation_penalty(h.float(), last.float(), real, ALPHA, BETA)
    assert torch.equal(activation_penalty(h, last, real, ALPHA, BETA), expected)


def test_one_token_has_no_change_and_padding_alone_no_penalty():
    h = torch.full((2, 1, 4), 3.0)
    assert activation_penalty(h, h, torch.ones(2, 1).bool(), ALPHA, BETA) == ALPHA * 9
    assert activation_penalty(h, h, torch.zeros(2, 1).bool(), ALPHA, BETA) == 0
