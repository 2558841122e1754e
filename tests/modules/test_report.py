"""The report's arithmetic."""

import math

import pytest
import torch

from fairseq_groc.evaluation.report import add, lengths, perplexities, tally
from fairseq_groc.modules.probabilities import LOG_ZERO

TARGETS = torch.tensor([4, 5, 2, 6])
KNOWN = torch.tensor([False, False, True, False, True, True, False])


def test_an_impossible_token_makes_the_perplexity_infinite_and_is_counted():
    own = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.0])).clamp(min=LOG_ZERO)
    adapted = torch.log(torch.tensor([0.5, 0.25, 0.5, 0.125]))
    report = perplexities(
        add([tally(TARGETS[:2], adapted[:2], own[:2], KNOWN), tally(TARGETS[2:], adapted[2:], own[2:], KNOWN)]), 8, 16
    )
    assert report["all"]["perplexity"] == pytest.approx((2 * 4 * 2 * 8) ** (1 / 4)) and report["all"]["impossible"] == 0
    assert report["all"]["model_perplexity"] == math.inf and report["known"]["model_perplexity"] == pytest.approx(16 ** (1 / 3))
    assert (report["known"]["share"], report["new"]["share"]) == (0.75, 0.25) and report["new"]["perplexity"] == pytest.approx(8)
    assert (report["bits_per_character"], report["bits_per_byte"]) == (pytest.approx(7 / 8), pytest.approx(7 / 16))


def test_words_are_as_long_as_their_characters_and_a_blank():
    sizes = lengths(["<s>", "<pad>", "</s>", "<unk>", "né"])
    assert sizes[2].tolist() == [0, 0] and sizes[4].tolist() == [3, 4]
