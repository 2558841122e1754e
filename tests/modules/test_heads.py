import pytest
import torch
from torch import nn

from fairseq_groc.modules.dropout import VariationalDropout
from fairseq_groc.modules.heads import (
    CompositionalOutput,
    LookupOutput,
    TiedOutput,
    is_filler,
    masked_bias,
    predictable_words,
    uniform_mixture,
)
from fairseq_groc.modules.rows import WordRows
from fairseq_groc.modules.softmax_layer import WordMatrices

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "madeupword0000"]


def test_only_words_eos_and_unk_are_predictable():
    assert predictable_words(WORDS) == [False, False, True, True, True, True, True, False]
    assert is_filler("madeupword0001") and not is_filler("madeupwordish") and not is_filler("madeupword")


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_probabilities_sum_to_one_with_masked_words_and_large_biases(scale):
    torch.manual_seed(0)
    impossible = ~torch.tensor(predictable_words(WORDS))
    logits = torch.randn(5, 8) + masked_bias(scale * torch.randn(8), impossible)
    probabilities = logits.softmax(-1)
    assert (probabilities.sum(-1) - 1).abs().max() <= 1e-6
    assert probabilities[:, impossible].eq(0).all()


def test_uniform_mixture_is_a_distribution_by_hand():
    words = torch.tensor([False, True, True, True, True])
    lprobs = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0]]).log()
    mixed = uniform_mixture(lprobs, 0.2, words).exp()
    expected = torch.tensor([[0.8 * 0.5, 0.8 * 0.5 + 0.2 / 4, 0.2 / 4, 0.2 / 4, 0.2 / 4]])
    torch.testing.assert_close(mixed, expected, rtol=1e-6, atol=0)
    assert abs(mixed.sum() - 1) <= 1e-6


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_compositional_output_is_equation_4_and_5(depth):
    torch.manual_seed(0)
    head, embeddings = CompositionalOutput(6, depth, "selu", 0.5, "tanh").eval(), torch.randn(9, 6)
    expected = embeddings
    for linear, activation in head.layers:
        expected = activation(expected @ linear.weight.t() + linear.bias) + embeddings
    outputs, bias = head(embeddings)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(bias, torch.tanh(expected @ head.bias.weight[0] + head.bias.bias))
    assert sum(p.numel() for p in head.parameters()) == depth * (36 + 6) + 6 + 1


def test_parameter_counts_of_the_baselines():
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    assert count(TiedOutput(WORDS)) == 8
    assert count(LookupOutput(WORDS, 5)) == 8 * (5 + 1)


def test_rows_move_by_word_and_new_words_are_unknown():
    old, new = WordRows(["a", "b", "c"], 2), WordRows(["c", "new", "a"], 2)
    old.weight.data.copy_(torch.tensor([[1.0, 1], [2, 2], [3, 3]]))
    state = old.state_dict()
    new.upgrade_state_dict_named(state, "")
    new.load_state_dict(state, strict=True)
    assert new.weight.tolist() == [[3, 3], [0, 0], [1, 1]]
    assert new.unknown().tolist() == [False, True, False]
    new.train()
    assert new.unknown() is None  # from here on the row is trained


def test_rows_tolerate_a_state_without_words():
    rows = WordRows(["a", "b"], 1)
    state = {"weight": torch.ones(2, 1)}
    rows.upgrade_state_dict_named(state, "")
    rows.load_state_dict(state, strict=True)
    assert rows.weight.tolist() == [[1], [1]]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))
        self.calls = 0

    def forward(self, vocabulary):
        self.calls += 1
        return self.weight * 2


def test_matrices_are_kept_in_evaluation_and_never_stale():
    embedding = Counting()
    matrices = WordMatrices(embedding, CompositionalOutput(3, 0, "relu", 0, "identity"), nn.Module(), torch.zeros(4).bool())
    matrices.eval()

    def fresh():
        return embedding.weight.detach() * 2

    changes = [
        lambda: None,
        lambda: embedding.weight.data.mul_(2),
        lambda: torch.optim.SGD(embedding.parameters(), 1.0).step(),
        lambda: matrices.load_state_dict({k: v + 1 if torch.is_tensor(v) else v for k, v in matrices.state_dict().items()}),
    ]
    embedding.weight.grad = torch.ones(4, 3)
    with torch.no_grad():
        for change in changes:
            change()
            calls = embedding.calls
            torch.testing.assert_close(matrices()[0], fresh(), rtol=0, atol=0)
            torch.testing.assert_close(matrices()[0], fresh(), rtol=0, atol=0)
            assert embedding.calls == calls + 1  # once after each change
    matrices.train()
    calls = embedding.calls
    matrices(), matrices()
    assert embedding.calls == calls + 2


def test_variational_dropout_shares_its_mask():
    torch.manual_seed(0)
    x = torch.ones(50, 40)
    dropped = VariationalDropout(0.5, shared=(0,))(x)
    assert torch.equal(dropped, dropped[:1].expand(50, 40)) and set(dropped.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(VariationalDropout(0.5, shared=(0,)).eval()(x), x)
