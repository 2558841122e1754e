"""Mixtures over the words that may be predicted."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_groc.dictionary import predictable_words
from fairseq_groc.modules.probabilities import masked_bias, uniform_mixture

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "madeupword0000"]
IMPOSSIBLE = ~torch.tensor(predictable_words(WORDS))


def test_a_masked_bias_passes_no_gradient_and_no_nan():
    bias = torch.zeros(8, requires_grad=True)
    torch.log_softmax(masked_bias(bias, IMPOSSIBLE), -1)[4].backward()
    expected = torch.where(IMPOSSIBLE, 0.0, -1 / 5)
    expected[4] += 1
    torch.testing.assert_close(bias.grad, expected, rtol=0, atol=1e-7)


def test_uniform_mixture_by_hand():
    words = torch.tensor([False, True, True, True, True])
    lprobs = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]).log()  # holds -inf
    mixed = uniform_mixture(lprobs, 0.2, words).exp()
    expected = torch.tensor(
        [[0.8 * 0.5, 0.8 * 0.5 + 0.2 / 4, 0.2 / 4, 0.2 / 4, 0.2 / 4], [0.0, 0.2 / 4, 0.2 / 4, 0.2 / 4, 0.8 + 0.2 / 4]]
    )
    torch.testing.assert_close(mixed, expected, rtol=1e-6, atol=0)


@given(weight=st.floats(1e-8, 1 - 1e-6))
def test_uniform_mixture_is_a_distribution(weight):
    torch.manual_seed(0)
    words = torch.ones(1000, dtype=torch.bool)
    words[:4] = False
    lprobs = torch.log_softmax(torch.randn(2, 3, 1000) * 30 + masked_bias(torch.zeros(1000), ~words), -1)
    mixed = uniform_mixture(lprobs, weight, words)
    assert mixed.shape == lprobs.shape and not mixed.isnan().any()
    assert (mixed.double().exp().sum(-1) - 1).abs().max() <= 1e-6
    assert mixed[..., 4:].isfinite().all() and mixed[..., :4].eq(float("-inf")).all()
    assert (mixed[..., 4:].exp() >= weight / 996 * (1 - 1e-5)).all()
