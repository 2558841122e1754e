"""What the tests of lexicons share: WordNet, which is read once."""

import functools

import pytest

from fairseq_groc.lexicon import wordnet

read_once = functools.cache(wordnet._reader)


@pytest.fixture(scope="module", autouse=True)
def one_reader_of_wordnet():
    """NLTK reads WordNet's index for more than a second, and no lexicon changes what was read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordnet, "_reader", read_once)
        yield
