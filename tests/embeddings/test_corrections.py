"""Corrections of composed embeddings, and training steps that compose a sample of the words."""

import pytest
import torch

from fairseq_groc.embeddings.corrections import RARE, Corrections
from fairseq_groc.embeddings.growth import add_words, rows_of
from fairseq_groc.embeddings.sampled_updates import Step, generator
from fairseq_groc.embeddings.sampled_words import SampledWords

pytestmark = pytest.mark.usefixtures("encoder_path")
WORDS = ["cat", "dog", "lion", "swim", "run", "kitty"]
FILTERS = [(1, 2), (3, 4)]


def corrections_of(width=4, dropout=0.3, where="both", words=WORDS):
    torch.manual_seed(2)
    corrections = Corrections(words, 4, width, dropout, where).double()
    for parameter in corrections.parameters():
        torch.nn.init.normal_(parameter)
    return corrections


def added(corrections):
    """Return what is added to embeddings and to the bias."""
    zeros = torch.zeros(len(corrections.rows.weight), 4).double()
    _, rows, bias = corrections.correct(zeros, zeros, zeros[:, 0])
    return rows, bias


@pytest.mark.parametrize("width", [4, 2])
@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_words_are_what_they_are_composed_of_and_their_correction(width, where):
    corrections, embeddings = corrections_of(width, where=where).eval(), torch.randn(6, 4).double()
    rows = corrections.rows.weight if width == 4 else corrections.rows.weight @ corrections.map.weight.t()
    for outputs in (embeddings, torch.randn(6, 4).double()):
        read, predicted, bias = corrections.correct(embeddings, outputs, embeddings[:, 0])
        torch.testing.assert_close(read, embeddings + rows if where != "output" else embeddings, rtol=0, atol=0)
        torch.testing.assert_close(predicted, outputs + rows if where != "input" else outputs, rtol=0, atol=0)
        assert torch.equal(bias, embeddings[:, 0] + corrections.bias.weight.squeeze(1) * (where != "input"))


def test_a_word_without_one_is_exactly_what_it_is_composed_of():
    corrections, embeddings = Corrections(WORDS, 4, 2, 0.3).double(), torch.randn(6, 4).double()
    with torch.no_grad():
        corrections.rows.weight[1] = 1
    assert corrections.present().tolist() == [False, True, False, False, False, False]
    read, predicted, bias = corrections.eval().correct(embeddings, embeddings, embeddings[:, 0])
    assert torch.equal(read[2:], embeddings[2:]) and torch.equal(predicted, read) and torch.equal(bias[2:], embeddings[2:, 0])
    assert not torch.equal(read[1], embeddings[1])


def test_whole_words_go_without_with_the_chance_and_the_same_in_every_run_of_a_step():
    words = [f"word{i}" for i in range(2000)]
    corrections = corrections_of(words=words).train()
    absent = []
    for number in (7, 8, 7):
        corrections.begin_step(generator(1, number))
        rows, bias = added(corrections)
        absent.append(rows.eq(0).all(1))
        assert torch.equal(rows.eq(0).any(1), absent[-1]) and torch.equal(bias.eq(0), absent[-1])
    assert torch.equal(absent[0], absent[2]) and not torch.equal(absent[0], absent[1])
    assert absent[0].double().mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 2000) ** 0.5)
    assert not added(corrections.eval())[1].eq(0).any()


def test_frequent_words_go_without_more_rarely():
    words, steps = ["rare", "known", "frequent"], 4000
    corrections = corrections_of(words=words).train()
    corrections.begin(torch.tensor([1, RARE, 4 * RARE]))
    absent = torch.zeros(3)
    for number in range(steps):
        corrections.begin_step(generator(1, number))
        absent += added(corrections)[1].eq(0)
    for found, chance in zip((absent / steps).tolist(), (0.3, 0.3, 0.075)):
        assert found == pytest.approx(chance, abs=4 * (chance * (1 - chance) / steps) ** 0.5)


def test_words_that_are_added_in_training_have_none():
    corrections = corrections_of(dropout=0.0).train()
    corrections.begin(torch.ones(6))
    corrections.begin_step(generator(1, 1))
    add_words(corrections, ["zz", "yy"])
    corrections.begin_step(generator(1, 2))
    rows, bias = added(corrections)
    assert not rows[6:].any() and not bias[6:].any() and rows[:6].all() and bias[:6].all()
    with rows_of(corrections, slice(4, 7)):
        zeros = torch.zeros(3, 4).double()
        assert torch.equal(corrections.correct(zeros, zeros, zeros[:, 0])[1], rows[4:7])


def test_words_that_training_lacks_are_never_corrected():
    corrections = Corrections(WORDS, 4, 4, 0.0).double().train()
    occurrences = torch.tensor([3, 2, 5, 0, 30, 1])
    assert corrections.begin(occurrences, least=3) == 3
    optimizer = torch.optim.Adam(corrections.parameters(), lr=0.1)
    for number in range(3):
        optimizer.zero_grad()
        corrections.begin_step(generator(1, number))
        sum(part.square().sum() + part.sum() for part in added(corrections)).backward()
        optimizer.step()
    assert torch.equal(corrections.present(), occurrences >= 3)
    assert corrections.begin(3 - occurrences.clamp(max=3)) == 3  # another text: those that have one keep it
    corrections.begin_step(generator(1, 9))
    assert not added(corrections)[1].eq(0)[::2].any()


@pytest.fixture
def vocabulary(vocabulary_of):
    return vocabulary_of(WORDS, [1, 3])


def test_some_words_are_composed_as_among_all(embedding, vocabulary):
    words = torch.tensor([9, 4, 2, 7])
    torch.testing.assert_close(embedding.of_words(vocabulary, words), embedding(vocabulary)[words], rtol=0, atol=1e-14)


def test_all_words_in_the_batch_are_a_full_update(embedding, vocabulary, gradients):
    weights, everything = torch.randn(vocabulary.num_words, 4).double(), torch.arange(vocabulary.num_words)
    whole = embedding(vocabulary)
    rows = SampledWords(0.1, 5, seed=1, share=1.0).embed(embedding, vocabulary, Step(3, everything))
    torch.testing.assert_close(rows, whole, rtol=0, atol=1e-13)
    for ours, theirs in zip(gradients(rows, weights, embedding), gradients(whole, weights, embedding)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_the_gradient_is_on_average_that_of_a_full_update(embedding, vocabulary, gradients):
    weights, batch = torch.randn(vocabulary.num_words, 4).double(), torch.tensor([4, 2])
    full = gradients(embedding(vocabulary), weights, embedding)
    sampled, sums, count = SampledWords(0.5, 10_000, seed=1), None, 1000
    sampled.importance.watch(torch.rand(vocabulary.num_words, 4))
    chances = sampled.chances(vocabulary.num_words, Step(1, batch))
    assert chances[batch].eq(1).all() and bool((chances > 0.12).all()) and chances.min() < 0.5
    sampled.importance.watch = lambda norms: None  # the chances stay
    for number in range(count):
        found = gradients(sampled.embed(embedding, vocabulary, Step(number, batch)), weights, embedding)
        sums = found if sums is None else [a + b for a, b in zip(sums, found)]
    for ours, theirs in zip(sums, full):
        assert (ours / count - theirs).norm() <= 0.15 * theirs.norm()


def test_words_that_were_not_drawn_follow_and_are_refreshed(embedding, vocabulary):
    sampled, nothing = SampledWords(1e-9, 3, seed=1), torch.tensor([4])
    first = sampled.embed(embedding, vocabulary, Step(0, nothing)).detach()
    with torch.no_grad():
        embedding.compose.weight.mul_(2)
    moved = sampled.embed(embedding, vocabulary, Step(1, nothing)).detach()
    assert torch.allclose(moved[4], 2 * first[4]) and not torch.allclose(moved[5], 2 * first[5])
    again = sampled.embed(embedding, vocabulary, Step(3, nothing)).detach()
    torch.testing.assert_close(again, embedding(vocabulary).detach(), rtol=0, atol=1e-13)
