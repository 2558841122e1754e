"""Models that know the context of a line, whatever they are made of."""

import numpy as np
import pytest
import torch
from decoders import DECODERS

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.modules.probabilities import LOG_ZERO

WORDS = ["the", "cat", "sat", "on", "mats", "dogs", "ran", "far"]
TOPIC = Variable("topic", "category", ("sports", "arts"), (3, 1))
SCHEMA = Schema((TOPIC,))
MORE = Schema((TOPIC, Variable("year", "number", mean=1990.0, deviation=10.0), Variable("hour", "cycle", period=24.0)))
LINES = np.array([1, 2, 0, 1, 2, 1])  # topics of the text's lines
BIASES = ("none", "shift", "rows", "one-hot")


def contexts_of(categories=LINES, schema=SCHEMA):
    numbers = np.linspace(1980, 2000, len(categories))[:, None].repeat(len(schema.numbers), 1)
    return Contexts(categories[:, None], numbers, np.arange(len(categories)))


def batch_of(*categories, schema=SCHEMA):
    made = contexts_of(np.array(categories), schema).of_lines(np.arange(len(categories)))
    return {name: one.clone() for name, one in made.items()}


def options(bias, adaptation="concat"):
    return {"context_dim": 3, "context_bias": bias, "context_adaptation": adaptation, "init_range": 0.5}


def scores(model, tokens, context):
    with torch.no_grad():
        return model.get_normalized_probs(model(tokens, context=context), log_probs=True)


@pytest.fixture
def tokens():
    return torch.tensor([[2, 4, 5, 6], [2, 7, 8, 9]])


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("head", HEADS)
def test_every_head_in_context(model_of, tokens, head, bias):
    chosen = {**options(bias), **({"adaptive_scoring": "bins"} if head == "adaptive" else {})}
    if not HEADS[head].kind.plain_softmax and bias in ("rows", "one-hot"):
        with pytest.raises(OptionError, match="wants one softmax"):
            model_of(WORDS, head, schema=SCHEMA, **chosen)
        return
    model = model_of(WORDS, head, schema=SCHEMA, **chosen)
    lprobs = scores(model, tokens, batch_of(1, 2))
    torch.testing.assert_close(lprobs.exp().sum(-1), torch.ones(2, 4))
    net_input = {"src_tokens": tokens, "context": batch_of(1, 2)}
    targets = torch.tensor([[4, 5, 6, 2], [7, 8, 9, 2]])
    with torch.no_grad():
        losses, _ = model.decoder.losses(*model.decoder.without_scores(model, net_input), targets, 3)
    torch.testing.assert_close(-losses, lprobs.gather(2, targets.unsqueeze(2)).squeeze(2))
    other = scores(model, tokens, batch_of(2, 2))  # the second line's context, and so its scores, are as they were
    assert float((other[0] - lprobs[0]).abs().max()) > 1e-5
    torch.testing.assert_close(other[1], lprobs[1])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("adaptation", ["none", "concat", "factor"])
def test_every_encoder_in_context(model_of, tokens, encoder, adaptation):
    if adaptation == "factor" and not ENCODERS[encoder].takes_context:
        with pytest.raises(OptionError, match="factor_cell"):
            model_of(WORDS, "tied", schema=SCHEMA, encoder=encoder, **options("none", adaptation))
        return
    model = model_of(WORDS, "tied", schema=SCHEMA, encoder=encoder, **options("rows", adaptation))
    with torch.no_grad():
        model.decoder.matrices.context_rows.weight.zero_()
    one, two = (scores(model, tokens, batch_of(*topics)) for topics in ((1, 2), (2, 1)))
    assert bool(torch.equal(one, two)) == (adaptation == "none")
    torch.testing.assert_close(scores(model, tokens.flip(0), batch_of(2, 1)), one.flip(0))


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("arch", DECODERS)
def test_models_of_fairseq_in_context(stock_model, tokens, arch, bias):
    model = stock_model(arch, "compositional_output", WORDS, schema=SCHEMA, **options(bias))
    one, two = (scores(model, tokens, batch_of(*topics)) for topics in ((1, 2), (2, 2)))
    assert float((one[0] - two[0]).abs().max()) > 1e-6
    torch.testing.assert_close(one[1], two[1])


def test_contexts_are_added_where_the_equations_have_them(model_of, tokens):
    model = model_of(WORDS, "tied", schema=SCHEMA, **options("shift", "none"))
    decoder = model.decoder
    with torch.no_grad():
        _, outputs, bias = decoder.matrices()
        c = decoder.contexts.embedding.tables[0].weight[[1, 2]]
        h = decoder(tokens, context=batch_of(1, 2))[1]["features"]
        plain = (h @ outputs.t() + bias).log_softmax(-1)
        shifted = scores(model, tokens, batch_of(1, 2))
        expected = (
            ((h + (c @ decoder.contexts.shift.weight.t()).unsqueeze(1)) @ outputs.t() + bias).log_softmax(-1).clamp(min=LOG_ZERO)
        )
    torch.testing.assert_close(shifted, expected)
    assert not torch.allclose(plain[:, :, 4:], shifted[:, :, 4:])
    rows = model_of(WORDS, "tied", schema=SCHEMA, **options("rows", "none"))
    with torch.no_grad():
        _, outputs, bias = rows.decoder.matrices()
        c = rows.decoder.contexts.embedding.tables[0].weight[[1, 2]]
        h = rows.decoder(tokens, context=batch_of(1, 2))[1]["features"]
        more = (c @ rows.decoder.matrices.context_rows.weight.t()).unsqueeze(1)  # Q c
        expected = (h @ outputs[:, :6].t() + more + bias).log_softmax(-1).clamp(min=LOG_ZERO)
    torch.testing.assert_close(scores(rows, tokens, batch_of(1, 2)), expected)


def test_adding_to_the_input_is_concatenating(model_of, tokens):
    """x W + c V: so is the LSTM of [x, c] with [W, V]."""
    model = model_of(WORDS, "tied", schema=SCHEMA, **options("none")).double()
    decoder, lstm = model.decoder, model.decoder.encoder.layers[0]
    c = decoder.contexts.embedding.tables[0].weight[[1, 2]].double()
    wide = torch.nn.LSTM(6 + 3, lstm.hidden_size).double()
    with torch.no_grad():
        wide.weight_ih_l0.copy_(torch.cat([lstm.weight_ih_l0, lstm.weight_ih_l0 @ decoder.contexts.input.weight], dim=1))
        for name in ("weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            getattr(wide, name).copy_(getattr(lstm, name))
        x = decoder.matrices()[0][tokens.t()]
        expected = wide(torch.cat([x, c.expand(4, 2, 3)], dim=2))[0]
        with decoder.contexts.reading(batch_of(1, 2)):
            found = lstm(decoder.embed_tokens(tokens).transpose(0, 1))[0]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("bias", BIASES)
def test_running_text_is_read_in_the_context_of_the_line_that_is_predicted(model_of, text, as_lines, encoder, bias):
    adaptation = "factor" if ENCODERS[encoder].takes_context else "concat"
    model = model_of(WORDS, "compositional_output", schema=SCHEMA, encoder=encoder, **options(bias, adaptation))
    text = [line for line in text if len(line) > 1]
    dataset = StreamDataset(as_lines(*text), "valid", model.decoder.dictionary, False, contexts_of(LINES[: len(text)]))
    whole = torch.cat(list(text))
    source = torch.cat([torch.tensor([2]), whole[:-1]])
    topics = np.repeat(LINES[: len(text)], [len(line) for line in text])
    expected, state = [], {}
    for token, target, topic in zip(source, whole, topics, strict=True):  # word by word
        lprobs = scores_with(model, token.view(1, 1), batch_of(topic), state)
        expected.append(float(lprobs[0, 0, target]))
    for block in (3, 100):
        found = []
        for plan in dataset.plan(1, 1, 1, block):
            batch = dataset[plan]
            with torch.no_grad():
                lprobs = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
            found += lprobs.gather(2, batch["target"].unsqueeze(2))[0, :, 0].tolist()
        assert found == pytest.approx(expected, abs=1e-5)


def scores_with(model, tokens, context, state):
    with torch.no_grad():
        return model.get_normalized_probs(model.decoder(tokens, context=context, incremental_state=state), log_probs=True)


def test_hypotheses_keep_their_context_when_they_change_places(model_of):
    model, state = model_of(WORDS, "tied", schema=SCHEMA, **options("rows")), {}
    decoder = model.decoder
    decoder.given_context = batch_of(1, 2)
    read = torch.tensor([[2], [2], [2], [2]])  # two hypotheses a line
    with torch.no_grad():
        decoder(read, incremental_state=state)
        decoder.reorder_incremental_state(state, torch.tensor([0, 0, 3, 2]))
        decoder.reorder_incremental_state(state, torch.tensor([2, 3]))  # the first line has ended
        step = decoder(torch.tensor([[2, 4], [2, 5]]), incremental_state=state)
        whole = decoder(torch.tensor([[2, 4], [2, 5]]), context=batch_of(2, 2))
    torch.testing.assert_close(step[0][:, -1], whole[0][:, -1])


MIXED = [
    *(("tied", "lstm", "concat", bias) for bias in BIASES),
    ("compositional_output", "awd_lstm", "concat", "shift"),
    ("compositional_output", "factor_cell", "factor", "shift"),
    ("deep_residual", "factor_cell", "factor", "rows"),
    ("adaptive", "factor_cell", "concat", "shift"),
]


@pytest.mark.parametrize(
    "settings", [dict(local_weight=0.3, cache_theta=0.5, cache_size=50), dict(unigram_weight=0.2, uniform_weight=0.1)]
)
@pytest.mark.parametrize("head, encoder, adaptation, bias", MIXED)
def test_adapters_mix_with_what_is_probable_in_context(model_of, text, as_lines, head, encoder, adaptation, bias, settings):
    rank = {"context_rank": 2} if adaptation == "factor" else {}
    model = model_of(WORDS, head, schema=SCHEMA, encoder=encoder, **options(bias, adaptation), **rank).eval()
    dataset = StreamDataset(as_lines(*text), "valid", model.decoder.dictionary, False, contexts_of())
    real = ~model.decoder.matrices.impossible
    adapter = Adapter(AdapterSettings(**settings), real, torch.zeros_like(real))
    for plan in dataset.plan(1, 2, 1, 4):
        net_input = dataset[plan]["net_input"]
        with torch.no_grad():
            model.decoder.adapter = None
            static = model.get_normalized_probs(model(**net_input), log_probs=True)
            model.decoder.adapter = adapter
            lprobs = model.get_normalized_probs(model(**net_input), log_probs=True)
        torch.testing.assert_close(lprobs.exp().sum(-1), torch.ones(lprobs.shape[:2]))
        assert (lprobs.exp() >= 0.699 * static.exp()).all() and not torch.allclose(lprobs, static)
        assert model.decoder.output_projection.features.size(-1) == 6  # without what is appended for contexts


@pytest.mark.parametrize("head, bias", [("tied", "rows"), ("tied", "one-hot"), ("compositional_output", "shift")])
def test_each_of_the_papers_models_is_the_next_without_one_part(model_of, tokens, head, bias):
    def made(adaptation, **more):
        settings = {**options(bias, adaptation), "encoder": "factor_cell", "context_rank": 2, "schema": SCHEMA, **more}
        return model_of(WORDS, head, **settings).double()

    factor, concat, softmax = (made(adaptation) for adaptation in ("factor", "concat", "none"))
    plain, context = made("none", context_dim=0, context_bias="none", schema=None), batch_of(1, 2)
    given = dict(factor.named_parameters())
    for model in (concat, softmax, plain):
        for name, parameter in model.named_parameters():
            parameter.data.copy_(given[name])
    models, parts = [(factor, context), (concat, context), (softmax, context), (plain, None)], ("left", "context_bias", "")
    for part, (whole, of), (without, none) in zip(parts, models, models[1:], strict=False):
        assert not torch.allclose(scores(whole, tokens, of), scores(without, tokens, none), rtol=0, atol=1e-6)
        name = part or ("contexts.shift" if bias == "shift" else "context_rows")  # Z_L, V, Q
        for parameter in (value for of_whole, value in whole.named_parameters() if name in of_whole):
            parameter.data.zero_()
        torch.testing.assert_close(scores(whole, tokens, of), scores(without, tokens, none), rtol=0, atol=1e-12)


def test_numbers_and_cycles(model_of, tokens):
    model = model_of(WORDS, "tied", schema=MORE, **options("shift"))
    embedding = model.decoder.contexts.embedding
    embedding.begin()  # numbers with b = 1, as in the released program
    assert not embedding.joint.bias.any() and all(bool((layer.bias == 1).all()) for layer in embedding.numeric)

    def vector(topic, year, hour):
        return embedding(torch.tensor([[topic]]), torch.tensor([[year, hour]], dtype=torch.float64))

    torch.testing.assert_close(vector(1, 1980.0, 3.0), vector(1, 1980.0, 27.0))
    assert not torch.equal(vector(1, 1980.0, 3.0), vector(1, 1980.0, 15.0))
    torch.testing.assert_close(vector(1, float("nan"), 3.0), vector(1, 1990.0, 3.0))  # a missing number is the mean
    assert bool(vector(1, float("nan"), float("nan")).isfinite().all())
    scores(model, tokens, batch_of(1, 2, schema=MORE))


def test_an_unknown_value_is_the_mean_of_the_others_unless_training_had_some(model_of):
    table, seen = SCHEMA.variables[0], TOPIC._replace(unknown=5)
    for variable, trained in ((table, False), (seen, True)):
        embedding = model_of(WORDS, "tied", schema=Schema((variable,)), **options("shift")).decoder.contexts.embedding
        rows = embedding.tables[0].weight
        expected = rows[0] if trained else 0.75 * rows[1] + 0.25 * rows[2]
        torch.testing.assert_close(embedding(torch.zeros(1, 1).long(), torch.zeros(1, 0))[0], expected)


def test_a_dropped_variable_is_as_unknown(model_of):
    embedding = model_of(WORDS, "tied", schema=SCHEMA, context_dropout=0.5, **options("shift")).decoder.contexts.embedding.train()
    torch.manual_seed(1)
    made = embedding(*embedding.dropped(torch.ones(400, 1).long(), torch.zeros(400, 0)))
    unknown = (made == embedding.tables[0].weight[0]).all(1)
    assert 150 < int(unknown.sum()) < 250 and bool((made[~unknown] == embedding.tables[0].weight[1]).all())


def test_values_move_by_name_and_other_variables_are_refused(model_of):
    old = model_of(WORDS, "tied", schema=SCHEMA, **options("shift"))
    new = Schema((TOPIC._replace(values=("arts", "music", "sports"), counts=(3, 2, 1)),))
    model = model_of(WORDS, "tied", schema=new, **options("shift"))
    model.load_state_dict(old.state_dict(), strict=True)
    was, now = (one.decoder.contexts.embedding.tables[0].weight for one in (old, model))
    torch.testing.assert_close(now[[0, 3, 1]], was)
    assert not bool(now[2].any())
    with pytest.raises(OptionError, match=r"topic \(category\), those of the data topic \(category\), year"):
        model_of(WORDS, "tied", schema=MORE, **options("shift")).load_state_dict(old.state_dict())


def test_columns_of_another_order_and_cycles_of_another_period_are_refused(model_of):
    def state(*variables):
        return model_of(WORDS, "tied", schema=Schema(variables), **options("shift")).state_dict()

    place, hour = Variable("place", "category", ("x", "y"), (1, 1)), Variable("hour", "cycle", period=24.0)
    model = model_of(WORDS, "tied", schema=Schema((TOPIC, place)), **options("shift"))
    with pytest.raises(OptionError, match=r"in the same order \(--context-variables place,topic\)"):
        model.load_state_dict(state(place, TOPIC))
    model = model_of(WORDS, "tied", schema=Schema((TOPIC, hour)), **options("shift"))
    model.load_state_dict(state(TOPIC, hour))
    with pytest.raises(OptionError, match="have cycles of 12, those of the data of 24"):
        model.load_state_dict(state(TOPIC, hour._replace(period=12.0)))


def test_an_unknown_value_scores_words_as_the_mean_of_the_values_where_words_have_numbers_for_each(model_of, tokens):
    for unknown in (0, 5):
        schema = Schema((TOPIC._replace(unknown=unknown),))
        model = model_of(WORDS, "tied", schema=schema, **options("one-hot", "none"))
        rows = model.decoder.matrices.context_rows.weight
        with torch.no_grad():
            if not unknown:
                rows[:, 0] = 0.75 * rows[:, 1] + 0.25 * rows[:, 2]
            expected = scores(model, tokens, batch_of(0, 1))
            rows[:, 0] = 0 if not unknown else rows[:, 0]
            one_hot = model.decoder.contexts.embedding.one_hot(0, torch.tensor([[0], [2]]))
        torch.testing.assert_close(scores(model, tokens, batch_of(0, 1)), expected)
        assert one_hot.tolist() == [[1, 0, 0] if unknown else [0, 0.75, 0.25], [0, 0, 1]]


def test_a_dropped_value_has_a_number_of_its_own_and_every_parameter_a_gradient(model_of, tokens):
    model = model_of(WORDS, "tied", schema=SCHEMA, context_dropout=0.5, **options("one-hot", "none")).train()
    torch.manual_seed(1)
    model(tokens.repeat(8, 1), context=batch_of(*[1, 2] * 8))[0].log_softmax(-1)[..., 4].sum().backward()
    assert bool((model.decoder.matrices.context_rows.weight.grad != 0).any(0).all())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_what_words_have_for_values_moves_by_the_values_names(model_of, tokens):
    old = model_of(WORDS, "tied", schema=SCHEMA, **options("one-hot", "none"))
    new = Schema((TOPIC._replace(values=("arts", "music", "sports"), counts=(3, 2, 1)),))
    model = model_of(WORDS, "tied", schema=new, **options("one-hot", "none"))
    model.load_state_dict(old.state_dict(), strict=True)
    torch.testing.assert_close(scores(model, tokens, batch_of(1, 3)), scores(old, tokens, batch_of(2, 1)))
    assert not bool(model.decoder.matrices.context_rows.weight[:, 2].any())


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_numbers_are_exact_in_half_precision(model_of, precision):
    stamp = Variable("stamp", "number", mean=1.5e9, deviation=3e7)
    embedding = model_of(WORDS, "tied", schema=Schema((stamp,)), **options("shift")).decoder.contexts.embedding
    given = torch.tensor([[1.5e9], [1.53e9]], dtype=torch.float64)
    expected = embedding(torch.empty(2, 0).long(), given)
    made = embedding.to(precision)(torch.empty(2, 0).long(), given)
    assert made.dtype == precision and embedding.mean.dtype == torch.float64
    torch.testing.assert_close(made.float(), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("schema", "more", "reason"),
    [
        (None, options("shift"), "say nothing of their lines"),
        (MORE, options("one-hot"), "one category, not topic"),
        (Schema((TOPIC._replace(values=(*"ab",) * 501),)), options("one-hot"), "at most 1,000 values, not the 1,002 of topic"),
        (SCHEMA, options("shift", "factor"), "factor_cell"),
        (SCHEMA, options("none", "none"), "would change nothing"),
    ],
)
def test_what_no_model_has_is_refused(model_of, schema, more, reason):
    with pytest.raises(OptionError, match=reason):
        model_of(WORDS, "tied", schema=schema, **more)


def test_a_batch_without_contexts_is_refused(model_of, tokens):
    with pytest.raises(OptionError, match="--context missing"):
        model_of(WORDS, "tied", schema=SCHEMA, **options("shift"))(tokens)
