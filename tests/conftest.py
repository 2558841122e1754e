"""What the unit tests share: a lexicon, small enough to work by hand, and the words around it."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # figures are compared more closely than a GPU's agree
# the same few examples every time; fixtures are set up once for all of them
once = [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("short", max_examples=40, deadline=None, derandomize=True, suppress_health_check=once)
hypothesis.settings.load_profile("short")

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


class Lines(list):
    """Lines as an indexed dataset: a list of tensors with ``sizes``."""

    @property
    def sizes(self):
        return [len(line) for line in self]


@pytest.fixture(params=["kernels", "torch"])
def encoder_path(request, monkeypatch):
    """Run a test with the compiled kernels, and again with PyTorch's own."""
    from fairseq_groc.modules import bags

    if request.param == "torch":
        monkeypatch.setattr(bags, "KERNELS", None)
    else:
        assert bags.KERNELS is not None, "numba is pinned in requirements.txt"
    return request.param


@pytest.fixture
def data() -> Path:
    return Path(__file__).parent / "fixtures"


@pytest.fixture
def lexicon(data):
    from fairseq_groc.lexicon import FileLexicon

    return FileLexicon(data / "mini.tsv")


@pytest.fixture
def special():
    """The entries that begin every fairseq dictionary."""
    return list(SPECIAL)


@pytest.fixture
def vocabulary_of(lexicon):
    """Return a function from words and n-gram widths to the vocabulary of the special entries and the words."""
    from fairseq_groc.embeddings.vocabulary import BYTES, Vocabulary
    from fairseq_groc.lexicon.tables import build_tables

    def build(words, widths, lexicon=lexicon, spelled=BYTES):
        tables = build_tables(SPECIAL + list(words), lexicon)
        return Vocabulary(tables, widths, spelled=spelled)

    return build


@pytest.fixture
def lines_of():
    """Return a function from line lengths to lines: tokens 4, 5, 6, ..., each line ended by ``</s>`` (2)."""

    def build(*lengths):
        tokens = iter(range(4, 10_000))
        return Lines(torch.tensor([next(tokens) for _ in range(n - 1)] + [2]) for n in lengths)

    return build


@pytest.fixture
def as_lines():
    """Return a function from lists of tokens to lines."""
    return lambda *lines: Lines(torch.tensor(line) for line in lines)


@pytest.fixture
def dictionary():
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for i in range(400):
        dictionary.add_symbol(f"w{i}")
    return dictionary
