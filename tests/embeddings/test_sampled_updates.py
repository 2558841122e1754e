"""Sparse and sampled updates: what is exact, what is expected, and when."""

import itertools

import pytest
import torch

from fairseq_groc.embeddings.sampled_updates import (
    PARTS,
    REFRESH_INTERVAL,
    SampledUpdates,
    Step,
    Updates,
    chance_as_parts,
    is_frozen,
)
from fairseq_groc.heads import CompositionalOutput
from fairseq_groc.heads.mappings import OutputNetwork
from fairseq_groc.models.word_matrices import WordMatrices

pytestmark = pytest.mark.usefixtures("encoder_path")
WORDS = ["cat", "dog", "lion", "swim"]
FILTERS = [(1, 2), (3, 4)]


@pytest.fixture
def vocabulary(vocabulary_of):
    return vocabulary_of(WORDS, [1, 3])


@pytest.mark.parametrize("dtype, tolerance", [(torch.double, 1e-13), (torch.float32, 1e-6)])
def test_chunks_of_forms_equal_all_at_once(embedding, vocabulary, dtype, tolerance, gradients):
    embedding.to(dtype)
    weights = torch.randn(vocabulary.num_words, 4, dtype=dtype)
    whole = embedding(vocabulary)
    expected = gradients(whole, weights, embedding)
    for chunk in (1, 3, (vocabulary.num_forms - 1) // 2):
        embedding.surface.chunk = chunk
        pieces = embedding(vocabulary)
        assert (pieces - whole).abs().max() <= tolerance * whole.abs().max()
        for a, b in zip(gradients(pieces, weights, embedding), expected, strict=True):
            assert (a - b).abs().max() <= tolerance * b.abs().max()


@pytest.mark.parametrize("sampled", [False, True])
def test_autocast_takes_either_path(embedding, vocabulary, sampled):
    embedding.float()
    updates = SampledUpdates(0.5, 10, seed=1)
    embed = (
        (lambda: updates.embed(embedding, vocabulary, Step(0, torch.tensor([4, 2]))))
        if sampled
        else lambda: embedding(vocabulary)
    )
    expected = embedding(vocabulary)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rows = embed()
    rows.float().sum().backward()
    assert (rows.float() - expected).norm() <= 2e-2 * expected.norm()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in embedding.parameters())


def test_chunks_bound_sampled_updates_too(embedding, vocabulary):
    some = torch.arange(0, vocabulary.num_forms, 2)
    whole, sizes = embedding.surface.features(vocabulary, some), []
    embedding.surface.chunk = 2
    embedding.surface.highways.register_forward_hook(lambda module, given, result: sizes.append(len(result)))
    torch.testing.assert_close(embedding.surface.features(vocabulary, some), whole, rtol=0, atol=1e-13)
    assert len(sizes) > 1 and max(sizes) <= 2


def test_a_fresh_sample_gives_the_embeddings_of_a_full_update(embedding, vocabulary):
    sampled = SampledUpdates(0.3, 10, seed=1)
    rows = sampled.embed(embedding, vocabulary, Step(0, torch.tensor([4, 2])))
    torch.testing.assert_close(rows, embedding(vocabulary), rtol=0, atol=1e-13)


def test_the_expected_gradient_is_that_of_a_full_update(embedding, vocabulary, gradients):
    weights = torch.randn(vocabulary.num_words, 4, dtype=torch.double)
    full = gradients(embedding(vocabulary), weights, embedding)
    chance = torch.ones(vocabulary.num_forms, dtype=torch.double)
    drawn = torch.tensor([0, 4, 5, 7, vocabulary.num_words, vocabulary.num_words + 2])  # words, related and gloss words
    chance[drawn] = torch.linspace(0.1, 0.8, len(drawn), dtype=torch.double)
    expected = [torch.zeros_like(g) for g in full]
    for draw in itertools.product([False, True], repeat=len(drawn)):
        mask = chance == 1
        mask[drawn] = torch.tensor(draw)
        probability = torch.where(mask, chance, 1 - chance)[drawn].prod()
        rows = SampledUpdates(0.3, 10, seed=1).embed_chosen(embedding, vocabulary, 0, mask, chance)
        for total, gradient in zip(expected, gradients(rows, weights, embedding), strict=True):
            total += probability * gradient
    for a, b in zip(expected, full, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_forms_are_drawn_as_often_as_their_chance_says(vocabulary):
    sampled, words = SampledUpdates(0.3, 1, seed=1), torch.tensor([4])
    sampled.importance.watch(torch.rand(vocabulary.num_forms, 3))
    sampled.importance.watch(torch.full((vocabulary.num_forms, 3), float("nan")))  # teaches nothing
    parts = [vocabulary.relations(), vocabulary.definitions()]
    choices = [sampled.choose(vocabulary, parts, Step(number, words)) for number in range(4000)]
    masks, chance = torch.stack([mask for mask, _ in choices]).double(), choices[0][1].double()
    assert (masks.mean(0) - chance).abs().max() < 0.04  # five standard deviations
    part = chance_as_parts(vocabulary, parts, words)
    others = part == 0
    others[words] = False
    assert chance[4] == 1 and bool((chance >= part).all()) and (part > 0).sum() > 2
    assert 0.075 <= chance[others].min() < chance[others].max() and chance[others].mean() < 0.4
    _, even = SampledUpdates(0.3, 1, seed=1).choose(vocabulary, parts, Step(0, words))
    torch.testing.assert_close(even[others], torch.full_like(even[others], 0.3))


def test_chances_of_parts_are_shares_of_each_bag(vocabulary):
    parts, words = [vocabulary.relations(), vocabulary.definitions()], torch.tensor([2, 4, 5])
    expected = torch.zeros(vocabulary.num_forms)
    for bags in parts:
        for word in words.tolist():
            bag = bags.items[int(bags.starts[word]) : int(bags.starts[word + 1])].long().tolist()
            for form in bag:
                expected[form] += PARTS / len(bag)
    assert expected.max() > 0 and (expected == 0).any()
    torch.testing.assert_close(chance_as_parts(vocabulary, parts, words), expected.clamp(max=1), rtol=1e-6, atol=0)


def test_draws_are_systematic():
    sampled = SampledUpdates(0.3, 1000, seed=1)
    draws = torch.stack([sampled.draw(50, number) for number in range(1000)])
    assert (draws.double().mean(0) - 0.075).abs().max() <= 1e-3
    assert all(draws[:, form].nonzero().squeeze(1).diff().max() <= 14 for form in range(50))  # once in every 4/0.3 updates
    again = SampledUpdates(0.3, 1000, seed=1)
    assert torch.equal(again.draw(50, 7), draws[7]) and not torch.equal(again.draw(50, 1007), draws[7])
    places = torch.stack([SampledUpdates(0.3, 1, seed=i).draw(50, i) for i in range(4000)]).double().mean(0)
    assert (places - 0.075).abs().max() < 0.025  # over all places in the cycle: five standard deviations
    short = SampledUpdates(0.1, REFRESH_INTERVAL, seed=1)  # shorter than a cycle: other forms have a turn in each
    often = torch.stack([short.draw(50, number) for number in range(200 * REFRESH_INTERVAL)]).double().mean(0)
    assert (often - 0.025).abs().max() < 0.009  # five standard deviations of half a turn in 20 updates


def test_features_are_stale_until_they_are_drawn_or_refreshed(embedding, vocabulary):
    sampled, chance = SampledUpdates(0.5, 3, seed=1), torch.ones(vocabulary.num_forms, dtype=torch.double)
    mask = torch.arange(vocabulary.num_forms) == 4

    def embed(number):
        return sampled.embed_chosen(embedding, vocabulary, number, mask, chance).detach().clone()

    torch.testing.assert_close(embed(0), embedding(vocabulary), rtol=0, atol=1e-13)
    with torch.no_grad():
        embedding.surface.projection.weight.mul_(2)
        torch.testing.assert_close(embed(1), embedding(vocabulary), rtol=0, atol=1e-13)  # the projection is never stale
        embedding.surface.highways[0].projection.weight.mul_(2)
    stale, now = embed(2), embedding(vocabulary).detach()
    assert (stale - now).abs().max() > 1e-3
    encoded = sampled.features.rows.times(embedding.surface.projection.weight)
    torch.testing.assert_close(encoded[4], embedding.surface(vocabulary)[4], rtol=0, atol=1e-13)
    torch.testing.assert_close(embed(3), now, rtol=0, atol=1e-13)

    kept = []
    for _ in range(2):  # batches of one update share the rows, and the old ones go before the new are made
        sampled.features.at(6, lambda: kept.append(sampled.features.rows) or embedding.surface.features(vocabulary))
    assert kept == [None]


def matrices_of(embedding, vocabulary, **updates):
    head = CompositionalOutput(4, OutputNetwork(4, 1, "relu", 0.0), "identity").double()
    impossible = torch.zeros(vocabulary.num_words, dtype=torch.bool)
    return WordMatrices(embedding, head, vocabulary, impossible, updates=Updates(seed=3, **updates)).train()


def test_frozen_steps_have_zero_gradients_and_current_values(embedding, vocabulary):
    matrices = matrices_of(embedding, vocabulary, probability=0.5)
    number = next(n for n in range(50) if is_frozen(0.5, 3, n))
    matrices.begin_step(number, torch.tensor([4]))
    frozen = matrices()
    torch.testing.assert_close(frozen[1], matrices.head(embedding(vocabulary))[0], rtol=0, atol=1e-13)
    (frozen[0].sum() + frozen[1].sum() + frozen[2].sum()).backward()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in matrices.parameters())
    assert matrices.training and embedding.training


def test_evaluation_is_never_frozen(embedding, vocabulary):
    matrices = matrices_of(embedding, vocabulary, probability=0.5)
    matrices.begin_step(next(n for n in range(50) if is_frozen(0.5, 3, n)), torch.tensor([4]))
    matrices()
    with torch.no_grad():
        embedding.surface.projection.weight.mul_(2)
        assert torch.equal(matrices.eval()()[0], embedding(vocabulary))
    matrices()[1].sum().backward()
    assert embedding.surface.projection.weight.grad.any()


def test_sampled_updates_train_every_parameter(embedding, vocabulary):
    sampled = SampledUpdates(0.3, 10, seed=1)
    for number in range(3):
        embedding.zero_grad()
        weights = torch.randn(vocabulary.num_words, 4, dtype=torch.double)
        (sampled.embed(embedding, vocabulary, Step(number, torch.tensor([4, 5]))) * weights).sum().backward()
        assert all(parameter.grad.any() for parameter in embedding.parameters())


def test_the_choice_depends_on_seed_and_update_alone():
    choices = [is_frozen(0.3, 7, n) for n in range(4000)]
    torch.manual_seed(99)
    assert choices == [is_frozen(0.3, 7, n) for n in range(4000)] != [is_frozen(0.3, 8, n) for n in range(4000)]
    assert abs(sum(choices) / 4000 - 0.7) < 0.03  # four standard deviations
    assert not any(is_frozen(1.0, 7, n) for n in range(100))
    assert len({is_frozen(0.3, 2**63 - 1, n) for n in range(50)}) == 2  # any seed that fairseq takes


def test_evaluation_is_never_sampled_nor_stale(embedding, vocabulary):
    matrices = matrices_of(embedding, vocabulary, fraction=0.3, interval=100)
    matrices.begin_step(0, torch.tensor([4]))
    matrices()
    with torch.no_grad():
        embedding.surface.highways[0].projection.weight.mul_(2)
        matrices.begin_step(1, torch.tensor([4]))
        assert not torch.equal(matrices()[0], embedding(vocabulary))  # features that were not drawn are old
        assert torch.equal(matrices.eval()()[0], embedding(vocabulary))


def test_large_gradients_in_half_precision_count_as_large():
    sampled = SampledUpdates(0.3, 10, seed=1)
    gradients = torch.full((4, 300), 1.0, dtype=torch.half)
    gradients[2] = 3e4
    sampled.importance.watch(gradients)
    assert sampled.importance._norms.argmax() == 2 and sampled.importance._norms.isfinite().all()
    assert sampled.importance.chances(4, 0.3)[2] == 1  # no more, or its gradient would be divided by too much
    known = sampled.importance._norms.clone()
    sampled.importance.watch(gradients * float("inf"))
    torch.testing.assert_close(sampled.importance._norms, known)


def test_pieces_hold_nothing_and_are_computed_again_in_the_backward_pass(embedding, vocabulary):
    embedding.surface.chunk = 1
    encoded = []
    embedding.surface.highways.register_forward_hook(lambda *_: encoded.append(1))
    rows = embedding.surface(vocabulary)
    assert len(encoded) == vocabulary.num_forms and held_by_functions(rows.grad_fn) == 0
    rows.sum().backward()
    assert len(encoded) == 2 * vocabulary.num_forms


def held_by_functions(node):
    """Return how many numbers hang on a graph as attributes of its functions, which a checkpoint does not let go of."""
    found, waiting, seen = 0, [node], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        for value in getattr(node, "__dict__", {}).values():
            parts = torch.utils._pytree.tree_leaves(value)
            found += sum(part.numel() for part in parts if isinstance(part, torch.Tensor))
    return found


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("sampled", [False, True])
def test_data_parallel_training_sees_every_gradient(embedding, vocabulary, process_group, sampled):
    matrices = matrices_of(embedding, vocabulary, **({"fraction": 0.3, "interval": 100} if sampled else {"probability": 0.5}))
    parallel = torch.nn.parallel.DistributedDataParallel(matrices)  # as fairseq: unused parameters are an error
    kinds = set()
    for number in range(12):
        matrices.begin_step(number, torch.tensor([4]))
        kinds.add(matrices.is_frozen())
        inputs, outputs, bias = parallel()
        (inputs.sum() + outputs.sum() + bias.sum()).backward()
    assert kinds == ({False} if sampled else {False, True})
