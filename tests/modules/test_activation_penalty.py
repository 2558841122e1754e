import torch

from fairseq_groc.modules.activation_penalty import activation_penalty

ALPHA, BETA = 2.0, 1.0


def by_hand(h, last, real):
    squares = [h[b, t].square().mean() for b in range(h.size(0)) for t in range(h.size(1)) if real[b, t]]
    pairs = [(b, t) for b in range(h.size(0)) for t in range(h.size(1) - 1) if real[b, t] and real[b, t + 1]]
    changes = [(last[b, t + 1] - last[b, t]).square().mean() for b, t in pairs]
    return ALPHA * sum(squares) / len(squares) + BETA * sum(changes) / len(changes)


def test_it_is_the_mean_over_real_places_and_pairs_of_them():
    h, last = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    penalty = activation_penalty(h, last, real, ALPHA, BETA)
    torch.testing.assert_close(penalty, by_hand(h, last, real), rtol=1e-6, atol=0)
    of_h, of_last = torch.autograd.grad(penalty, [h, last])
    assert of_h[~real].eq(0).all() and of_h[real].ne(0).all()
    assert of_last[~real].eq(0).all() and of_last[real].any(1).tolist() == [True] * 7 + [False]  # a row of one token


def test_one_token_has_no_change_and_padding_alone_no_penalty():
    h = torch.full((2, 1, 4), 3.0)
    assert activation_penalty(h, h, torch.ones(2, 1).bool(), ALPHA, BETA) == ALPHA * 9
    assert activation_penalty(h, h, torch.zeros(2, 1).bool(), ALPHA, BETA) == 0
