import copy
import io
import itertools
import warnings

import pytest
import torch
from equations import naive
from fairseq.distributed import LegacyDistributedDataParallel
from torch import nn

from fairseq_groc.encoders.awd_lstm import AWDLSTMEncoder
from fairseq_groc.encoders.lstm import LSTMEncoder, run

PLAIN = dict(dim=5, hidden=7, layers=3, dropout=0.0, dropout_in=0.0, dropout_out=0.0)


def encoder(p=0.5, **options):
    torch.manual_seed(0)
    return AWDLSTMEncoder(**{**PLAIN, **options}, weight_dropout=p).double()


def plain(**options):
    torch.manual_seed(0)
    return LSTMEncoder(**{**PLAIN, **options}).double()


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(11, 3, 5, dtype=torch.double)  # (T, B, d)


def gradients(module, h):
    names, parameters = zip(*module.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(h.square().sum(), parameters), strict=True))


def result(module, x):
    """Return h, what it was before dropout, the state and all gradients of a pass, and the random number after it."""
    torch.manual_seed(2)
    h, last, state = module(x)
    return h, last, state, gradients(module, h), torch.rand(1)


@pytest.mark.parametrize("rates", [{}, dict(dropout=0.3, dropout_in=0.2, dropout_out=0.4)], ids=["no dropout", "dropout"])
def test_without_weight_dropout_it_is_the_plain_lstm_to_the_bit(x, rates):
    torch.testing.assert_close(result(encoder(0.0, **rates), x), result(plain(**rates), x), rtol=0, atol=0)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("p", [0.1, 0.9])
def test_in_evaluation_it_is_the_plain_lstm_to_the_bit(x, p, grad):
    module = encoder(p, dropout=0.3, dropout_in=0.2, dropout_out=0.4).eval()
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(module(x), plain().eval()(x), rtol=0, atol=0)
    assert module(x)[0].requires_grad


def test_in_training_calls_differ_but_not_in_the_first_step_of_a_text(x):
    module = encoder()
    first, second = module(x)[0], module(x)[0]
    assert torch.equal(first[0], second[0])  # h before it is 0
    assert all(not torch.equal(a, b) for a, b in zip(first[1:], second[1:], strict=True))
    state = [(torch.ones_like(h), c) for h, c in module(x)[2]]
    assert not torch.equal(module(x, state)[0][0], module(x, state)[0][0])


@pytest.mark.parametrize("p", [0.3, 0.8])
def test_a_block_is_read_with_one_mask_and_what_is_dropped_has_no_gradient(x, p):
    """The mask is where the gradient is 0; the equations with it give the same h and the same gradients."""
    module = encoder(p)
    h = module(x)[0]
    found = gradients(module, h)
    weights = [lstm.weight_hh_l0 for lstm in module.layers]
    masks = [found[f"layers.{i}.weight_hh_l0"] != 0 for i in range(len(weights))]
    assert all(0 < int(mask.sum()) < mask.numel() for mask in masks)
    expected = naive(module, x, [weight * mask / (1 - p) for weight, mask in zip(weights, masks, strict=True)])
    torch.testing.assert_close(h, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found, gradients(module, expected), rtol=0, atol=1e-10)


def test_as_many_weights_are_dropped_as_it_says():
    module = encoder(0.3, hidden=200, layers=2)
    found = gradients(module, module(torch.randn(4, 2, 5, dtype=torch.double))[0])["layers.0.weight_hh_l0"]
    count = found.numel()
    assert abs(int((found == 0).sum()) - 0.3 * count) <= 4 * (0.3 * 0.7 * count) ** 0.5


def pickled(module):
    file = io.BytesIO()
    torch.save(module, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


def reloaded(module):
    other = encoder()
    for parameter in other.parameters():
        parameter.data.zero_()
    other.load_state_dict(copy.deepcopy(module.state_dict()))
    return other


@pytest.fixture
def one_worker():
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WAYS = {
    "as it was made": lambda module: module,
    "to": lambda module: module.float().to("cpu").double(),
    "state": reloaded,
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
    "train and eval": lambda module: module.eval().train(),
    "DistributedDataParallel": nn.parallel.DistributedDataParallel,
    "fairseq's own": lambda module: LegacyDistributedDataParallel(module, torch.distributed.group.WORLD),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_dropped_and_train_whatever_becomes_of_the_module(x, way, one_worker):
    """A step moves the weights themselves, where they were not dropped, and the next pass reads what it left."""
    called = WAYS[way](encoder())
    module = getattr(called, "module", called)
    assert not torch.equal(called(x)[0], called(x)[0])
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    assert before.keys() == dict(plain().named_parameters()).keys()  # names are the plain LSTM's, so checkpoints are
    called(x)[0].square().sum().backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    for name, parameter in module.named_parameters():
        dropped = parameter.grad == 0
        assert bool(dropped.any()) == ("weight_hh" in name)
        assert torch.equal(parameter == before[name], dropped)
    other = plain()
    other.load_state_dict(module.state_dict())
    assert torch.equal(called.eval()(x)[0], other.eval()(x)[0])


def test_gradients_go_through_the_mask(x):
    module = encoder(layers=1)
    lstm, x = module.layers[0], x[:4].requires_grad_()

    def same_mask(x, *_):
        torch.manual_seed(5)
        return run(lstm, x, None, 0.5)[0]

    assert torch.autograd.gradcheck(same_mask, (x, *lstm.parameters()))


@pytest.mark.parametrize("width", [0, 5, 9])
def test_the_last_layer_has_a_width_of_its_own(x, width):
    module = encoder(width=width)
    h, last, state = module(x)
    assert module.width == (width or 5) == h.size(2) == last.size(2)
    assert [h.size(2) for h, _ in state] == [7, 7, width or 5]
    sizes = [5, 7, 7, width or 5]
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert parameters == sum(4 * b * (a + b) + 8 * b for a, b in itertools.pairwise(sizes))


def test_layers_begin_as_pytorchs_whatever_the_range():
    module = encoder(hidden=400)
    module.begin(9.0)
    for lstm in module.layers:
        limit = lstm.hidden_size**-0.5
        for parameter in lstm.parameters():
            assert 0.8 * limit < parameter.abs().max() <= limit


@pytest.mark.parametrize("kind", [encoder, plain])
@pytest.mark.parametrize("training, grad, said", [(True, True, True), (False, True, True), (False, False, False)])
def test_what_has_a_gradient_is_said_to_train(monkeypatch, x, kind, training, grad, said):
    """So that cuDNN has one in evaluation, too."""
    real, flags = torch.lstm, []

    def lstm(*arguments):
        flags.append(arguments[6])
        return real(*arguments)

    monkeypatch.setattr(torch, "lstm", lstm)
    with torch.set_grad_enabled(grad):
        kind().train(training)(x)
    assert flags == [said] * 3


def test_cudnns_warning_of_every_step_is_silent():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        AWDLSTMEncoder.from_settings(5, {name: option.default for name, option in AWDLSTMEncoder.options.items()})
        warnings.warn("RNN module weights are not part of single contiguous chunk of memory. This means", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert [str(warning.message) for warning in found] == ["another"]
