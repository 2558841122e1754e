"""What the tests of the mathematics share."""

import pytest

from fairseq_groc.modules import bags


@pytest.fixture(params=["kernels", "torch"])
def encoder_path(request, monkeypatch):
    """Run a test with the compiled kernels, and again with PyTorch's own."""
    if request.param == "torch":
        monkeypatch.setattr(bags, "KERNELS", None)
    else:
        assert bags.KERNELS is not None, "numba is pinned in requirements.txt"
    return request.param
