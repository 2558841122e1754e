"""Losses by frequency, against a table made by hand."""

import pytest
import torch

from fairseq_groc.evaluation.bins import by_frequency


def test_by_hand():
    counts = torch.tensor([0, 1, 2, 3, 100])
    targets = torch.tensor([1, 1, 2, 4, 4, 4])
    ours = torch.tensor([-1.0, -2.0, -3.0, -1.0, -1.0, -4.0])
    baseline = torch.tensor([-2.0, -2.5, -3.0, -0.5, -0.5, -0.5])
    low, high = by_frequency(targets, ours, baseline, counts, (0, 2, 50))  # nothing has 3 to 50 occurrences
    assert (low.label(), low.words, low.tokens) == ("1 to 2", 2, 3)
    assert (low.mean, low.median, low.word_median) == pytest.approx((0.5, 0.5, 0.0))  # 1, 0.5, 0; words 0.75 and 0
    assert low.relative == pytest.approx(100 * 1.5 / 7.5)
    assert (high.label(), high.words, high.tokens) == ("> 50", 1, 3)
    assert (high.mean, high.median) == pytest.approx((-4.5 / 3, -0.5))
    unseen = by_frequency(torch.tensor([0, 4]), ours[:2], baseline[:2], counts, (0, 2))
    assert [b.label() for b in unseen] == ["0", "> 2"]


def test_unk_is_in_no_bin_of_words():
    counts = torch.tensor([0, 1, 2, 3, 100])
    targets, ours = torch.tensor([3, 1, 3, 0]), torch.tensor([-1.0, -2.0, -3.0, -1.0])
    new, rare, unk = by_frequency(targets, ours, ours - 0.5, counts, (0, 2))
    assert [b.label() for b in (new, rare, unk)] == ["0", "1 to 2", "<unk>"]
    assert (unk.words, unk.tokens, unk.mean) == (1, 2, 0.5) and (unk.least, unk.most) == (None, None)
    assert len(by_frequency(targets[:1], ours[:1], ours[:1], counts, (0, 2))) == 1
