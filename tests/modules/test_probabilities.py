"""Which words may be predicted, and mixtures over them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_groc.dictionary import is_filler, predictable_words
from fairseq_groc.modules.probabilities import masked_bias, uniform_mixture

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "madeupword0000"]
IMPOSSIBLE = ~torch.tensor(predictable_words(WORDS))


def test_only_words_eos_and_unk_are_predictable():
    assert predictable_words(WORDS) == [False, False, True, True, True, True, True, False]
    assert predictable_words(["<s>", "<pad>", "</s>", "<unk>"]) == [False, False, True, True]


@pytest.mark.parametrize(
    "word, filler",
    [
        ("madeupword0000", True),
        ("madeupword0007", True),
        ("madeupword", False),
        ("madeupword12", False),
        ("madeupword00000", False),
        ("madeupwordish", False),
        ("madeupwordabcd", False),
        ("Madeupword0000", False),
        ("xmadeupword0000", False),
        ("", False),
    ],
)
def test_fillers_are_what_fairseq_makes(word, filler):
    assert is_filler(word) is filler


def test_fillers_of_fairseqs_own_dictionary_are_recognised(dictionary):
    dictionary.finalize(padding_factor=64)
    assert len(dictionary) % 64 == 0
    made_up = [word for word in dictionary.symbols if word.startswith("madeupword")]
    assert made_up and all(map(is_filler, made_up))
    assert sum(predictable_words(dictionary.symbols)) == 2 + 400


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
        [
            [0.8 * 0.5, 0.8 * 0.5 + 0.2 / 4, 0.2 / 4, 0.2 / 4, 0.2 / 4],
            [0.0, 0.2 / 4, 0.2 / 4, 0.2 / 4, 0.8 + 0.2 / 4],
        ]
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
