import pytest
import torch

from fairseq_groc.errors import OptionError
from fairseq_groc.modules.dropout import VariationalDropout, word_dropout


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


def test_the_type_is_kept():
    assert VariationalDropout(0.5, (0,))(torch.ones(2, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_a_rate_that_is_none_is_refused(p):
    with pytest.raises(OptionError, match="expected a number from 0 to below 1"):
        VariationalDropout(p, shared=(0,))


def test_a_word_is_there_at_all_its_places_or_at_none():
    torch.manual_seed(0)
    tokens, x = torch.randint(50, (7, 9)), torch.randn(7, 9, 3)
    found = word_dropout(x, tokens, 50, 0.4)
    for word in tokens.unique():
        here = tokens == word
        assert torch.allclose(found[here], x[here] / 0.6, atol=1e-6) or not found[here].any()
    assert not torch.equal(found, word_dropout(x, tokens, 50, 0.4))


def test_its_mean_is_the_embedding():
    torch.manual_seed(0)
    tokens, x, count = torch.arange(4), torch.randn(4, 2, dtype=torch.double), 20_000
    mean = sum(word_dropout(x, tokens, 4, 0.3) for _ in range(count)) / count
    torch.testing.assert_close(mean, x, rtol=5 * (0.3 / 0.7 / count) ** 0.5, atol=0)  # five standard deviations
