"""The loss in chunks of the vocabulary against fairseq's formula over all words at once."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_groc.modules.chunked_loss import chunked_cross_entropy
from fairseq_groc.modules.probabilities import uniform_mixture, uniform_mixture_at

N, V, D, IGNORED = 13, 41, 6, 1
# forward and backward, on top of the reference's own error in the same precision
TOLERANCES = {torch.float32: (1e-5, 5e-4), torch.float16: (1e-3, 1e-3), torch.bfloat16: (1e-2, 1e-2)}


def problem(bias_size=1.0, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    features, embeddings, bias = draw(N, D), draw(V, D), draw(V) * bias_size
    targets = torch.randint(2, V, (N,), generator=generator)
    targets[0], targets[1], targets[-1], targets[5] = V - 1, 2, IGNORED, IGNORED  # the first and the last word
    leaves = [t.to(dtype).requires_grad_() for t in (features, embeddings, bias)]
    return leaves, targets, draw(N)


def whole(features, embeddings, bias, targets):
    logits = F.linear(features, embeddings, bias)
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(wide, targets, ignore_index=IGNORED, reduction="none")


def gradients(losses, leaves, weights):
    return torch.autograd.grad((losses * weights.to(losses.dtype)).sum(), leaves)


@pytest.mark.parametrize("chunk", [1, 7, 40, 41, 1000])
@pytest.mark.parametrize("bias_size", [0.0, 1.0, 300.0])
def test_equals_the_whole_softmax(chunk, bias_size):
    leaves, targets, weights = problem(bias_size)
    fast, slow = chunked_cross_entropy(*leaves, targets, IGNORED, chunk), whole(*leaves, targets)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients(fast, leaves, weights), gradients(slow, leaves, weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bias_size", [1.0, 300.0])
@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_precisions(dtype, bias_size):
    forward, backward = TOLERANCES[dtype]
    leaves, targets, weights = problem(bias_size, dtype)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    fast, slow, truth = (chunked_cross_entropy(*leaves, targets, IGNORED, 7), whole(*leaves, targets), whole(*exact, targets))
    assert (fast - truth).abs().max() <= (slow - truth).abs().max() + forward
    expected = gradients(truth, exact, weights)
    for a, b, c in zip(gradients(fast, leaves, weights), gradients(slow, leaves, weights), expected, strict=True):
        assert (a - c).abs().max() <= (b - c).abs().max() + backward * c.abs().max()


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_a_target_that_dominates_has_no_loss(dtype):
    """The sum and the target's logit are rounded alike, so that they cancel."""
    (_, embeddings, bias), targets, _ = problem(0.0, dtype)
    features = (embeddings.detach().double()[targets] * 20).to(dtype)
    expected = whole(features.double(), embeddings.double(), bias.double(), targets)
    losses = chunked_cross_entropy(features, embeddings, bias, targets, IGNORED, 7)
    sure = (expected < 1e-3) & (targets != IGNORED)
    assert sure.sum() >= 3 and bool((losses >= 0).all())
    assert (losses - expected)[sure].abs().max() <= TOLERANCES[dtype][0]


@pytest.mark.parametrize("impossible", [slice(7, 14), slice(35, 41)])
@pytest.mark.parametrize("certain", [0.0, 2000.0])  # e to this power is no number
def test_impossible_words_and_a_chunk_of_nothing_else(impossible, certain):
    (features, embeddings, bias), targets, weights = problem()
    with torch.no_grad():
        bias[impossible] = float("-inf")
        bias[3] += certain
    targets[torch.isin(targets, torch.arange(V)[impossible])] = 20
    leaves = [features, embeddings, bias]
    fast, slow = chunked_cross_entropy(*leaves, targets, IGNORED, 7), whole(*leaves, targets)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients(fast, leaves, weights), gradients(slow, leaves, weights), strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    targets[0] = impossible.start
    assert chunked_cross_entropy(*leaves, targets, IGNORED, 7)[0] == float("inf")


def test_ignored_positions_cost_nothing():
    leaves, targets, weights = problem()
    losses = chunked_cross_entropy(*leaves, targets, IGNORED, 7)
    assert losses[targets == IGNORED].tolist() == [0, 0]
    features = gradients(losses, leaves, weights)[0]
    assert not features[targets == IGNORED].any() and features[targets != IGNORED].any(dim=1).all()


def test_the_logits_are_never_held_whole():
    leaves, targets, weights = problem()
    with Operations() as operations:
        gradients(chunked_cross_entropy(*leaves, targets, IGNORED, 7), leaves, weights)
    assert N * 7 <= operations.size < V * 7 < N * V  # a chunk, or the embeddings, whose gradient is all of it
    with Operations() as operations:
        gradients(whole(*leaves, targets), leaves, weights)
    assert operations.size == N * V


@pytest.mark.parametrize(("chunk", "chunks"), [(V, 1), (V - 1, 2), (7, 6)])
def test_only_the_last_chunk_is_not_computed_again(chunk, chunks):
    leaves, targets, weights = problem()
    with Operations() as operations:
        gradients(chunked_cross_entropy(*leaves, targets, IGNORED, chunk), leaves, weights)
    assert operations.products == 4 * chunks - 1
    assert operations.size == max(N * math.ceil(V / chunks), V * D)  # chunks of one size
    assert operations.alive == 1  # each goes before the next is made


class Operations(TorchDispatchMode):
    """Notes the largest tensor that any operation makes, the matrix products, and how many chunks of logits live at a time."""

    size = 0
    products = 0
    alive = 0

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        made = [part.numel() for part in tree_leaves(result) if isinstance(part, torch.Tensor)]
        self.size = max([self.size, *made])
        self.products += "mm" in str(function)
        if function is torch.ops.aten.mm.default and len(result) == N and result.shape[1] not in (1, D):
            self.made.append(StorageWeakRef(result.untyped_storage()))
        self.alive = max(self.alive, sum(not logits.expired() for logits in self.made))
        return result


def test_passes_gradcheck():
    leaves, targets, _ = problem()
    assert torch.autograd.gradcheck(lambda *x: chunked_cross_entropy(*x, targets, IGNORED, 9), leaves)


def test_the_uniform_mixture_of_one_word_is_that_of_the_distribution():
    words = torch.arange(V) > 3
    lprobs = F.log_softmax(torch.randn(N, V, dtype=torch.double) * 20, dim=1)
    targets = torch.randint(0, V, (N,))
    at = lambda x: x.gather(1, targets.unsqueeze(1)).squeeze(1)  # noqa: E731
    torch.testing.assert_close(uniform_mixture_at(at(lprobs), 0.1, words, targets), at(uniform_mixture(lprobs, 0.1, words)))
