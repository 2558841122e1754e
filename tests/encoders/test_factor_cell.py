"""The equations of Jaech and Ostendorf 2018 (2 to 4, 8 and 9), with a weight matrix for each position, against the encoder."""

import itertools

import pytest
import torch

from fairseq_groc.encoders import ENCODERS, FactorCellEncoder, LineContexts
from fairseq_groc.encoders.carried import reordered
from fairseq_groc.errors import OptionError
from fairseq_groc.modules import factor_cell
from fairseq_groc.presets import PRESETS_IN_CONTEXT
from fairseq_groc.registry import check_options

E, K, T, B = 5, 3, 6, 5
DEFAULTS = {name: option.default for name, option in ENCODERS.taken["factor_cell"].items()}
PLAIN = dict(dropout=0.0, dropout_in=0.0, dropout_out=0.0, decoder_layers=1, decoder_output_dim=4, decoder_hidden_size=3)
FACTOR = dict(context_adaptation="factor", context_dim=K, context_rank=2)


@pytest.fixture(autouse=True)
def a_matrix_for_each_of_few_contexts(monkeypatch):
    monkeypatch.setattr(factor_cell, "STREAMS", 2)


def encoder(**settings):
    """Return an encoder all of whose parameters are far from 0."""
    torch.manual_seed(0)
    module = FactorCellEncoder.from_settings(E, {**DEFAULTS, **PLAIN, **FACTOR, **settings}).double()
    for parameter in module.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return module


def contexts(*index):
    """Return as many contexts as *index* needs, and whose they are."""
    index = torch.tensor(index)
    vectors = torch.randn(int(index.max()) + 1, K, dtype=torch.double, generator=torch.Generator().manual_seed(5))
    return LineContexts(vectors.requires_grad_(), index)


INDEX = {
    "one context": [0] * B,
    "few contexts": [1, 0, 1, 1, 0],
    "a context a line": [3, 1, 4, 0, 2],
    "a running text": [[0, 1, 2, 0, 3]] * 2 + [[0, 1, 4, 4, 3]] * 3 + [[5, 1, 4, 5, 0]],
    "one context in a running text": [[0] * B] * T,
}


@pytest.fixture
def x():
    return torch.randn(T, B, E, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def equations(module, x, state, context, masks=None):
    """Return h and the state after it, each position by itself."""
    after = []
    for number, cell in enumerate(module.layers):
        d, outputs = cell.units, []
        h, m = ([row[0] for row in part.transpose(0, 1)] for part in state[number])
        for t, b in itertools.product(range(len(x)), range(x.size(1))):
            weight, bias = torch.cat([cell.weight_ih, cell.weight_hh], 1), cell.bias
            if context is not None and module.adaptation != "none":
                c = context.vectors[context.index[b] if context.index.dim() == 1 else context.index[t, b]]
                bias = bias + cell.context_bias @ c
                if cell.left is not None:
                    left, right = torch.einsum("i,iar->ar", c, cell.left), torch.einsum("irg,i->rg", cell.right, c)
                    weight = weight + torch.einsum("ar,rg->ga", left, right)
            z = torch.einsum("ga,a->g", weight, torch.cat([x[t, b], h[b]])) + bias
            j, f, o = z.split(d)
            if cell.gain is not None:
                j, f, o = (
                    (gate - gate.mean()) / (gate.var(unbiased=False) + 1e-5).sqrt() * cell.gain[i] + cell.shift[i]
                    for i, gate in enumerate((j, f, o))
                )
            f = torch.sigmoid(f + 1.0)
            kept = 1 if masks is None else masks[number][t, b]
            m[b] = m[b] * f + (1.0 - f) * torch.tanh(j) * kept
            h[b] = torch.tanh(m[b]) * torch.sigmoid(o)
            outputs.append(h[b])
        x = torch.stack(outputs).view(len(x), x.size(1), d)
        after.append((torch.stack(h).unsqueeze(0), torch.stack(m).unsqueeze(0)))
    return x, after


def state_of(module, streams=B):
    torch.manual_seed(2)
    return [
        tuple(torch.randn(1, streams, cell.units, dtype=torch.double, requires_grad=True) for _ in range(2))
        for cell in module.layers
    ]


def with_gradients(module, read, leaves):
    """Return h, the state after it, and the gradients of a sum in which every number of h and m counts by another weight."""
    h, state = read()
    torch.manual_seed(3)
    total = (h * torch.randn_like(h)).sum() + sum((m * torch.randn_like(m)).sum() for _, m in state)
    return h, state, torch.autograd.grad(total, [*module.parameters(), *leaves], allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("adaptation", ["none", "concat", "factor"])
@pytest.mark.parametrize("settings", [{}, dict(decoder_layers=3), dict(layer_norm="gates"), dict(context_rank=1)], ids=str)
def test_equals_the_equations(x, index, adaptation, settings):
    module, context = encoder(**{**settings, "context_adaptation": adaptation}), contexts(*INDEX[index])
    state = state_of(module)
    leaves = [x.requires_grad_(), context.vectors, *itertools.chain(*state)]
    expected = with_gradients(module, lambda: equations(module, x, state, context), leaves)
    found = with_gradients(module, lambda: module(x, state, context)[1:], leaves)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("layer_norm", ["none", "gates"])
def test_recurrent_dropout_is_of_what_enters_the_memory(x, index, layer_norm):
    module, context = encoder(recurrent_dropout=0.4, decoder_layers=2, layer_norm=layer_norm), contexts(*INDEX[index])
    state = state_of(module)
    torch.manual_seed(7)
    h, _, after = module(x, state, context)
    torch.manual_seed(7)
    masks = [(torch.rand(T, B, cell.units) >= 0.4) / torch.tensor(0.6, dtype=torch.double) for cell in module.layers]
    assert len(masks[0].unique()) == 2 and not torch.equal(masks[0][0], masks[0][1])  # anew at every step
    torch.testing.assert_close((h, after), equations(module, x, state, context, masks), rtol=0, atol=1e-11)
    assert not torch.equal(module(x, state, context)[0], h)
    module.eval()
    torch.testing.assert_close(module(x, state, context)[0], equations(module, x, state, context)[0], rtol=0, atol=1e-11)


def result(module, x, context):
    h, last, state = module(x, None, context)
    return h, last, state


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("layers", [1, 2])
def test_each_model_is_the_next_with_nothing_in_a_part(x, index, layers):
    context = contexts(*INDEX[index])
    factor, concat, none = (
        encoder(decoder_layers=layers, context_adaptation=name).eval() for name in ("factor", "concat", "none")
    )
    without = encoder(decoder_layers=layers, context_rank=0).eval()
    for wide, narrow in ((factor, concat), (factor, without), (concat, none)):
        narrow.load_state_dict({name: value for name, value in wide.state_dict().items() if name in narrow.state_dict()})
    assert not torch.allclose(factor(x, None, context)[0], concat(x, None, context)[0])
    assert not torch.allclose(concat(x, None, context)[0], none(x, None, context)[0])
    for cell in factor.layers:
        cell.left.data.zero_()
    torch.testing.assert_close(result(factor, x, context), result(concat, x, context), rtol=0, atol=1e-12)
    torch.testing.assert_close(result(without, x, context), result(concat, x, context), rtol=0, atol=1e-12)
    for cell in (*factor.layers, *concat.layers):
        cell.context_bias.data.zero_()
    torch.testing.assert_close(result(factor, x, context), result(none, x, context), rtol=0, atol=1e-12)
    torch.testing.assert_close(result(concat, x, context), result(none, x, None), rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", INDEX)
def test_concat_is_a_context_beside_each_input(x, index):
    context = contexts(*INDEX[index])
    concat = encoder(context_adaptation="concat")
    wide = FactorCellEncoder(E + K, {**DEFAULTS, **PLAIN, "context_adaptation": "none", "context_dim": 0}).double()
    own, (cell,) = concat.layers[0], wide.layers
    cell.weight_ih.data = torch.cat([own.weight_ih, own.context_bias], 1).detach()
    cell.weight_hh.data, cell.bias.data = own.weight_hh.data, own.bias.data
    beside = context.vectors[context.index].expand(T, B, K)
    torch.testing.assert_close(result(concat, x, context), result(wide, torch.cat([x, beside], 2), None), rtol=0, atol=1e-12)


def test_coupled_gates_are_pytorchs_with_opposite_weights_of_input_and_forget_gate(x):
    module = encoder(context_adaptation="none")
    (cell,) = module.layers
    lstm = torch.nn.LSTM(E, 4).double()
    with torch.no_grad():
        for ours, theirs in ((cell.weight_ih, lstm.weight_ih_l0), (cell.weight_hh, lstm.weight_hh_l0)):
            j, f, o = ours.chunk(3)
            theirs.copy_(torch.cat([-f, f, j, o]))
        j, f, o = cell.bias.chunk(3)
        lstm.bias_ih_l0.copy_(torch.cat([-f - 1, f + 1, j, o]))
        lstm.bias_hh_l0.zero_()
    h, _, [(last, m)] = module(x)
    expected, (expected_last, c) = lstm(x)
    torch.testing.assert_close((h, last, m), (expected, expected_last, c), rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", ["few contexts", "a context a line"])
def test_a_line_in_each_of_its_positions_is_the_line(x, index):
    module, context = encoder(decoder_layers=2), contexts(*INDEX[index])
    at_positions = LineContexts(context.vectors, context.index.expand(T, B))
    torch.testing.assert_close(result(module, x, at_positions), result(module, x, context), rtol=0, atol=1e-12)
    for b in range(B):  # alone it is read by another way: one context
        alone = LineContexts(context.vectors[context.index[b : b + 1]], torch.zeros(1, dtype=torch.long))
        h = module(x[:, b : b + 1], None, alone)[0]
        torch.testing.assert_close(h, module(x, None, context)[0][:, b : b + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", INDEX)
def test_the_order_of_lines_and_of_contexts_changes_nothing(x, index):
    module, context = encoder(decoder_layers=2), contexts(*INDEX[index])
    order, numbers = torch.tensor([3, 0, 4, 2, 1]), torch.arange(len(context.vectors)).flip(0)
    moved = LineContexts(context.vectors[numbers], numbers[context.index[..., order]])
    h, _, state = module(x, None, context)
    found = module(x[:, order], None, moved)
    torch.testing.assert_close((found[0], found[2]), (h[:, order], reordered(state, order)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("layer_norm", ["none", "gates"])
@pytest.mark.parametrize("cuts", [[1], [3], [1, 2, 3, 4, 5]])
def test_in_pieces_with_the_state_carried_it_is_the_whole(x, index, layer_norm, cuts):
    module, context = encoder(decoder_layers=2, layer_norm=layer_norm), contexts(*INDEX[index])
    pieces, state = [], None
    for a, b in itertools.pairwise([0, *cuts, T]):
        of_piece = context.index if context.index.dim() == 1 else context.index[a:b]
        h, _, state = module(x[a:b], state, LineContexts(context.vectors, of_piece))
        pieces.append(h)
    whole, _, end = module(x, None, context)
    torch.testing.assert_close((torch.cat(pieces), state), (whole, end), rtol=0, atol=1e-12)


@pytest.mark.parametrize("adaptation", ["concat", "factor"])
def test_different_contexts_give_different_states(x, adaptation):
    """Also as training begins, and from the first step on."""
    module = FactorCellEncoder.from_settings(E, {**DEFAULTS, **PLAIN, **FACTOR, "context_adaptation": adaptation}).double()
    same = x[:, :1].expand(-1, B, -1)
    h, _, [(_, m)] = module(same, None, contexts(*range(B)))
    assert all((h[0, a] - h[0, b]).abs().max() > 1e-3 and not torch.equal(m[0, a], m[0, b]) for a in range(B) for b in range(a))
    h = module(same, None, contexts(0, 1, 0, 1, 0))[0]
    torch.testing.assert_close(h[:, 0], h[:, 4], rtol=0, atol=1e-12)


def test_a_change_of_context_acts_from_its_position_on(x):
    module = encoder(decoder_layers=2)
    index = [[0, 1, 0, 1, 0]] * T
    before = module(x, None, contexts(*index))[0]
    index = index[:3] + [[0, 1, 1, 1, 0]] * 3
    after = module(x, None, contexts(*index))[0]
    changed = (before - after).abs().amax(2) > 1e-12  # (T, B)
    assert changed.nonzero().tolist() == [[3, 2], [4, 2], [5, 2]]


def begun(**settings):
    torch.manual_seed(0)
    module = FactorCellEncoder.from_settings(150, {**DEFAULTS, **PLAIN, **FACTOR, "decoder_output_dim": 110, **settings})
    module.begin(9.0)
    return module


def test_training_begins_as_glorot_whatever_the_range():
    (cell,) = begun(context_dim=2, context_rank=12, layer_norm="gates").layers
    d = 110
    sums = {"weight_ih": 150 + 4 * d, "weight_hh": 150 + 4 * d, "context_bias": 2 + 3 * d}
    sums |= {"left": 2 + (150 + d) * 12, "right": 2 + 3 * d * 12}
    for name, inputs_and_outputs in sums.items():
        limit = (6 / inputs_and_outputs) ** 0.5
        assert 0.95 * limit < getattr(cell, name).abs().max() <= limit, name
    assert not cell.bias.any() and not cell.shift.any() and bool((cell.gain == 1).all())


@pytest.mark.parametrize("init", ["glorot", "zero-right"])
def test_bases_learn_from_the_beginning(init):
    """Were both zero, neither would ever have a gradient."""
    module = begun(factor_init=init)
    x, context = torch.randn(T, B, 150), contexts(0, 1, 2, 1, 0)
    module(x, None, context)[0].square().sum().backward()
    (cell,) = module.layers
    assert bool((cell.right.grad != 0).all())
    assert bool((cell.left.grad != 0).all()) == (init == "glorot")
    assert cell.right.grad.norm() > 0.1 * cell.weight_hh.grad.norm()


def test_zero_right_begins_as_concat(x):
    concat, factor = (
        FactorCellEncoder(E, {**DEFAULTS, **PLAIN, **FACTOR, "factor_init": "zero-right", "context_adaptation": name}).double()
        for name in ("concat", "factor")
    )
    concat.load_state_dict({name: value for name, value in factor.state_dict().items() if name in concat.state_dict()})
    context = contexts(0, 1, 2, 1, 0)
    torch.testing.assert_close(result(factor, x, context), result(concat, x, context), rtol=0, atol=1e-12)
    assert bool(factor.layers[0].left.all())


@pytest.mark.parametrize("name", PRESETS_IN_CONTEXT)
def test_parameters_are_the_papers(name):
    """At the sizes of Table 2, whose vocabularies are not needed for it."""
    chosen = {**DEFAULTS, **PLAIN, **PRESETS_IN_CONTEXT[name].options}
    e, d, k, r = (chosen[of] for of in ("decoder_embed_dim", "decoder_output_dim", "context_dim", "context_rank"))
    module = FactorCellEncoder.from_settings(e, chosen)
    expected = 3 * d * (e + d) + 3 * d
    expected += 3 * d * k * name.endswith(("concat", "factor")) + (k * r * (e + d) + k * r * 3 * d) * name.endswith("factor")
    assert sum(parameter.numel() for parameter in module.parameters()) == expected


@pytest.mark.parametrize("width", [0, 9])
def test_every_layer_is_adapted_with_bases_of_its_own(x, width):
    module = encoder(decoder_layers=3, decoder_output_dim=width)
    h, last, state = module(x, None, contexts(*INDEX["few contexts"]))
    assert h is last and h.size(2) == module.width == (width or E)
    assert [part.shape for layer in state for part in layer] == [(1, B, d) for d in (3, 3, 3, 3, width or E, width or E)]
    assert [cell.left.shape for cell in module.layers] == [(K, E + 3, 2), (K, 6, 2), (K, 3 + (width or E), 2)]


@pytest.mark.parametrize("index", ["few contexts", "a running text"])
@pytest.mark.parametrize("settings", [{}, dict(recurrent_dropout=0.5), dict(layer_norm="gates")], ids=str)
def test_a_state_holds_nothing_but_itself(x, settings, index):
    _, _, state = encoder(**settings)(x, None, contexts(*INDEX[index]))
    for part in itertools.chain(*state):
        assert part.untyped_storage().size() == part.numel() * part.element_size()


@pytest.mark.parametrize("where", ["dropout", "dropout_in", "dropout_out"])
def test_each_dropout_acts_in_training_alone(x, where):
    module, context = encoder(**{where: 0.5}, decoder_layers=2), contexts(*INDEX["few contexts"])
    h, last, _ = module(x, None, context)
    assert not torch.equal(h, module(x, None, context)[0])
    assert torch.equal(h, last) == (where != "dropout_out")
    module.eval()
    assert torch.equal(module(x, None, context)[0], encoder(decoder_layers=2)(x, None, context)[0])


@pytest.mark.parametrize("index", INDEX)
def test_autocast_changes_nothing(x, index):
    module, context = encoder(decoder_layers=2).float(), contexts(*INDEX[index])
    plain = module(x.float(), None, context)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(x.float(), None, context)[0], plain)


@pytest.mark.parametrize("index", INDEX)
def test_in_half_precision_it_is_near(x, index):
    module, context = encoder(decoder_layers=2), contexts(*INDEX[index])
    expected = module(x, None, context)[0]
    h = module.half()(x.half(), None, context)[0]
    assert h.dtype == torch.half
    torch.testing.assert_close(h.double(), expected, rtol=0, atol=2e-2)
    h.float().square().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in module.parameters())


def test_an_adaptation_needs_contexts(x):
    with pytest.raises(OptionError, match="--context-adaptation factor: contexts have no vectors"):
        encoder(context_adaptation="factor", context_dim=0)
    for adaptation in ("concat", "factor"):
        with pytest.raises(
            OptionError, match=f"--context-adaptation {adaptation}: expected the contexts of a batch's lines, got"
        ):
            encoder(context_adaptation=adaptation)(x)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("context_rank", -1, "--context-rank -1: expected 0 or more"),
        ("recurrent_dropout", 1, "--recurrent-dropout 1: expected a number from 0 to below 1"),
        ("layer_norm", "layer", "--layer-norm layer: expected one of none, gates"),
        ("factor_init", "zero", "--factor-init zero: expected one of glorot, zero-right"),
    ],
)
def test_options_that_cannot_be(name, value, message):
    with pytest.raises(OptionError, match=message):
        check_options(ENCODERS.taken["factor_cell"], {**DEFAULTS, name: value})
