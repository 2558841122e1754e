"""What the tests of composed words share: a small embedding, and gradients of a weighted sum of what it returns."""

import pytest
import torch

from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder


@pytest.fixture
def embedding():
    torch.manual_seed(5)
    return CompositionalEmbedding(SurfaceEncoder(4, 3, [(1, 2), (3, 4)], 1), 4).double()


@pytest.fixture
def gradients():
    """Return a function from embeddings, weights and a module to the gradients of its parameters."""

    def of(rows, weights, module):
        module.zero_grad()
        (rows * weights).sum().backward()
        return [parameter.grad.clone() for parameter in module.parameters()]

    return of
