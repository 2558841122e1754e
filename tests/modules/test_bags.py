"""Gathers and scatters of the encoder: compiled kernels and PyTorch's own against plain loops."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from fairseq_groc.modules.bags import Bags, convolve_and_pool, distinct, pick

pytestmark = pytest.mark.usefixtures("encoder_path")


def lists(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, rows, size).tolist() for size in sizes]


def bags_of(items, rows=None):
    starts = np.concatenate([[0], np.cumsum([len(i) for i in items])])
    return Bags.from_lists(np.array([i for bag in items for i in bag], dtype=np.int64), starts, rows)


bags = st.lists(st.lists(st.integers(0, 4), max_size=9), min_size=1, max_size=7)
precisions = st.sampled_from([(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)])


@given(items=bags, precision=precisions, num_rows=st.sampled_from([5, None]))
def test_means_and_their_gradients(items, precision, num_rows):
    dtype, tolerance = precision
    rows = torch.randn(5, 19, dtype=dtype, requires_grad=True)
    weights = torch.randn(len(items), 19, dtype=dtype)
    means = bags_of(items, num_rows).mean(rows)
    assert means.dtype == dtype
    naive = torch.stack([rows[i].mean(0) if i else rows.new_zeros(19) for i in items])
    torch.testing.assert_close(means, naive, rtol=tolerance, atol=tolerance)
    naive = naive + 0 * rows.sum()  # bags without any item pass no gradient
    gradients = [torch.autograd.grad((m * weights).sum(), rows)[0] for m in (means, naive)]
    torch.testing.assert_close(*gradients, rtol=4 * tolerance, atol=4 * tolerance)


@given(items=bags, data=st.data())
def test_some_bags_are_picked(items, data):
    chosen = data.draw(st.lists(st.sampled_from(range(len(items))), min_size=1))
    picked, expected = pick(bags_of(items, 5), torch.tensor(chosen)), [items[i] for i in chosen]
    assert picked.items.tolist() == [item for bag in expected for item in bag] and picked.starts.diff().tolist() == [
        len(bag) for bag in expected
    ]


def naive_pool(ngrams, items, characters, weights, biases):
    """Conv1d on every n-gram alone, then a maximum over the set of each form's n-grams."""
    columns = []
    for grams, forms, weight, bias in zip(ngrams, items, weights, biases, strict=True):
        kernel = weight.view(len(weight), grams.shape[1], -1).transpose(1, 2)
        responses = F.conv1d(characters[grams.long()].transpose(1, 2), kernel, bias).squeeze(2)
        columns.append(torch.stack([responses[sorted(set(form))].max(0).values for form in forms]))
    return torch.cat(columns, dim=1)


@pytest.mark.parametrize("forms", [None, [4, 1, 3]])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_convolutions_and_maxima_of_several_widths(dtype, tolerance, forms):
    rng, widths, counts = np.random.default_rng(1), (1, 4, 6), (5, 17, 1)
    ngrams = [torch.from_numpy(rng.integers(0, 11, (40, width)).astype(np.int32)) for width in widths]
    items = [lists([1, 4, 2, 9, 30], 40, seed=width) for width in widths]
    characters = torch.randn(11, 3, dtype=dtype, requires_grad=True)
    weights = [torch.randn(c, w * 3, dtype=dtype, requires_grad=True) for c, w in zip(counts, widths, strict=True)]
    biases = [torch.randn(c, dtype=dtype, requires_grad=True) for c in counts]
    windows, chosen = [bags_of(i, 40) for i in items], None if forms is None else torch.tensor(forms)
    fast = convolve_and_pool(ngrams, windows, characters, weights, biases, chosen)
    naive = naive_pool(ngrams, items, characters, weights, biases)[forms or slice(None)]
    torch.testing.assert_close(fast, naive, rtol=0, atol=tolerance)
    outer, leaves = torch.randn(len(naive), sum(counts), dtype=dtype), [characters, *weights, *biases]
    gradients = [torch.autograd.grad((x * outer).sum(), leaves, retain_graph=True) for x in (fast, naive)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0]])
def test_what_is_no_number_is_not_hidden_by_the_maximum(order, encoder_path):
    if encoder_path == "torch":
        pytest.skip("the maximum of PyTorch's embedding_bag hides it")
    characters = torch.tensor([[float("nan")], [1.0], [2.0]])
    ngrams, filters = torch.tensor([[0], [1], [2]], dtype=torch.int32), torch.ones(1, 1)
    pooled = convolve_and_pool([ngrams], [bags_of([order], 3)], characters, [filters], [torch.zeros(1)])
    assert pooled.isnan().all()


def test_distinct_numbers_and_their_places():
    numbers = torch.randint(0, 30, (20,), generator=torch.Generator().manual_seed(1))
    for found, expected in zip(distinct(numbers, 30), numbers.unique(return_inverse=True), strict=True):
        assert torch.equal(found, expected)
