import pytest
import torch
from equations import naive

from fairseq_groc.encoders.lstm import LSTMEncoder, run


def encoder(layers=2, dropout=0.0, dropout_in=0.0, dropout_out=0.0):
    torch.manual_seed(0)
    return LSTMEncoder(5, 7, layers, dropout, dropout_in, dropout_out).double()


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(11, 3, 5, dtype=torch.double)  # (T, B, d)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_equals_the_equations(x, layers):
    module = encoder(layers)
    h, last, state = module(x)
    torch.testing.assert_close(h, naive(module, x, [lstm.weight_hh_l0 for lstm in module.layers]), rtol=0, atol=1e-12)
    sizes = [7] * (layers - 1) + [5]
    assert [(a.shape, c.shape) for a, c in state] == [((1, 3, size), (1, 3, size)) for size in sizes]
    assert torch.equal(state[-1][0][0], h[-1]) and h is last and module.width == 5


@pytest.mark.parametrize("given", [False, True])
def test_each_layer_is_pytorchs_to_the_bit(x, given):
    lstm = torch.nn.LSTM(5, 7).double()
    state = (torch.randn(1, 3, 7, dtype=torch.double), torch.randn(1, 3, 7, dtype=torch.double)) if given else None
    expected, (h, c) = lstm(x, state)
    random = torch.random.get_rng_state()
    assert all(torch.equal(a, b) for a, b in zip(run(lstm, x, state and list(state), 0.0), (expected, h, c), strict=True))
    assert torch.equal(torch.random.get_rng_state(), random)  # nor are numbers drawn


def test_no_state_is_the_zero_state(x):
    module = encoder()
    zero = [(torch.zeros_like(h), torch.zeros_like(c)) for h, c in module(x)[2]]
    assert torch.equal(module(x, zero)[0], module(x)[0])


def test_dropout_out_is_one_mask_over_time(x):
    dropped, plain, _ = encoder(dropout_out=0.5)(x)
    assert torch.equal(plain, encoder()(x)[0])
    mask = dropped / plain
    torch.testing.assert_close(mask, mask[:1].expand_as(mask))
    assert set(mask.round().unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("where", ["dropout", "dropout_in", "dropout_out"])
def test_each_dropout_acts_in_training_alone(x, where):
    module = encoder(**{where: 0.5})
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], encoder()(x)[0])
