import pytest
import torch

from fairseq_groc.modules.heads import (
    ACTIVATIONS,
    CompositionalOutput,
    LookupOutput,
    TiedOutput,
    is_filler,
    masked_bias,
    predictable_words,
    uniform_mixture,
)

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


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("head", ["compositional", "tied", "lookup"])
def test_probabilities_sum_to_one(scale, head):
    torch.manual_seed(0)
    dim, embeddings = 6, torch.randn(8, 6)
    module = {
        "compositional": lambda: CompositionalOutput(dim, 2, "relu", 0.0, "identity"),
        "tied": lambda: TiedOutput(WORDS),
        "lookup": lambda: LookupOutput(WORDS, dim),
    }[head]()
    for parameter in module.parameters():
        parameter.data.uniform_(-1, 1)
    outputs, bias = module(embeddings)
    assert outputs.shape == (8, dim) and bias.shape == (8,)
    bias = masked_bias(bias + scale * torch.tensor([1.0, 1, -1, 1, -1, 1, -1, 1]), IMPOSSIBLE)
    probabilities = (torch.randn(50, dim) @ outputs.t() + bias).softmax(-1)
    assert (probabilities.double().sum(-1) - 1).abs().max() <= 1e-6
    assert probabilities[:, IMPOSSIBLE].eq(0).all() and not probabilities.isnan().any()


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


@pytest.mark.parametrize("weight", [1e-8, 1e-3, 0.5, 1 - 1e-6])
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


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("activation", ["relu", "selu", "tanh", "sigmoid"])
def test_compositional_output_is_equation_4_and_5(depth, activation):
    torch.manual_seed(0)
    head = CompositionalOutput(6, depth, activation, 0.5, "tanh").double().eval()
    embeddings = torch.randn(9, 6, dtype=torch.double)
    expected = embeddings
    for linear, _ in head.layers:
        expected = getattr(torch, activation)(expected @ linear.weight.t() + linear.bias) + embeddings
    outputs, bias = head(embeddings)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(bias, torch.tanh(expected @ head.bias.weight[0] + head.bias.bias), rtol=0, atol=1e-12)
    assert sum(p.numel() for p in head.parameters()) == depth * (36 + 6) + 6 + 1


def test_depth_0_is_the_identity():
    embeddings = torch.randn(9, 6)
    outputs, bias = CompositionalOutput(6, 0, "relu", 0.5, "identity")(embeddings)
    assert torch.equal(outputs, embeddings)
    assert bias.shape == (9,)


def test_one_word_keeps_its_dimension():
    outputs, bias = CompositionalOutput(6, 1, "relu", 0.0, "identity")(torch.randn(1, 6))
    assert outputs.shape == (1, 6) and bias.shape == (1,)


def test_dropout_lies_between_layers_with_one_mask_for_all_words():
    torch.manual_seed(0)
    embeddings = torch.ones(5, 64)  # equal words stay equal under a shared mask
    single = CompositionalOutput(64, 1, "relu", 0.5, "identity")
    assert torch.equal(single(embeddings)[0], single(embeddings)[0])  # one layer: nothing between
    double = CompositionalOutput(64, 2, "relu", 0.5, "identity")
    first, second = double(embeddings)[0], double(embeddings)[0]
    assert not torch.equal(first, second)
    torch.testing.assert_close(first, first[:1].expand(5, 64), rtol=0, atol=1e-6)


def test_gradients_in_double_precision():
    torch.manual_seed(0)
    head = CompositionalOutput(3, 2, "tanh", 0.0, "sigmoid").double()
    embeddings = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: head(x), [embeddings, *head.parameters()])


def test_the_baselines():
    embeddings = torch.randn(8, 5)
    tied, lookup = TiedOutput(WORDS), LookupOutput(WORDS, 5)
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    assert count(tied) == 8 and count(lookup) == 8 * (5 + 1)
    assert tied(embeddings)[0] is embeddings
    assert lookup(embeddings)[0] is lookup.rows.weight
    assert tied.unknown() is None and lookup.unknown() is None
    assert CompositionalOutput(5, 0, "relu", 0.0, "identity").unknown() is None


def test_activations_are_those_of_the_paper():
    assert set(ACTIVATIONS) == {"identity", "relu", "selu", "tanh", "sigmoid"}
