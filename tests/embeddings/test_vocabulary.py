import itertools

import numpy as np
import pytest
import torch

from fairseq_groc.embeddings.vocabulary import (
    BEGIN,
    END,
    FILL,
    FIRST_SPECIAL,
    NUM_SYMBOLS,
    Spelling,
    Vocabulary,
    distinct_ngrams,
    num_symbols,
    spell,
)
from fairseq_groc.errors import OptionError

LONG = b"x" * 5000
FORMS = [
    b"<s>",
    b"<pad>",
    b"</s>",
    b"<unk>",
    b"cat",
    b"",
    b"a",
    "\N{GRINNING FACE}".encode(),
    LONG + b"y",
    LONG + b"z",
    b"</s>",
    b"aa",
]


def spellings(forms, units="bytes"):
    symbols, offsets = spell(forms, spelled=Spelling(units))
    return [tuple(symbols[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def test_spellings_by_hand():
    spelled = spellings(FORMS)
    assert spelled[:4] == [(BEGIN, FIRST_SPECIAL + i, END) for i in range(4)]
    assert spelled[4] == (BEGIN, *b"cat", END)
    assert spelled[5] == (BEGIN, END)
    assert spelled[7] == (BEGIN, 0xF0, 0x9F, 0x98, 0x80, END)
    assert len({BEGIN, END, FILL, *range(FIRST_SPECIAL, NUM_SYMBOLS), *range(256)}) == NUM_SYMBOLS == 263


def test_no_two_forms_share_a_spelling():
    spelled = spellings(FORMS)
    assert len(set(spelled)) == len(FORMS)
    assert spelled[8][:5001] == spelled[9][:5001]  # long words are whole: these differ in the last character alone
    assert spelled[2] != spelled[10]  # the entry </s> and a word of these four characters


def test_characters_as_units():
    words = ["é", "e\u0301", "\u07ff", "\u0800", "a", "\udcff"]  # the last: a byte that is no UTF-8
    forms = [*FORMS[:4], *(word.encode("utf-8", "surrogateescape") for word in words)]
    composed, decomposed, last, longer, ascii_letter, byte = spellings(forms, "characters")[4:]
    assert composed == decomposed == (BEGIN, NUM_SYMBOLS + ord("é") - 0x80, END) != spellings(forms)[4]
    assert last == (BEGIN, num_symbols("characters") - 1, END)  # two bytes in UTF-8, which the next has not
    assert longer == (BEGIN, 0xE0, 0xA0, 0x80, END) and ascii_letter == (BEGIN, ord("a"), END) and byte == (BEGIN, 0xFF, END)
    assert spellings(FORMS, "characters") == spellings(FORMS)  # ASCII, specials and emoji are as they were


@pytest.mark.parametrize("width", [1, 2, 3, 6, 9])
def test_windows_of_characters_equal_a_naive_loop(width):
    forms = [*FORMS[:4], *(word.encode() for word in ("ação", "coração", "cacao", "größe", "grosse", "жизнь", "\u07ff"))]
    *_, (ngrams, ids, starts) = distinct_ngrams(*spell(forms, spelled=Spelling("characters")), width)
    assert len({tuple(row) for row in ngrams.tolist()}) == len(ngrams)
    for i, form in enumerate(spellings(forms, "characters")):
        padded = list(form) + [FILL] * (width - len(form))
        expected = [padded[k : k + width] for k in range(len(padded) - width + 1)]
        assert ngrams[ids[starts[i] : starts[i + 1]]].tolist() == expected


@pytest.mark.parametrize("width", [1, 2, 3, 6, 9])
def test_windows_equal_a_naive_loop(width):
    *_, (ngrams, ids, starts) = distinct_ngrams(*spell(FORMS), width)
    assert len({tuple(row) for row in ngrams.tolist()}) == len(ngrams)  # distinct
    assert sorted(set(ids.tolist())) == list(range(len(ngrams)))  # and all of them used
    assert len(starts) == len(FORMS) + 1 and starts[-1] == len(ids)
    for i, form in enumerate(spellings(FORMS)):
        padded = list(form) + [FILL] * (width - len(form))
        expected = [padded[k : k + width] for k in range(len(padded) - width + 1)]
        assert ngrams[ids[starts[i] : starts[i + 1]]].tolist() == expected


def test_random_spellings_keep_their_windows():
    rng = np.random.default_rng(0)
    forms = [bytes(rng.integers(0, 256, rng.integers(0, 9), dtype=np.uint8)) for _ in range(300)]
    symbols, offsets = spell(forms, num_special=0)
    *_, (ngrams, ids, starts) = distinct_ngrams(symbols, offsets, 4)
    for form, first in zip(forms, starts[:-1], strict=True):
        assert ngrams[ids[first]].tolist() == ([BEGIN, *form, END] + [FILL] * 4)[:4]


def test_nothing_of_it_reaches_a_checkpoint():
    vocabulary = Vocabulary.of_words([form.decode("utf-8", "surrogateescape") for form in FORMS], [1, 3])
    assert vocabulary.state_dict() == {} and list(vocabulary.parameters()) == []
    assert (vocabulary.num_words, vocabulary.num_forms) == (len(FORMS), len(FORMS))
    assert all(buffer.dtype == torch.int32 for buffer in vocabulary.buffers())


def test_n_grams_of_another_width_are_none():
    with pytest.raises(OptionError, match="no n-grams of width 2: --char-filters has those of 1, 3"):
        Vocabulary.of_words(["<s>", "<pad>", "</s>", "<unk>", "cat"], [1, 3]).spellings(2)
