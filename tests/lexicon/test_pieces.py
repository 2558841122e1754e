"""Pieces of words get what the words get that they are, and no others get anything."""

import itertools

import pytest
import torch

from fairseq_groc.dictionary import SPECIAL
from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.embeddings.vocabulary import BEGIN, END, FIRST_SPECIAL, Spelling, Vocabulary, spell
from fairseq_groc.lexicon import FileLexicon, PieceLexicon
from fairseq_groc.lexicon.base import Entry
from fairseq_groc.lexicon.tables import build_tables
from fairseq_groc.pieces import BEGINS, GOES_ON, MARKS, is_marked, letters_of, piece_of, word_of

WORDS = ["cat", "dog", "lion", "naïve", "zz"]
PARTS = {BEGINS: ["feline", "dog", "a", "@@"], GOES_ON: ["feline@@", "dog@@", "a@@"]}  # inside words; and before their ends


def spellings(forms, mark):
    symbols, offsets = spell([form.encode() for form in forms], 0, Spelling(mark=mark))
    return [tuple(symbols[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


def embedding_of():
    torch.manual_seed(1)
    return CompositionalEmbedding(SurfaceEncoder(6, 4, [(1, 4), (2, 4)], 1), 6).double().eval()


def of_tables(tables, mark=""):
    return Vocabulary(tables, [1, 2], spelled=Spelling(mark=mark))


def test_a_mark_is_spelled_as_an_end_that_is_missing():
    assert spellings(["▁cat", "cat", "▁", "c▁"], BEGINS) == [
        (BEGIN, *b"cat", END),
        (*b"cat", END),
        (BEGIN, END),
        (*"c▁".encode(), END),
    ]
    assert spellings(["cat", "cat@@", "@@"], GOES_ON) == [(BEGIN, *b"cat", END), (BEGIN, *b"cat"), (BEGIN, *b"@@", END)]
    assert spellings(["▁cat", "cat@@"], "") == [(BEGIN, *"▁cat".encode(), END), (BEGIN, *b"cat@@", END)]
    symbols, _ = spell([word.encode() for word in SPECIAL], spelled=Spelling(mark=BEGINS))
    assert symbols.tolist() == [symbol for i in range(4) for symbol in (BEGIN, FIRST_SPECIAL + i, END)]


@pytest.mark.parametrize("mark", MARKS)
def test_pieces_differ_in_their_spellings(mark):
    forms = [*PARTS[mark], *(piece_of(word, mark) for word in ("feline", "dog", "a", "ab"))]
    assert len(set(spellings(forms, mark))) == len(forms)


@pytest.mark.parametrize("mark", MARKS)
def test_words_come_back_from_their_pieces(mark):
    for word in WORDS:
        piece = piece_of(word, mark)
        assert word_of(piece, mark) == word and letters_of(piece.encode(), mark) == (word.encode(), True, True)
        assert is_marked(piece, mark) == (mark == BEGINS)
    assert [word_of(part, mark) for part in PARTS[mark]] == [None] * len(PARTS[mark])
    assert word_of("▁", BEGINS) is None and word_of("@@", GOES_ON) == "@@"


@pytest.mark.parametrize("mark", MARKS)
def test_tables_of_pieces_are_those_of_their_words(lexicon, mark):
    whole = build_tables([*SPECIAL, *WORDS], lexicon)
    pieces = [*(piece_of(word, mark) for word in WORDS), *PARTS[mark]]
    tables = build_tables([*SPECIAL, *pieces], PieceLexicon(lexicon, mark))
    own, theirs = tables.forms(), whole.forms()
    parts = (("relations", tables.relations, whole.relations), ("definitions", tables.definitions, whole.definitions))
    for _, ours, words in parts:
        assert [letters_of(own[i], mark) for i in ours] == [letters_of(theirs[i], "") for i in words] and len(words)
    for offsets, of_words in (
        (tables.relation_offsets, whole.relation_offsets),
        (tables.definition_offsets, whole.definition_offsets),
    ):
        assert offsets[: len(of_words)].tolist() == of_words.tolist() and set(offsets[len(of_words) - 1 :]) == {of_words[-1]}


@pytest.mark.parametrize("mark", MARKS)
def test_a_piece_that_is_a_word_has_the_word_s_embedding(lexicon, mark):
    embedding = embedding_of()
    whole = embedding(of_tables(build_tables([*SPECIAL, *WORDS], lexicon)))
    pieces = [*(piece_of(word, mark) for word in WORDS), *PARTS[mark]]
    found = embedding(of_tables(build_tables([*SPECIAL, *pieces], PieceLexicon(lexicon, mark)), mark))
    torch.testing.assert_close(found[: len(whole)], whole, rtol=0, atol=1e-14)
    dog, inside = (found[4 + pieces.index(piece)] for piece in (piece_of("dog", mark), PARTS[mark][1]))
    assert (dog - inside).abs().max() > 1e-3
    added = embedding(
        Vocabulary.of_words([], [1, 2], Spelling(mark=mark)).of_entries({piece: Entry() for piece in PARTS[mark]})
    )  # as words that come later
    torch.testing.assert_close(added, found[-len(PARTS[mark]) :], rtol=0, atol=1e-14)


def test_the_fingerprint_says_that_words_are_pieces(data):
    lexicon = FileLexicon(data / "mini.tsv")
    prints = {lexicon.fingerprint(), *(PieceLexicon(lexicon, mark).fingerprint() for mark in MARKS)}
    assert len(prints) == 3
