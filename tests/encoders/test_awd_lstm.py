"""Recurrent weights that are dropped: what is dropped, when, and that nothing else changes. T: time; B: streams; d: size."""

import copy
import pickle

import pytest
import torch

from fairseq_groc.encoders import AWDLSTMEncoder, LSTMEncoder

D, H, T, B = 4, 6, 5, 3
SIZES = dict(dim=D, hidden=H, layers=2, dropout=0.0, dropout_in=0.0, dropout_out=0.0)


@pytest.fixture
def x():
    return torch.randn(T, B, D, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def awd(weight_dropout=0.5, **more):
    torch.manual_seed(0)
    return AWDLSTMEncoder(**{**SIZES, **more}, weight_dropout=weight_dropout).double()


def plain(encoder, **more):
    """Return an LSTM encoder of the same weights."""
    other = LSTMEncoder(**{**SIZES, **more}).double()
    other.load_state_dict(encoder.state_dict())
    return other.train(encoder.training)


def assert_same(one, other):
    for a, b in zip(one[:2], other[:2], strict=True):
        assert torch.equal(a, b)
    assert all(torch.equal(a, b) for i in range(2) for a, b in zip(one[2][i], other[2][i], strict=True))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_without_dropout_it_is_the_lstm_to_the_bit(x, training, gradients):
    encoder = awd(0.0 if training else 0.5).train(training)
    with torch.set_grad_enabled(gradients):
        first, second = encoder(x), plain(encoder)(x)
        assert_same(first, second)
        assert_same(encoder(x, first[2]), plain(encoder)(x, [tuple(state) for state in second[2]]))


def test_a_block_in_training_has_one_mask_that_its_first_step_does_not_see(x):
    encoder = awd().train()
    first, second = encoder(x)[0], encoder(x)[0]
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=0)  # h of before is zero
    assert all(not torch.equal(first[t], second[t]) for t in range(1, T))


def naive(encoder, x, masks):
    """Run the layers step by step and stream by stream, with the recurrent weights times their masks."""
    for lstm, mask in zip(encoder.layers, masks, strict=True):
        outputs = torch.zeros(T, B, lstm.hidden_size, dtype=x.dtype)
        for stream in range(B):
            h = c = torch.zeros(lstm.hidden_size, dtype=x.dtype)
            for t in range(T):
                gates = lstm.weight_ih_l0 @ x[t, stream] + (lstm.weight_hh_l0 * mask) @ h + lstm.bias_ih_l0 + lstm.bias_hh_l0
                i, f, g, o = gates.view(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = outputs[t, stream] = o.sigmoid() * c.tanh()
        x = outputs
    return x


def test_masks_are_the_same_at_all_times_and_in_all_streams(x):
    encoder, drawn = awd().train(), []
    torch.manual_seed(5)
    found = encoder(x)[0]
    torch.manual_seed(5)
    for lstm in encoder.layers:
        drawn.append(torch.nn.functional.dropout(torch.ones_like(lstm.weight_hh_l0), 0.5))
    assert all(set(mask.unique().tolist()) == {0, 2} for mask in drawn)
    torch.testing.assert_close(found, naive(encoder, x, drawn), rtol=0, atol=1e-12)


def test_a_weight_that_is_dropped_has_no_gradient_and_the_others_are_trained(x):
    encoder = awd().train()
    torch.manual_seed(5)
    encoder(x)[0].square().sum().backward()
    torch.manual_seed(5)
    for lstm in encoder.layers:
        kept = torch.nn.functional.dropout(torch.ones_like(lstm.weight_hh_l0), 0.5) > 0
        assert torch.equal(lstm.weight_hh_l0.grad != 0, kept)
    before = [lstm.weight_hh_l0.detach().clone() for lstm in encoder.layers]
    torch.optim.SGD(encoder.parameters(), lr=1.0).step()
    assert all(not torch.equal(a, lstm.weight_hh_l0) for a, lstm in zip(before, encoder.layers, strict=True))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda encoder: pickle.loads(pickle.dumps(encoder)), lambda e: e.float().double()]
)
def test_copies_drop_weights_as_well(x, copied):
    encoder = copied(awd()).train()
    assert not torch.equal(encoder(x)[0], encoder(x)[0])
    loaded = awd().train()
    loaded.load_state_dict(encoder.state_dict())
    assert not torch.equal(loaded(x)[0], loaded(x)[0])
    assert set(loaded.state_dict()) == set(plain(loaded).state_dict())  # parameters have the LSTM's names
    assert_same(loaded.eval()(x), plain(encoder.eval())(x))


def test_training_leaves_the_weights_themselves_alone(x):
    encoder = awd().train()
    before = copy.deepcopy(encoder.state_dict())
    encoder(x)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_the_last_layer_may_have_another_width_and_layers_begin_as_pytorchs(x):
    encoder = awd(width=7)
    encoder.begin(100.0)
    h, last, state = encoder.eval()(x)
    assert encoder.width == 7 and h.shape == last.shape == (T, B, 7) and state[-1][0].shape == (1, B, 7)
    assert all(p.abs().max() <= lstm.hidden_size**-0.5 for lstm in encoder.layers for p in lstm.parameters())
