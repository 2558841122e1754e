"""The vector of a context that learns, alone of all that a model has, for each stream by itself."""

import numpy as np
import pytest
import torch
from dynamics import BLOCK, DECAY, EOS, EPSILON, PAD, SETTINGS, WORDS, adapt, random_statistics, scores_of

from fairseq_groc.adapters.statistics import load_statistics, path_of, save_statistics
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError

SCHEMA = Schema((Variable("topic", "category", ("sports", "arts"), (3, 1)),))
LEARNS = SETTINGS.replaced(dynamic_parameters="context", dynamic_rate=0.05)


def contexts(*topics):
    return Contexts(np.array(topics)[:, None], np.zeros((len(topics), 0)), np.arange(len(topics)))


@pytest.fixture
def build(model_of):
    def model(encoder="factor_cell", bias="rows"):
        adaptation = "factor" if ENCODERS[encoder].takes_context else "concat"
        options = {"context_dim": 3, "context_bias": bias, "context_adaptation": adaptation, "init_range": 0.3}
        return model_of(WORDS, "tied", schema=SCHEMA, encoder=encoder, **options).double()

    return model


@pytest.mark.parametrize("bias", ["none", "shift", "rows"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_vector_follows_the_same_rule(build, batches, as_lines, encoder, bias):
    model = build(encoder, bias)
    line = as_lines([4 + (i * i) % 8 for i in range(2 * BLOCK - 1)] + [EOS])
    adapt(model, LEARNS)
    statistics, adapter = model.decoder.adapter.opened["dynamic"], model.decoder.adapter
    first, second = batches(model, line, block=BLOCK, contexts=contexts(1))
    found = scores_of(model, [first, second])
    row, model.decoder.adapter = model.decoder.contexts.embedding.tables[0].weight, None
    trained = row.detach().clone()

    def loss():
        return float(-scores_of(model, [first]).mean())

    slope = torch.zeros(3).double()
    for i in range(3):  # central differences
        for sign in (1, -1):
            with torch.no_grad():
                row[1, i] = trained[1, i] + sign * 1e-5
            slope[i] += sign * loss() / 2e-5
        with torch.no_grad():
            row.copy_(trained)
    rms = statistics.rms["context"][0]
    with torch.no_grad():
        scores = scores_of(model, [first])  # the state after them is that of the vector as it was trained
        row[1] -= 0.05 * slope / (rms + EPSILON)
        expected = [*scores.tolist(), *scores_of(model, [second]).tolist()]
        row.copy_(trained)
    assert found.tolist() == pytest.approx(expected, abs=1e-7)
    model.decoder.adapter = adapter
    assert found[BLOCK:].tolist() != pytest.approx(scores_of(without(model), [first, second])[BLOCK:].tolist(), abs=1e-4)
    assert DECAY > 0  # it acts from the second step on, where it is not at 0


def without(model):
    model.decoder.adapter = None
    return model


def test_every_stream_has_its_own_vector(build, batches, as_lines):
    model = adapt(build(), LEARNS)
    lines = [[4 + (i * i + n) % 8 for i in range(12)] + [EOS] for n in (1, 2, 5)]
    together = [[], [], []]
    for sample in batches(model, as_lines(*lines), streams=3, contexts=contexts(1, 2, 1)):
        values = iter(scores_of(model, [sample]).tolist())
        for row, target in zip(together, sample["target"], strict=True):
            row += [next(values) for _ in range(int((target != PAD).sum()))]
    for line, topic, found in zip(lines, (1, 2, 1), together, strict=True):
        alone = scores_of(model, batches(model, as_lines(line), contexts=contexts(topic)))
        assert found == pytest.approx(alone.tolist(), abs=1e-10)


def test_a_model_without_contexts_has_no_vector(model_of):
    with pytest.raises(OptionError, match="reads no contexts"):
        adapt(model_of(WORDS, "tied"), LEARNS)


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features", "context"])
@pytest.mark.parametrize("bias", ["shift", "rows", "one-hot"])
def test_statistics_of_a_model_that_reads_contexts_come_back(build, tmp_path, bias, choice):
    """The rows of a context's values do not move with the words of a dictionary."""
    decoder = build(bias=bias).decoder
    leaves, digest = decoder.leaves(choice), decoder.rowless_fingerprint()
    saved = random_statistics(leaves)
    save_statistics(path_of(tmp_path, digest, choice), digest, saved, decoder, leaves.rows)
    found = load_statistics(tmp_path, decoder, choice)
    assert found.rms.keys() == saved.rms.keys() and all(torch.equal(found.rms[name], one) for name, one in saved.rms.items())


def test_rows_of_words_for_contexts_learn_with_the_head_and_rows_of_values_with_the_encoder(build):
    decoder = build().decoder
    values, words = "contexts.embedding.tables.0.weight", "words.context_rows.weight"
    for choice, learned in (("encoder", {values}), ("head", {values, words}), ("all", {values, words})):
        leaves = decoder.leaves(choice)
        assert leaves.tensors.keys() & {values, words} == learned and values not in leaves.rows
        assert (words in leaves.rows) == (words in learned)


def test_the_values_of_contexts_are_part_of_what_a_model_is_known_by(build):
    decoder = build().decoder
    before = decoder.rowless_fingerprint()
    with torch.no_grad():
        decoder.contexts.embedding.tables[0].weight[1] += 1
    assert decoder.rowless_fingerprint() != before
