"""The report's arithmetic."""

import math

import pytest
import torch

from fairseq_groc.evaluation.characters import Size, pieces_of, raw_lines, size_of
from fairseq_groc.evaluation.report import parts_of, perplexities, text_table
from fairseq_groc.modules.probabilities import LOG_ZERO

TARGETS = torch.tensor([4, 5, 2, 6])
KNOWN = torch.tensor([False, False, True, False, True, True, False])


def test_an_impossible_token_makes_the_perplexity_infinite_and_is_counted():
    own = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.0])).clamp(min=LOG_ZERO)
    adapted = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.125]))
    report = perplexities(adapted, own, parts_of(TARGETS, KNOWN), Size(8, 16))
    assert report["all"]["perplexity"] == pytest.approx((2 * 4 * 2 * 8) ** (1 / 4)) and report["all"]["impossible"] == 0
    assert report["all"]["model_perplexity"] == math.inf and report["known"]["model_perplexity"] == pytest.approx(16 ** (1 / 3))
    assert (report["known"]["share"], report["new"]["share"]) == (0.75, 0.25) and report["new"]["perplexity"] == pytest.approx(8)
    assert (report["bits_per_character"], report["bits_per_byte"]) == (pytest.approx(7 / 8), pytest.approx(7 / 16))


def test_unk_is_neither_known_nor_new():
    scores = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.125]))
    for known in (KNOWN, ~KNOWN):
        report = perplexities(scores, scores, parts_of(torch.tensor([4, 3, 2, 6]), known), None)
        counts = [4, 2, 1, 1] if known is KNOWN else [4, 1, 2, 1]
        assert [report[part]["tokens"] for part in ("all", "known", "new", "unk")] == counts
        assert report["unk"]["perplexity"] == pytest.approx(4)
    report = perplexities(scores, scores, parts_of(TARGETS, KNOWN), None)
    assert report["bits_per_character"] is None and math.isnan(report["unk"]["perplexity"])
    none_new = {**perplexities(scores, scores, parts_of(TARGETS, ~KNOWN | KNOWN), None), "settings": {"adapters": {}}}
    row = text_table(none_new).splitlines()[3].split()
    assert row == ["new", "words", "0", "0.0%", "0", "-", "-"]


def test_a_text_is_as_long_as_its_characters_and_blanks():
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "né", "a", "\udcff"]
    lines = [torch.tensor(line) for line in ([4, 5, 2], [2], [3, 2], [6, 2])]
    assert list(raw_lines(lines, symbols)) == ["né a", "", "<unk>", "\udcff"]
    assert size_of(raw_lines(lines, symbols)) == (5 + 1 + 6 + 2, 6 + 1 + 6 + 2)


@pytest.mark.parametrize(
    "words, symbol",
    [
        (["▁the", "s"], "sentencepiece"),
        (["cat@@", "s"], "@@ "),
        (["cat", "##s"], None),
        (["Ġcat", "s"], None),
        (["cat</w>", "s"], None),
    ],
)
def test_pieces_are_known_by_their_marks(words, symbol):
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    assert pieces_of([*special, *words]).symbol == symbol
    whole = ["@-@", "@@", "#", "_", "c#", *(f"word{i}" for i in range(300))]
    assert pieces_of([*special, *whole]) is None and pieces_of([*special, *whole, words[0], words[1]]) is None
