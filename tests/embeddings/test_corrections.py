"""Corrections of composed embeddings: which words have one, and when."""

import pytest
import torch

from fairseq_groc.embeddings.corrections import RARE, Corrections
from fairseq_groc.embeddings.growth import add_words, rows_of
from fairseq_groc.embeddings.sampled_updates import generator

pytestmark = pytest.mark.usefixtures("encoder_path")
WORDS = ["cat", "dog", "lion", "swim", "run", "kitty"]
FILTERS = [(1, 2), (3, 4)]


def corrections_of(width=4, dropout=0.3, where="both", words=WORDS):
    torch.manual_seed(2)
    corrections = Corrections(words, 4, width, dropout, where).double()
    for parameter in corrections.parameters():
        torch.nn.init.normal_(parameter)
    return corrections


def added(corrections):
    """Return what is added to embeddings and to the bias."""
    zeros = torch.zeros(len(corrections.rows.weight), 4).double()
    _, rows, bias = corrections.correct(zeros, zeros, zeros[:, 0])
    return rows, bias


@pytest.mark.parametrize("width", [4, 2])
@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_words_are_what_they_are_composed_of_and_their_correction(width, where):
    corrections, embeddings = corrections_of(width, where=where).eval(), torch.randn(6, 4).double()
    rows = corrections.rows.weight if width == 4 else corrections.rows.weight @ corrections.map.weight.t()
    for outputs in (embeddings, torch.randn(6, 4).double()):
        read, predicted, bias = corrections.correct(embeddings, outputs, embeddings[:, 0])
        torch.testing.assert_close(read, embeddings + rows if where != "output" else embeddings, rtol=0, atol=0)
        torch.testing.assert_close(predicted, outputs + rows if where != "input" else outputs, rtol=0, atol=0)
        assert torch.equal(bias, embeddings[:, 0] + corrections.bias.weight.squeeze(1) * (where != "input"))
    sum(part.sum() for part in (read, predicted, bias)).backward()
    assert all(parameter.grad is not None for parameter in corrections.parameters())  # workers wait for each


def test_a_word_without_one_is_exactly_what_it_is_composed_of():
    corrections, embeddings = Corrections(WORDS, 4, 2, 0.3).double(), torch.randn(6, 4).double()
    with torch.no_grad():
        corrections.rows.weight[1] = 1
    assert corrections.present().tolist() == [False, True, False, False, False, False]
    read, predicted, bias = corrections.eval().correct(embeddings, embeddings, embeddings[:, 0])
    assert torch.equal(read[2:], embeddings[2:]) and torch.equal(predicted, read) and torch.equal(bias[2:], embeddings[2:, 0])
    assert not torch.equal(read[1], embeddings[1])


def test_whole_words_go_without_with_the_chance_and_the_same_in_every_run_of_a_step():
    words = [f"word{i}" for i in range(2000)]
    corrections = corrections_of(words=words).train()
    absent = []
    for number in (7, 8, 7):
        corrections.begin_step(generator(1, number))
        rows, bias = added(corrections)
        absent.append(rows.eq(0).all(1))
        assert torch.equal(rows.eq(0).any(1), absent[-1]) and torch.equal(bias.eq(0), absent[-1])
    assert torch.equal(absent[0], absent[2]) and not torch.equal(absent[0], absent[1])
    assert absent[0].double().mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 2000) ** 0.5)
    assert not added(corrections.eval())[1].eq(0).any()


def test_frequent_words_go_without_more_rarely():
    words, steps = ["rare", "known", "frequent"], 4000
    corrections = corrections_of(words=words).train()
    corrections.begin(torch.tensor([1, RARE, 4 * RARE]))
    absent = torch.zeros(3)
    for number in range(steps):
        corrections.begin_step(generator(1, number))
        absent += added(corrections)[1].eq(0)
    for found, chance in zip((absent / steps).tolist(), (0.3, 0.3, 0.075), strict=True):
        assert found == pytest.approx(chance, abs=4 * (chance * (1 - chance) / steps) ** 0.5)


def test_words_that_are_added_in_training_have_none():
    corrections = corrections_of(dropout=0.0).train()
    corrections.begin(torch.ones(6))
    corrections.begin_step(generator(1, 1))
    add_words(corrections, ["zz", "yy"])
    corrections.begin_step(generator(1, 2))
    rows, bias = added(corrections)
    assert not rows[6:].any() and not bias[6:].any() and rows[:6].all() and bias[:6].all()
    with rows_of(corrections, slice(4, 7)):
        zeros = torch.zeros(3, 4).double()
        assert torch.equal(corrections.correct(zeros, zeros, zeros[:, 0])[1], rows[4:7])


def test_words_that_training_lacks_are_never_corrected():
    corrections = Corrections(WORDS, 4, 4, 0.0).double().train()
    occurrences = torch.tensor([3, 2, 5, 0, 30, 1])
    assert corrections.begin(occurrences, least=3) == 3
    optimizer = torch.optim.Adam(corrections.parameters(), lr=0.1)
    for number in range(3):
        optimizer.zero_grad()
        corrections.begin_step(generator(1, number))
        sum(part.square().sum() + part.sum() for part in added(corrections)).backward()
        optimizer.step()
    assert torch.equal(corrections.present(), occurrences >= 3)


def test_another_text_and_a_checkpoint_bring_further_words():
    corrections = corrections_of(dropout=0.0).train()
    with torch.no_grad():
        for rows in (corrections.rows, corrections.bias):
            rows.weight[3:] = 0
    assert corrections.begin(torch.tensor([0, 0, 0, 2, 0, 0])) == 1  # those that have one keep it

    def have():
        corrections.begin_step(generator(1, 9))
        return corrections._kept.squeeze(1).tolist()

    assert have() == [1, 1, 1, 1, 0, 0]
    assert corrections.begin(torch.tensor([0, 0, 0, 0, 5, 0])) == 1
    assert have() == [1, 1, 1, 0, 1, 0]
    corrections.load_state_dict(corrections_of().state_dict())
    assert have() == [1] * 6
