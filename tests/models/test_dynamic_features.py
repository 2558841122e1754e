"""A matrix for each stream that learns: the same rule, apart from other streams, and with the hypotheses of a beam."""

import math
from argparse import Namespace
from contextlib import nullcontext

import pytest
import torch
from decoders import DECODERS
from dynamics import BLOCK, DECAY, EOS, EPSILON, PAD, SETTINGS, WORDS, adapt, scores_of

from fairseq_groc.adapters import Adapter, AdapterSettings, Memory, Statistics, TextAdapter
from fairseq_groc.adapters.dynamic import DynamicEvaluation, UpdateRule


@pytest.mark.parametrize("width", [4, 6, 9])
def test_features_follow_the_same_rule(model_of, batches, text, width):
    """Whatever the width of the rows that h meets; e is 6."""
    wide = dict(head="lookup", lookup_width="encoder", encoder="awd_lstm", decoder_output_dim=width)
    options = wide if width != 6 else dict(head="tied")
    settings = SETTINGS.replaced(dynamic_parameters="features", dynamic_rate=1.0)
    model = adapt(model_of(WORDS, init_range=0.3, **options).double(), settings)
    statistics, tokens = model.decoder.adapter.opened["dynamic"], [EOS, *torch.cat(list(text)).tolist()]
    found = scores_of(model, batches(model, text))
    model.decoder.adapter = None
    with torch.no_grad():
        h = model(torch.tensor([tokens[:-1]]))[1]["features"][0]
        _, outputs, bias = model.decoder.matrices()
    m, rms, expected = torch.zeros(width, width).double(), statistics.rms["features"], []
    for begin in range(0, len(h), BLOCK):
        part, targets = h[begin : begin + BLOCK], tokens[begin + 1 : begin + 1 + BLOCK]
        lprobs = torch.log_softmax((part + part @ m.t()) @ outputs.t() + bias, 1)
        expected += lprobs[range(len(targets)), targets].tolist()
        errors = lprobs.exp()  # of the scores: p - 1 at the target
        errors[range(len(targets)), targets] -= 1
        slope = (errors @ outputs).t() @ part / len(targets)
        m = m - (DECAY * rms / statistics.mean).clamp(max=1) * m - slope / (rms + EPSILON)
    assert found.tolist() == pytest.approx(expected, abs=1e-10) and float(m.detach().norm()) > 0.1


@pytest.mark.parametrize("arch", ["groc_lstm_lm", *DECODERS])
def test_every_stream_has_its_own_features(model_of, stock_model, batches, as_lines, arch):
    settings = SETTINGS.replaced(dynamic_parameters="features", dynamic_rate=0.05)
    model = model_of(WORDS, "tied", init_range=0.3) if arch == "groc_lstm_lm" else stock_model(arch, "tied", WORDS)
    model = adapt(model.double(), settings)
    lines = [[4 + (i * i + n) % 8 for i in range(12)] + [EOS] for n in (1, 2, 5)]
    together = [[], [], []]
    for sample in batches(model, as_lines(*lines), streams=3):
        values = iter(scores_of(model, [sample]).tolist())
        for row, target in zip(together, sample["target"], strict=True):
            row += [next(values) for _ in range(int((target != PAD).sum()))]
    for line, found in zip(lines, together, strict=True):
        assert found == pytest.approx(scores_of(model, batches(model, as_lines(line))).tolist(), abs=1e-10)
    one_stream = scores_of(model, batches(model, as_lines(*lines)))
    assert one_stream[26:].tolist() != pytest.approx(together[2], abs=1e-7)


@pytest.mark.parametrize("loss", [5.0, 20.0])
def test_one_stream_of_many_that_diverges_is_told_of(caplog, loss):
    m = torch.zeros(8, requires_grad=True)
    leaves = Namespace(tensors={"m": m}, origin={"m": torch.zeros(8)}, acting=nullcontext, read=lambda h: h)
    leaves.loss = lambda *_: m + torch.tensor([0.0] * 7 + [loss])
    model = Namespace(dictionary=WORDS, leaves=lambda *_: leaves)
    dynamic = DynamicEvaluation(UpdateRule(1.0, 0.0, 1.0, Statistics({"m": torch.ones(8)}, 1.0)), 1, "features")
    tokens = torch.zeros(8, 1, dtype=torch.long)
    dynamic.before_block(model, tokens)
    dynamic.after_block(model, tokens, torch.zeros(8, 1, 1), tokens)
    assert ("diverges: 20 nats a word" in caplog.text) == (loss > 5 * math.log(len(WORDS)))
    assert m.tolist() == [-0.5] * 8  # a gradient of 1, whatever the number of streams


@pytest.mark.parametrize("arch", ["groc_lstm_lm", *DECODERS])
def test_features_follow_the_hypotheses(model_of, stock_model, arch):
    settings = SETTINGS.replaced(dynamic_parameters="features", dynamic_block=2)
    model = model_of(WORDS, "tied", init_range=0.3) if arch == "groc_lstm_lm" else stock_model(arch, "tied", WORDS)
    model = adapt(model.double(), settings)
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
        assert (generated(tokens, {}) - straight).abs().max() > 1e-6


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
