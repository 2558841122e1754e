"""Vocabulary and lexicon dropout: what is left out, what it does to the loss, and when."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.lexicon import NoLexicon
from fairseq_groc.modules.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.modules.heads import CompositionalOutput
from fairseq_groc.modules.heads.mappings import OutputNetwork
from fairseq_groc.modules.softmax_layer import WordMatrices
from fairseq_groc.modules.updates import SampledUpdates, Step, is_frozen
from fairseq_groc.modules.vocabulary_dropout import LexiconDropout, VocabularyDropout

pytestmark = pytest.mark.usefixtures("encoder_path")

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra", "tree"]  # 4 to 10
BATCH = torch.tensor([[4, 2], [6, 4]])


@pytest.fixture
def vocabulary(vocabulary_of):
    return vocabulary_of(WORDS, [1, 2])


@pytest.fixture
def matrices(vocabulary):
    torch.manual_seed(5)
    embedding = CompositionalEmbedding(SurfaceEncoder(4, 3, [(1, 2), (2, 3)], 1), 4)
    head = CompositionalOutput(4, OutputNetwork(4, 1, "relu", 0.0), "identity")
    impossible = torch.arange(4 + len(WORDS)) < 2
    return WordMatrices(embedding, head, vocabulary, impossible).double().train()


def test_the_batch_and_the_special_entries_stay_as_they_are():
    bias = torch.linspace(-1, 1, 11).index_fill(0, torch.tensor([0, 1]), float("-inf"))
    seen = set()
    for number in range(50):
        step = VocabularyDropout(0.75, 1)(bias, Step(number, BATCH))
        assert torch.equal(step[[0, 1, 2, 3, 4, 6]], bias[[0, 1, 2, 3, 4, 6]])
        others = (step - bias)[[5, 7, 8, 9, 10]].tolist()
        assert all(change == float("-inf") or change == pytest.approx(math.log(4), abs=1e-6) for change in others)
        seen.add(tuple(others))
    assert len(seen) > 10


@pytest.mark.parametrize("p", [0.1, 0.7])
def test_words_are_left_out_as_often_as_asked_for(p):
    coins = torch.stack([VocabularyDropout(p, 3).coins(40, number) for number in range(4000)]).double()
    assert (coins.mean(0) - p).abs().max() < 5 * math.sqrt(p * (1 - p) / 4000)
    pairs = torch.corrcoef(coins.t()) - torch.eye(40)
    assert pairs.abs().max() < 5 / math.sqrt(4000)


def test_the_choice_depends_on_seed_and_update_alone():
    def choices(seed):
        return [VocabularyDropout(0.5, seed).coins(30, n).tolist() for n in range(20)]

    first, lexicon = choices(7), LexiconDropout(0.5, 7).lacking(30, 4)
    torch.manual_seed(99)
    assert choices(7) == first != choices(8) and first[0] != first[1]
    assert torch.equal(LexiconDropout(0.5, 7).lacking(30, 4), lexicon)
    assert not torch.equal(lexicon, LexiconDropout(0.5, 7).lacking(30, 5))
    relations, definitions = lexicon
    assert not torch.equal(relations, definitions) and first[4] not in lexicon.tolist()
    longer = VocabularyDropout(0.5, 7).coins(60, 3)
    assert longer[:30].tolist() == first[3]  # words that are appended change nothing for the others


def test_the_expected_normaliser_and_its_gradient_are_those_of_all_words(monkeypatch):
    """Summed over all draws of five words, each with its probability."""
    p, bias = 0.3, torch.linspace(-2, 2, 9, dtype=torch.double).requires_grad_()
    dropout, batch = VocabularyDropout(p, 1), torch.tensor([4, 5])
    optional = [6, 7, 8]
    total, gradient, loss = 0.0, torch.zeros(9, dtype=torch.double), 0.0
    for draw in itertools.product([False, True], repeat=len(optional)):
        coins = torch.zeros(9, dtype=torch.bool)
        coins[optional] = torch.tensor(draw)
        coins[4] = True  # of the batch: it stays nevertheless
        monkeypatch.setattr(dropout, "coins", lambda size, number, coins=coins: coins)
        probability = math.prod(p if out else 1 - p for out in draw)
        step = dropout(bias, Step(0, batch))
        total += probability * step.exp().sum().item()
        gradient += probability * torch.autograd.grad(step.exp().sum(), bias)[0]
        loss += probability * (step.logsumexp(0) - step[4]).item()
    assert total == pytest.approx(bias.exp().sum().item(), rel=1e-12)
    torch.testing.assert_close(gradient, bias.detach().exp(), rtol=1e-12, atol=0)
    assert loss < (bias.logsumexp(0) - bias[4]).item()


def step_of(matrices, number, words=BATCH):
    matrices.zero_grad()
    matrices.begin_step(number, words)
    inputs, outputs, bias = matrices()
    h = torch.linspace(-1, 1, words.numel() * 4, dtype=torch.double).view(-1, 4)
    loss = matrices.head.losses(h, outputs, bias, words.flatten(), ignore_index=1, chunk=3).sum()
    loss.backward()
    return (inputs, outputs, bias), loss.item(), [parameter.grad.clone() for parameter in matrices.parameters()], h


def test_the_chunked_loss_and_its_gradient_are_those_of_the_plain_softmax(matrices):
    matrices.vocabulary_dropout, matrices.lexicon_dropout = VocabularyDropout(0.5, 1), LexiconDropout(0.5, 1)
    (_, _, bias), loss, gradients, h = step_of(matrices, 3)
    assert bias[2:].isinf().any() and math.isfinite(loss)
    matrices.zero_grad()
    _, outputs, bias = matrices()
    plain = F.cross_entropy(F.linear(h, outputs, bias), BATCH.flatten(), reduction="sum")
    plain.backward()
    assert loss == pytest.approx(plain.item(), rel=1e-12)
    for ours, parameter in zip(gradients, matrices.parameters()):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-9, atol=1e-12)


def test_a_chance_of_nothing_leaves_nothing_out_bit_for_bit(matrices):
    plain = step_of(matrices, 3)
    matrices.vocabulary_dropout, matrices.lexicon_dropout = VocabularyDropout(0.0, 1), LexiconDropout(0.0, 1)
    dropped = step_of(matrices, 3)
    assert plain[1] == dropped[1]
    assert all(torch.equal(a, b) for a, b in zip([*plain[0], *plain[2]], [*dropped[0], *dropped[2]]))


@pytest.mark.parametrize("number", [0, 5])
def test_evaluation_leaves_out_nothing(matrices, number):
    with torch.no_grad():
        expected = matrices.eval()()
        matrices.vocabulary_dropout, matrices.lexicon_dropout = VocabularyDropout(0.5, 1), LexiconDropout(0.5, 1)
        matrices.train().begin_step(number, BATCH)
        assert not torch.equal(matrices()[2], expected[2])
        matrices._kept = None
        assert all(torch.equal(a, b) for a, b in zip(matrices.eval()(), expected))


def test_a_word_that_lacks_its_entry_is_a_word_that_has_none(matrices, vocabulary, vocabulary_of):
    whole, nothing = matrices.embedding(vocabulary), matrices.embedding(vocabulary_of(WORDS, [1, 2], lexicon=NoLexicon()))
    has = torch.stack([bags.sizes() > 0 for bags in (vocabulary.relations(), vocabulary.definitions())])
    assert has.all(0).any() and (~has).all(0).any()
    matrices.lexicon_dropout = LexiconDropout(0.5, 1)
    kinds = set()
    for number in range(20):
        matrices.begin_step(number, BATCH)
        rows, lacking = matrices()[0], matrices.lexicon_dropout.lacking(11, number)
        both, none = lacking.all(0), ~lacking.any(0)
        torch.testing.assert_close(rows[both], nothing[both], rtol=0, atol=1e-14)
        assert torch.equal(rows[none], whole[none])
        one = (lacking[0] ^ lacking[1]) & has.all(0)
        assert ((rows - whole)[one].abs().amax(1) > 0).all() and ((rows - nothing)[one].abs().amax(1) > 0).all()
        kinds.update((lacking[0] * 2 + lacking[1]).tolist())
    assert kinds == {0, 1, 2, 3}


def test_with_sampled_updates_the_same_words_are_left_out(matrices):
    matrices.vocabulary_dropout, matrices.lexicon_dropout = VocabularyDropout(0.5, 1), LexiconDropout(0.5, 1)
    full = step_of(matrices, 0)
    matrices.sampled = SampledUpdates(0.3, 10, seed=1)
    sampled = step_of(matrices, 0)  # fresh features: those of a full update
    for a, b in zip(full[0], sampled[0]):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)
    assert all(gradient.isfinite().all() for gradient in sampled[2])


def test_frozen_steps_have_sub_vocabularies_too(matrices):
    matrices.full_probability, matrices.seed, matrices.vocabulary_dropout = 0.5, 3, VocabularyDropout(0.5, 1)
    number = next(n for n in range(50) if is_frozen(0.5, 3, n))
    (_, _, bias), _, gradients, _ = step_of(matrices, number)
    out = VocabularyDropout(0.5, 1).coins(11, number).index_fill(0, BATCH.flatten(), False) | matrices.impossible
    assert torch.equal(bias.isinf(), out) and out.sum() > 2
    assert not any(gradient.any() for gradient in gradients)
