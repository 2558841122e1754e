"""Training steps that compose a sample of the words."""

import pytest
import torch

from fairseq_groc.embeddings.sampled_updates import Step
from fairseq_groc.embeddings.sampled_words import SampledWords

pytestmark = pytest.mark.usefixtures("encoder_path")
WORDS = ["cat", "dog", "lion", "swim", "run", "kitty"]


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
    for ours, theirs in zip(gradients(rows, weights, embedding), gradients(whole, weights, embedding), strict=True):
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
        sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
    for ours, theirs in zip(sums, full, strict=True):
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


def test_of_what_words_are_made_of_a_sample_is_encoded_and_kept(embedding, vocabulary, monkeypatch):
    sampled, batch, encoded = SampledWords(1e-9, 10_000, seed=1, share=0.3), torch.tensor([4, 2, 6]), []
    sampled.embed(embedding, vocabulary, Step(0, batch))
    encode = embedding.surface.forward
    monkeypatch.setattr(embedding.surface, "forward", lambda v, forms=None: encoded.append(forms) or encode(v, forms))
    with torch.no_grad():
        embedding.surface.projection.weight.mul_(2)
    parts = {form for bags in embedding.parts(vocabulary) for word in batch for form in bags_of(bags, word)} - set(batch.tolist())
    for number in range(1, 40):
        sampled.embed(embedding, vocabulary, Step(number, batch))
    drawn = [set(forms.tolist()) for forms in encoded]
    assert all(set(batch.tolist()) <= forms <= parts | set(batch.tolist()) for forms in drawn)
    assert any(parts - forms for forms in drawn) and set.union(*drawn) >= parts
    torch.testing.assert_close(sampled.embed(embedding, vocabulary, Step(40, batch))[batch], embedding(vocabulary)[batch])


def bags_of(bags, word):
    return bags.items[bags.starts[word] : bags.starts[word + 1]].tolist()
