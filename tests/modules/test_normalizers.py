"""Normalisers equal those of all scores at once, whatever the cuts."""

import pytest
import torch

from fairseq_groc.modules import normalizers


@pytest.mark.parametrize("rows, words", [(256, 1024), (3, 4), (1, 50), (7, 1)])
def test_they_are_log_sum_exp_of_the_scores(monkeypatch, rows, words):
    monkeypatch.setattr(normalizers, "ROWS", rows)
    monkeypatch.setattr(normalizers, "WORDS", words)
    torch.manual_seed(1)
    h, embeddings, bias = torch.randn(10, 6), 20 * torch.randn(50, 6), torch.randn(50)
    bias[:9] = -torch.inf  # whole parts of it, too
    expected = (h.double() @ embeddings.double().t() + bias.double()).logsumexp(1)
    found = normalizers.log_normalizers(h, embeddings, bias)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)
    assert normalizers.log_normalizers(h[:0], embeddings, bias).shape == (0,)
