"""Dynamic evaluation against a reference of plain tensors in float64, and for what it must never do: see the future, or stay."""

import copy
import math
from argparse import Namespace

import pytest
import torch
from decoders import DECODERS
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.sequence_scorer import SequenceScorer

from fairseq_groc.adapters import Adapter, AdapterSettings, Memory, Statistics, TextAdapter
from fairseq_groc.adapters.dynamic import UpdateRule
from fairseq_groc.cli.score import score_lines
from fairseq_groc.criterions.cache_interpolated_cross_entropy import CacheInterpolatedCrossEntropyCriterion
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.gradients import load_statistics, mean_squares, path_of, save_statistics, statistics_of
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.evaluation.stored import fingerprint
from fairseq_groc.heads import HEADS
from fairseq_groc.open_vocabulary.new_words import NewWordMass
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra", "wolf", "run"]
BLOCK, RATE, DECAY, EPSILON = 5, 5e-3, 0.3, 1e-3
SETTINGS = AdapterSettings(
    dynamic_rate=RATE, dynamic_decay=DECAY, dynamic_epsilon=EPSILON, dynamic_block=BLOCK, dynamic_parameters="all"
)
PAD, EOS = 1, 2


@pytest.fixture
def text(as_lines):
    random = torch.Generator().manual_seed(5)
    return as_lines(*(torch.randint(4, 12, (n,), generator=random).tolist() + [EOS] for n in (5, 0, 9, 3, 1, 7)))


@pytest.fixture
def batches():
    """Return a function from a model and lines to the batches of their text."""

    def batch(model, lines, streams=1, block=BLOCK):
        dataset = StreamDataset(lines, "text", model.decoder.dictionary, independent_lines=False, carries_state=True)
        return [dataset[plan] for plan in dataset.plan(1, streams, 1, block)]

    return batch


def random_statistics(leaves, seed=7):
    random = torch.Generator().manual_seed(seed)
    rms = {name: (torch.rand(one.shape[-2:], generator=random).to(one) + 0.2) * 1e-2 for name, one in leaves.tensors.items()}
    return Statistics(rms, sum(float(one.mean()) for one in rms.values()) / len(rms))


def settings_of(choice, **others):
    """Return settings under which that choice makes a difference, however small a part of these models it is."""
    rate = {"features": 10, "encoder": 4}.get(choice, 1) * RATE
    return SETTINGS.replaced(dynamic_parameters=choice, dynamic_rate=rate, **others)


def adapt(model, settings=SETTINGS):
    decoder = model.decoder
    new = torch.arange(len(decoder.dictionary)) >= 10
    statistics = random_statistics(decoder.leaves(settings.dynamic_parameters))
    decoder.adapter = Adapter(settings, decoder.real_words(), new, statistics=statistics)
    return model


@torch.no_grad()
def scores_of(model, batches):
    """Return log p of every target of the adapted model, as ``evaluate`` has it."""
    found = []
    for sample in batches:
        adapted, _ = model.decoder.losses(*model.decoder.without_scores(model, sample["net_input"]), sample["target"], 5)
        found.append(-adapted[sample["target"] != PAD])
    return torch.cat(found)


def lstm_block(theta, prefix, x, state):
    """Return the outputs of an LSTM without dropout for inputs (d) in turn, and its last state."""
    wi, wh, bi, bh = (theta[f"{prefix}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    (h, c), outputs = state, []
    for one in x:
        i, f, g, o = (wi @ one + bi + wh @ h + bh).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return outputs, (h.detach(), c.detach())


def reference(model, lines, statistics, words_of):
    """Return log p of every token, by Krause's loop over plain tensors.

    Args:
        words_of: from the tensors to E_in, E_out and b
    """
    leaves = model.decoder.leaves("all")
    origin = {name: one.detach().clone() for name, one in leaves.tensors.items()}
    theta = {name: one.clone().requires_grad_() for name, one in origin.items()}
    tokens = [EOS, *torch.cat(list(lines)).tolist()]
    state = [(torch.zeros(size).double(), torch.zeros(size).double()) for size in (8, 6)]
    found = []
    for begin in range(0, len(tokens) - 1, BLOCK):
        targets = tokens[begin + 1 : begin + 1 + BLOCK]
        inputs, outputs, bias = words_of(theta)
        x = [inputs[word] for word in tokens[begin : begin + len(targets)]]
        for layer in (0, 1):
            x, state[layer] = lstm_block(theta, f"encoder.layers.{layer}", x, state[layer])
        scores = (torch.stack(x) @ outputs.t() + bias).masked_fill(model.decoder.matrices.impossible, -math.inf)
        lprobs = torch.log_softmax(scores, 1)[range(len(targets)), targets]
        found += lprobs.tolist()
        slopes = torch.autograd.grad(-lprobs.mean(), list(theta.values()))
        with torch.no_grad():
            for (name, one), slope in zip(theta.items(), slopes, strict=True):
                rms = statistics.rms[name]
                one += (DECAY * rms / statistics.mean).clamp(max=1) * (origin[name] - one) - RATE * slope / (rms + EPSILON)
    return torch.tensor(found, dtype=torch.double)


def of_rows(theta):
    rows = theta["words.embedding.weight"]
    return rows, rows, theta["words.head.bias.weight"].squeeze(1)


def of_composed(theta):
    return theta["E_in"], theta["E_out"], theta["bias"]


@pytest.mark.parametrize("head, words_of", [("tied", of_rows), ("compositional_output", of_composed)])
def test_the_whole_run_is_krauses_loop(model_of, batches, text, head, words_of):
    model = adapt(model_of(WORDS, head, init_range=0.3).double())
    static = copy.deepcopy(model)
    static.decoder.adapter = None
    found = scores_of(model, batches(model, text))
    expected = reference(model, text, model.decoder.adapter.statistics, words_of)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert (found - scores_of(static, batches(static, text))).abs().max() > 1e-2


def test_features_follow_the_same_rule(model_of, batches, text):
    model = adapt(
        model_of(WORDS, "tied", init_range=0.3).double(), SETTINGS.replaced(dynamic_parameters="features", dynamic_rate=1.0)
    )
    statistics, tokens = model.decoder.adapter.statistics, [EOS, *torch.cat(list(text)).tolist()]
    found = scores_of(model, batches(model, text))
    model.decoder.adapter = None
    with torch.no_grad():
        h = model(torch.tensor([tokens[:-1]]))[1]["features"][0]
        _, outputs, bias = model.decoder.matrices()
    m, rms, expected = torch.zeros(6, 6).double(), statistics.rms["features"], []
    for begin in range(0, len(h), BLOCK):
        part, targets = h[begin : begin + BLOCK], tokens[begin + 1 : begin + 1 + BLOCK]
        lprobs = torch.log_softmax((part + part @ m.t()) @ outputs.t() + bias, 1)
        expected += lprobs[range(len(targets)), targets].tolist()
        errors = lprobs.exp()  # of the scores: p - 1 at the target
        errors[range(len(targets)), targets] -= 1
        slope = (errors @ outputs).t() @ part / len(targets)
        m = m - (DECAY * rms / statistics.mean).clamp(max=1) * m - slope / (rms + EPSILON)
    assert found.tolist() == pytest.approx(expected, abs=1e-10) and float(m.norm()) > 0.1


@pytest.mark.parametrize("choice", ["all", "encoder", "features"])
def test_no_block_encodes_the_words_again(model_of, batches, text, monkeypatch, choice):
    model = adapt(model_of(WORDS, "compositional_output", init_range=0.3), settings_of(choice))
    embedding, calls = model.decoder.matrices.embedding, []
    encode = embedding.forward
    monkeypatch.setattr(embedding, "forward", lambda *given: calls.append(1) or encode(*given))
    scores_of(model, batches(model, text))
    assert len(calls) <= 1


def test_rows_that_are_both_matrices_stay_one(model_of, batches, text):
    model = model_of(WORDS, "compositional_output", init_range=0.3, output_depth=0)
    with torch.no_grad():
        inputs, outputs, _ = model.decoder.matrices()
    shared = outputs is inputs or outputs.data_ptr() == inputs.data_ptr()
    assert ("E_out" in model.decoder.leaves("all").tensors) != shared
    model = adapt(model.double())

    def words_of(theta):
        return theta["E_in"], theta["E_in" if shared else "E_out"], theta["bias"]

    expected = reference(model, text, model.decoder.adapter.statistics, words_of)
    torch.testing.assert_close(scores_of(model, batches(model, text)), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("choice", ["all", "features"])
def test_impossible_words_teach_nothing(model_of, batches, as_lines, choice):
    model = model_of(WORDS, "tied", init_range=0.3)
    rows = model.decoder.matrices.head.bias
    rows._missing[5], rows._any_missing = True, True
    tokens = [5] * BLOCK + [4, 6, 7, 8, 9, 10, 11, 4, 6, 7, EOS]
    read = batches(model, as_lines(tokens))
    settings = settings_of(choice, uniform_weight=0.1)
    static = scores_of(adapt(model, settings.replaced(dynamic_rate=0.0)), read)
    scores = scores_of(adapt(model, settings), read)
    assert scores[:BLOCK].tolist() == pytest.approx([math.log(0.1 / 8)] * BLOCK)
    assert torch.equal(scores[: 2 * BLOCK], static[: 2 * BLOCK]) and not torch.equal(scores, static)


def test_what_was_read_goes_with_the_hypotheses():
    seen = []

    class Recorder(TextAdapter):
        def follows(self, running, generating):
            return True

        def after_block(self, model, tokens, h, targets):
            seen.append((tokens.tolist(), h.flatten().tolist(), targets.tolist()))

        def reorder(self, order):
            seen.append(order.tolist())

    memory = Memory(Adapter(AdapterSettings(), torch.zeros(12), torch.zeros(12)))
    memory._adapters["recorder"] = Recorder()
    for tokens in (torch.tensor([[2, 4], [2, 6]]), torch.tensor([[7], [8]])):
        with memory.reading(None, tokens, running=False, generating=True) as read:
            read.append(tokens.unsqueeze(2) * 10.0)
        memory.reorder(torch.tensor([1, 1]))
    assert seen == [[1, 1], ([[2, 6], [2, 6]], [20.0, 60.0, 20.0, 60.0], [[6, 7], [6, 8]]), [1, 1]]


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", HEADS)
def test_every_door_sees_one_model(model_of, batches, text, head, choice):
    settings = settings_of(choice, local_weight=0.1, uniform_weight=0.05, new_word_discount=0.5)
    model = model_of(WORDS, head, init_range=0.3)
    if choice == "head" and model.decoder.matrices.head.needs_spellings:
        with pytest.raises(OptionError, match="dynamic-parameters head.*spellings"):
            model.decoder.leaves(choice)
        return
    adapt(model, settings)
    read = batches(model, text)
    task = Namespace(target_dictionary=model.decoder.dictionary)
    expected = scores_of(model, read)
    assert torch.equal(scores_of(model, read), expected)
    for scorer in (SequenceScorer(model.decoder.dictionary), SequenceScorer(model.decoder.dictionary, softmax_batch=3)):
        found = torch.cat([hypotheses[0]["positional_scores"] for one in read for hypotheses in scorer.generate([model], one)])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    for criterion in (CrossEntropyCriterion(task, False), CacheInterpolatedCrossEntropyCriterion(task, False, 5)):
        with torch.no_grad():
            losses = torch.cat([criterion(model, one, reduce=False)[0].view(-1)[one["target"].view(-1) != PAD] for one in read])
        torch.testing.assert_close(-losses, expected, rtol=0, atol=1e-5)
    model.decoder.adapter = model.decoder.adapter.with_settings(settings.replaced(dynamic_rate=0.0))
    assert (scores_of(model, read) - expected).abs().max() > 1e-4


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("arch", DECODERS)
def test_any_decoder_learns(stock_model, batches, text, arch, choice):
    model = stock_model(arch, "tied", WORDS)
    read = batches(model, text)
    static = scores_of(model, read)
    found = scores_of(adapt(model, settings_of(choice)), read)
    torch.testing.assert_close(found[:BLOCK], static[:BLOCK], rtol=0, atol=1e-6)
    assert (found - static).abs().max() > 1e-4


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", ["tied", "compositional_output"])
def test_no_score_knows_what_comes_after(model_of, batches, as_lines, head, choice):
    model = adapt(model_of(WORDS, head, init_range=0.3), settings_of(choice, unigram_weight=0.1))
    tokens = [4 + (i * i + 3) % 8 for i in range(17)] + [EOS]
    scores = scores_of(model, batches(model, as_lines(tokens)))
    for place in (0, 4, 5, 13):
        changed = [*tokens[:place], 4 if tokens[place] != 4 else 5, *tokens[place + 1 :]]
        other = scores_of(model, batches(model, as_lines(changed)))
        assert torch.equal(other[:place], scores[:place]) and not torch.equal(other[place:], scores[place:])


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", ["tied", "bilinear", "compositional_output"])
def test_what_was_trained_stays(model_of, batches, text, head, choice):
    model = model_of(WORDS, head, init_range=0.3)
    before, digest = copy.deepcopy(model.state_dict()), fingerprint(model.decoder)
    with torch.no_grad():
        matrices = model.decoder.matrices()
    adapt(model, settings_of(choice))
    for one in batches(model, text)[:3]:
        scores_of(model, [one])
        assert fingerprint(model.decoder) == digest
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        with torch.no_grad():
            assert all(torch.equal(*pair) for pair in zip(model.decoder.matrices(), matrices, strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("choice", ["all", "features"])
def test_an_exception_leaves_the_model_as_it_was(model_of, batches, text, monkeypatch, choice):
    model = adapt(model_of(WORDS, "tied", init_range=0.3), settings_of(choice))
    read, digest = batches(model, text), fingerprint(model.decoder)
    expected = scores_of(model, read)
    for where in ("query", "log_scores"):
        broken = copy.deepcopy(model.decoder.matrices.head)
        monkeypatch.setattr(model.decoder.matrices.head, where, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(**read[0]["net_input"])
        monkeypatch.undo()
        del broken
    assert fingerprint(model.decoder) == digest and model.decoder.matrices.source is None
    assert getattr(model.decoder, model.decoder.output_layer_name).change is None
    assert torch.equal(scores_of(model, read), expected)


def test_without_steps_nothing_changes(model_of, batches, text):
    model = model_of(WORDS, "tied", init_range=0.3).double()
    read = batches(model, text)
    static = scores_of(model, read)
    adapt(model, SETTINGS.replaced(dynamic_rate=1e-300, dynamic_decay=0.0))
    torch.testing.assert_close(scores_of(model, read), static, rtol=0, atol=1e-14)
    adapt(model, SETTINGS.replaced(dynamic_epsilon=1e12))
    torch.testing.assert_close(scores_of(model, read), static, rtol=0, atol=1e-10)


def test_decay_reaches_what_was_trained_and_goes_no_further():
    rms = {"a": torch.tensor([1.0, 3.0, 0.0])}
    theta, origin = torch.tensor([5.0, 5.0, 5.0]), torch.tensor([1.0, 2.0, 3.0])
    for decay, expected in ((1.0, [3.0, 2.0, 5.0]), (0.1, [4.8, 4.55, 5.0]), (9.0, [1.0, 2.0, 5.0])):
        rule = UpdateRule(0.0, decay, 1e-5, Statistics(rms, 2.0))
        now = theta.clone()
        rule.update("a", now, origin, torch.ones(3))
        assert now.tolist() == pytest.approx(expected)


def test_distributions_stay_proper(model_of, batches, text):
    model = adapt(model_of(WORDS, "compositional_output", init_range=0.3), SETTINGS.replaced(unigram_weight=0.2))
    dataset = StreamDataset(text, "text", model.decoder.dictionary, independent_lines=False, carries_state=True)
    found = score(model, dataset, Place(1, BLOCK), verify_every=1)
    assert found.verified == dataset.num_tokens_total and found.error <= 1e-6
    alone = score(model, dataset, Place(1, BLOCK))
    torch.testing.assert_close(torch.cat(found.adapted), torch.cat(alone.adapted), rtol=0, atol=1e-5)


def test_dropout_never_acts(model_of, batches, text):
    model = model_of(WORDS, "tied", init_range=0.3, output_dropout=0.5)
    model.decoder.encoder.dropout_out.p = 0.5
    adapt(model)
    read = batches(model, text)
    assert torch.equal(scores_of(model, read), scores_of(model, read))


def test_every_stream_has_its_own_features(model_of, batches, as_lines):
    settings = SETTINGS.replaced(dynamic_parameters="features", dynamic_rate=0.05)
    model = adapt(model_of(WORDS, "tied", init_range=0.3).double(), settings)
    lines = [[4 + (i * i + n) % 8 for i in range(12)] + [EOS] for n in (1, 2, 5)]
    together = [[], [], []]
    for sample in batches(model, as_lines(*lines), streams=3):
        values = iter(scores_of(model, [sample]).tolist())
        for row, target in zip(together, sample["target"], strict=True):
            row += [next(values) for _ in range(int((target != PAD).sum()))]
    for line, found in zip(lines, together, strict=True):
        assert found == pytest.approx(scores_of(model, batches(model, as_lines(line))).tolist(), abs=1e-10)
    one_stream = scores_of(model, batches(model, as_lines(*lines)))
    assert one_stream[26:].tolist() != pytest.approx(together[2], abs=1e-3)


def test_features_follow_the_hypotheses(model_of):
    """What beams have said word by word gives what the same words give as a text."""
    settings = SETTINGS.replaced(dynamic_parameters="features", dynamic_block=2)
    model = adapt(model_of(WORDS, "tied", init_range=0.3).double(), settings)
    tokens = torch.tensor([[EOS, 4, 6, 5, 4, 10, 7, 7], [EOS, 7, 7, 4, 11, 7, 5, 9]])

    def generated(rows, orders):
        state, found = {}, None
        for t in range(rows.size(1)):
            found = model.decoder(rows[:, : t + 1], incremental_state=state)[0][:, -1]
            if t in orders:
                model.decoder.reorder_incremental_state_scripting(state, orders[t])
                rows = rows[orders[t]]
        return torch.log_softmax(found, -1)[:, 2:]

    with torch.no_grad():
        straight = generated(tokens, {})
        swapped = generated(tokens, {2: torch.tensor([1, 0]), 5: torch.tensor([1, 0])})
        torch.testing.assert_close(swapped, straight, rtol=0, atol=1e-12)
        copied = generated(tokens, {3: torch.tensor([1, 1])})
        torch.testing.assert_close(copied, straight[[1, 1]], rtol=0, atol=1e-12)
        model.decoder.adapter = None
        assert (generated(tokens, {}) - straight).abs().max() > 1e-3


@pytest.mark.parametrize("head, choice", [("compositional_output", "encoder"), ("tied", "encoder"), ("tied", "features")])
def test_an_open_vocabulary_goes_with_what_no_word_has(model_of, head, choice):
    lines = ["cat dog lion swim", "zebra run wolf cat", "dog lion run feline", "cat dog lion zebra"]  # blocks end where they do
    mass = NewWordMass(0.5, fixed=True)

    def scorer_of(settings):
        return OpenVocabularyScorer(adapt(model_of(WORDS, head, init_range=0.3), settings), mass, running=True, block=BLOCK)

    settings = settings_of(choice, uniform_weight=0.1)
    hub = Namespace(models=[adapt(model_of(WORDS, head, init_range=0.3), settings)], device="cpu")
    hub.task = Namespace(dictionary=hub.models[0].decoder.dictionary)
    closed = [score for score, _ in score_lines(hub, lines, running=True)]
    scorer = scorer_of(settings)
    assert [scorer.score(line)[0] for line in lines] == pytest.approx([c + 5 * math.log(0.5) for c in closed], abs=1e-5)
    scorer, static = scorer_of(settings), scorer_of(settings.replaced(dynamic_rate=0.0))
    pairs = [(scorer.score(line)[0], static.score(line)[0]) for line in [*lines, "puppy", "dog puppy lion puppy"]]
    assert pairs[0] == pytest.approx(pairs[0][::-1], abs=1e-6) and all(abs(a - b) > 1e-5 for a, b in pairs[1:])
    for refused in ("all", "head"):
        with pytest.raises(OptionError, match=f"--dynamic-parameters {refused} .*encoder or features"):
            scorer_of(settings_of(refused))
        with pytest.raises(OptionError, match="no word can be added"):
            adapt(model_of(WORDS, head), settings_of(refused)).decoder.add_words(["puppy"])


def test_refusals_say_why(model_of, batches, text):
    model = adapt(model_of(WORDS, "tied"))
    with pytest.raises(OptionError, match="2 streams side by side.*--batch-size 1"):
        scores_of(model, batches(model, text, streams=2))
    with pytest.raises(OptionError, match="hypotheses of generation.*features"):
        model.decoder(torch.tensor([[EOS, 4]]), incremental_state={})
    with pytest.raises(OptionError, match="lines by themselves"):
        model(torch.tensor([[EOS, 4]]))
    with torch.inference_mode(), pytest.raises(OptionError, match=r"inference_mode.*no_grad"):
        model(**batches(model, text)[0]["net_input"])
    with pytest.raises(OptionError, match="float16.*--fp16"):
        model.half()(**batches(model, text)[0]["net_input"])
    model.decoder.adapter = Adapter(SETTINGS, model.decoder.real_words(), torch.zeros(12))
    with pytest.raises(OptionError, match="gradient-statistics --path CHECKPOINT"):
        model(**batches(model, text)[0]["net_input"])


# -- statistics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["all", "encoder", "features"])
@pytest.mark.parametrize("head", ["tied", "compositional_output"])
def test_statistics_are_the_root_mean_squares_of_gradients(model_of, batches, text, head, choice):
    model = model_of(WORDS, head, init_range=0.3).double()
    dataset = StreamDataset(text, "text", model.decoder.dictionary, independent_lines=False, carries_state=True)
    leaves = model.decoder.leaves(choice)
    found = statistics_of(mean_squares(model, leaves, dataset, Place(2, 4), most=3))
    squares = []
    for sample in batches(model, text, streams=2, block=4)[:3]:
        with torch.enable_grad(), leaves.acting():
            lprobs = torch.log_softmax(model(**sample["net_input"])[0], -1)
        lprobs = lprobs.gather(2, sample["target"].unsqueeze(2))[..., 0][sample["target"] != PAD]
        slopes = torch.autograd.grad(-lprobs.mean(), list(leaves.tensors.values()))
        squares.append([slope.square() for slope in slopes])
    assert len(squares) == 3
    expected = [torch.stack(of).mean(0).sqrt() for of in zip(*squares, strict=True)]
    for one, other in zip(found.rms.values(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-14)
    assert found.mean == pytest.approx(sum(float(one.mean()) for one in expected) / len(expected))


def test_statistics_move_by_word(model_of, tmp_path):
    model = model_of(WORDS, "tied")
    leaves = model.decoder.leaves("all")
    statistics = random_statistics(leaves)
    save_statistics(path_of(tmp_path, model.decoder, "all"), statistics, model.decoder, leaves)
    assert all(
        torch.equal(one, statistics.rms[name]) for name, one in load_statistics(tmp_path, model.decoder, "all").rms.items()
    )
    other = model_of([*WORDS[::-1], "new"], "tied")
    state = {name: one for name, one in model.state_dict().items() if "words" not in name}
    other.load_state_dict(state, strict=False)
    moved = load_statistics(tmp_path, other.decoder, "all")
    assert moved.mean == statistics.mean
    for name in ("words.embedding.weight", "words.head.bias.weight"):
        before, after = statistics.rms[name], moved.rms[name]
        assert torch.equal(after[:4], before[:4]) and torch.equal(after[4:12], before[4:].flip(0))
        torch.testing.assert_close(after[12], before.mean(0))
    name = "encoder.layers.0.weight_hh_l0"
    assert torch.equal(moved.rms[name], statistics.rms[name])


def test_statistics_belong_to_their_model(model_of, tmp_path):
    model = model_of(WORDS, "tied")
    leaves = model.decoder.leaves("all")
    with pytest.raises(OptionError, match="has no gradient statistics of this model.*--dynamic-parameters all"):
        load_statistics(tmp_path, model.decoder, "all")
    path = path_of(tmp_path, model.decoder, "all")
    save_statistics(path, random_statistics(leaves), model.decoder, leaves)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        load_statistics(tmp_path, model.decoder, "all")
    path.write_bytes(whole)
    with torch.no_grad():
        next(model.decoder.encoder.parameters())[0] += 1
    with pytest.raises(OptionError, match="no gradient statistics of this model"):
        load_statistics(tmp_path, model.decoder, "all")
    path.rename(path_of(tmp_path, model.decoder, "all"))
    with pytest.raises(DataError, match="another format or model"):
        load_statistics(tmp_path, model.decoder, "all")


def test_gradients_that_are_nothing_are_refused():
    with pytest.raises(DataError, match="mean size of gradients is 0"):
        statistics_of({"a": torch.zeros(3)})
    with pytest.raises(DataError, match="mean size of gradients is nan"):
        statistics_of({"a": torch.full((3,), math.nan)})
