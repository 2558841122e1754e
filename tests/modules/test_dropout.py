import pytest
import torch

from fairseq_groc.errors import OptionError
from fairseq_groc.modules.dropout import VariationalDropout, drop_words


@pytest.mark.parametrize("shared", [(), (0,), (1,), (0, 1), (0, 2)])
def test_one_mask_along_the_shared_dimensions(shared):
    torch.manual_seed(0)
    dropped = VariationalDropout(0.5, shared)(torch.ones(6, 7, 40))
    for dim in range(3):
        constant = torch.equal(dropped, dropped.narrow(dim, 0, 1).expand_as(dropped))
        assert constant == (dim in shared)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_the_expectation_is_the_input(p):
    torch.manual_seed(0)
    dropped = VariationalDropout(p, (0,))(torch.ones(1, 400_000))
    error = (p / (1 - p) / 400_000) ** 0.5  # one standard error of the mean
    assert abs(dropped.mean().item() - 1) <= 4 * error
    assert abs(dropped.eq(0).float().mean().item() - p) <= 4 * (p * (1 - p) / 400_000) ** 0.5


def test_a_new_mask_every_time():
    torch.manual_seed(0)
    dropout, x = VariationalDropout(0.5, (0,)), torch.ones(2, 100)
    assert not torch.equal(dropout(x), dropout(x))


def test_nothing_is_dropped_in_evaluation_or_at_rate_0():
    x = torch.randn(5, 6)
    assert torch.equal(VariationalDropout(0.5, (0,)).eval()(x), x)
    assert torch.equal(VariationalDropout(0.0, (0,))(x), x)


def test_gradients_go_through_the_same_mask():
    x = torch.ones(5, 6, requires_grad=True)
    dropped = VariationalDropout(0.5, (0,))(x)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())


def test_the_type_is_kept_and_the_rate_is_not_rounded_to_it():
    torch.manual_seed(0)
    dropped = VariationalDropout(0.1, ())(torch.ones(4_000_000, dtype=torch.bfloat16))
    assert dropped.dtype == torch.bfloat16
    assert abs(dropped.eq(0).float().mean().item() - 0.1) <= 4 * (0.1 * 0.9 / 4_000_000) ** 0.5


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_a_rate_that_is_none_is_refused(p):
    with pytest.raises(OptionError, match="expected a number from 0 to below 1"):
        VariationalDropout(p, shared=(0,))


def test_a_word_is_dropped_at_all_its_places_or_at_none():
    torch.manual_seed(0)
    table, words = torch.rand(20, 3) + 1, torch.randint(0, 20, (7, 40))
    rows = drop_words(table[words], words, 20, 0.25)
    factors = [(rows[words == word] / table[word]).unique() for word in words.unique()]
    assert all(len(factor.mul(3).round().unique()) == 1 for factor in factors)  # of every number at every place
    found = torch.stack([factor[0] for factor in factors])
    torch.testing.assert_close(found.unique(), torch.tensor([0, 4 / 3]))


def test_words_are_expected_to_be_themselves():
    torch.manual_seed(0)
    words, p = torch.arange(400_000), 0.1
    dropped = drop_words(torch.ones(400_000, 1), words, 400_000, p)
    assert abs(dropped.mean().item() - 1) <= 4 * (p / (1 - p) / 400_000) ** 0.5
    assert drop_words(torch.ones(1, 2, dtype=torch.bfloat16), words[:1], 1, p).dtype == torch.bfloat16


def test_the_gradient_of_a_word_that_is_dropped_is_0():
    torch.manual_seed(0)
    table = torch.ones(50, 2, requires_grad=True)
    words = torch.arange(50).repeat(3)
    rows = drop_words(table[words], words, 50, 0.5)
    rows.sum().backward()
    assert torch.equal(table.grad, rows[:50].detach() * 3) and set(table.grad.unique().tolist()) == {0.0, 6.0}
