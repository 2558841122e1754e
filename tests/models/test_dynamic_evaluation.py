"""Dynamic evaluation against a reference of plain tensors in float64, and one figure through every door."""

import copy
import math
from argparse import Namespace

import pytest
import torch
from decoders import DECODERS
from dynamics import BLOCK, DECAY, EOS, EPSILON, PAD, RATE, SETTINGS, WORDS, adapt, scores_of, settings_of
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.sequence_scorer import SequenceScorer

from fairseq_groc.adapters import Statistics
from fairseq_groc.adapters.dynamic import UpdateRule
from fairseq_groc.criterions.cache_interpolated_cross_entropy import CacheInterpolatedCrossEntropyCriterion
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.scoring import Place, score
from fairseq_groc.heads import HEADS


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
    expected = reference(model, text, model.decoder.adapter.opened["dynamic"], words_of)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert (found - scores_of(static, batches(static, text))).abs().max() > 1e-2


def test_rows_that_are_both_matrices_stay_one(model_of, batches, text):
    model = model_of(WORDS, "compositional_output", init_range=0.3, output_depth=0)
    with torch.no_grad():
        inputs, outputs, _ = model.decoder.matrices()
    shared = outputs is inputs or outputs.data_ptr() == inputs.data_ptr()
    assert ("E_out" in model.decoder.leaves("all").tensors) != shared
    model = adapt(model.double())

    def words_of(theta):
        return theta["E_in"], theta["E_in" if shared else "E_out"], theta["bias"]

    expected = reference(model, text, model.decoder.adapter.opened["dynamic"], words_of)
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


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", HEADS)
def test_every_door_sees_one_model(model_of, batches, text, head, choice):
    caches = {"local_weight": 0.1, "unigram_weight": 0.05, "unbounded_weight": 0.05}
    settings = settings_of(choice, **caches, uniform_weight=0.05, new_word_discount=0.5)
    model = model_of(WORDS, head, init_range=0.3, encoder="awd_lstm" if head == "tied" else "lstm")
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
    dataset = StreamDataset(text, "text", model.decoder.dictionary, independent_lines=False)
    found = score(model, dataset, Place(1, BLOCK), verify_every=1)
    assert len(found.sums) == dataset.num_tokens_total and float((1 - found.sums).abs().max()) <= 1e-6
    alone = score(model, dataset, Place(1, BLOCK))
    torch.testing.assert_close(found.adapted, alone.adapted, rtol=0, atol=1e-5)
