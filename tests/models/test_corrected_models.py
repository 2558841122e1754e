"""Models whose composed words are corrected: other dictionaries, added words, a learning rate of what is composed."""

import pytest
import torch

from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.loading import leave_out_corrections
from fairseq_groc.tasks.building import slowed

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]
TOKENS = torch.tensor([[2, 4, 5, 7]])


@pytest.fixture
def corrected(model_of):
    """Return a function from words to a model in which all words but the last have a correction."""

    def build(words, **options):
        model = model_of(words, corrections="both", **options)
        torch.manual_seed(7)
        for rows in (model.decoder.matrices.corrections.rows, model.decoder.matrices.corrections.bias):
            torch.nn.init.normal_(rows.weight[4:-1])
        return model.eval()

    return build


@pytest.mark.parametrize("width", [6, 3])
def test_corrections_move_by_word_into_another_dictionary(corrected, model_of, width, caplog):
    first = corrected(WORDS, correction_dim=width)
    second = model_of(["wolf", *reversed(WORDS)], corrections="both", correction_dim=width)
    with caplog.at_level("INFO"):
        second.load_state_dict(first.state_dict(), strict=True)
    assert "corrections: 5 of 11 words of the dictionary have one" in caplog.text
    plain = model_of(["wolf", *reversed(WORDS)])
    others = {k: v for k, v in second.state_dict().items() if "corrections" not in k and k != "decoder._extra_state"}
    plain.load_state_dict(others, strict=True)
    old, new = first.decoder.dictionary, second.decoder.dictionary
    with torch.no_grad():
        matrices, moved, composed = (model.eval().decoder.matrices() for model in (first, second, plain))
    for before, after, alone in zip(matrices, moved, composed, strict=True):
        for word in WORDS[:-1]:
            torch.testing.assert_close(after[new.index(word)], before[old.index(word)])
            assert not torch.allclose(after[new.index(word)], alone[new.index(word)])
        for word in ("wolf", WORDS[-1]):  # exactly what they are composed of
            assert torch.equal(after[new.index(word)], alone[new.index(word)])
    leave_out_corrections(second.decoder)
    with torch.no_grad():
        assert all(torch.equal(left, alone) for left, alone in zip(second.decoder.matrices(), composed, strict=True))
    with pytest.raises(OptionError, match="--no-corrections: this model's words have none"):
        leave_out_corrections(second.decoder)


@pytest.mark.parametrize("used_before", [False, True])
def test_added_words_are_what_they_are_composed_of(corrected, model_of, lexicon, used_before):
    model = corrected(WORDS)
    loaded = model_of([*WORDS, "wolf", "kitty"], corrections="both", correction_dim=3)
    loaded.load_state_dict(model.state_dict(), strict=True)
    with torch.no_grad():
        if used_before:
            model(TOKENS)
        model.decoder.add_words(["wolf", "kitty"], lexicon)
        for ours, theirs in zip(model.decoder.matrices(), loaded.eval().decoder.matrices(), strict=True):
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(model(TOKENS)[0], loaded(TOKENS)[0])


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_what_is_composed_may_learn_more_slowly(corrected, scale):
    moved = []
    for share in (1.0, scale):
        model = corrected(WORDS)
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model(TOKENS)[0].logsumexp(-1).sum().backward()
        with slowed(model.decoder.matrices.embedding, share):
            optimizer.step()
        moved.append({name: parameter.detach() - before[name] for name, parameter in model.named_parameters()})
    for name, step in moved[0].items():
        share = scale if "words.embedding" in name else 1.0
        torch.testing.assert_close(moved[1][name], share * step, rtol=1e-4, atol=1e-7)
