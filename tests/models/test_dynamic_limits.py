"""What dynamic evaluation must never do: see the future, leave a trace, or go on where it cannot."""

import copy
import math
from argparse import Namespace

import pytest
import torch
from dynamics import BLOCK, EOS, SETTINGS, WORDS, adapt, scores_of, settings_of

from fairseq_groc.adapters import Adapter
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.line_scores import score_lines
from fairseq_groc.open_vocabulary.new_words import NewWordMass
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", ["tied", "compositional_output"])
def test_no_score_knows_what_comes_after(model_of, batches, as_lines, head, choice):
    model = adapt(model_of(WORDS, head, init_range=0.3), settings_of(choice, unigram_weight=0.1))
    tokens = [4 + (i * i + 3) % 8 for i in range(17)] + [EOS]
    scores = scores_of(model, batches(model, as_lines(tokens)))
    for place in (0, 4, 5, 13):
        changed = [*tokens[:place], 4 if tokens[place] != 4 else 5, *tokens[place + 1 :]]
        other = scores_of(model, batches(model, as_lines(changed)))
        assert torch.equal(other[:place], scores[:place]) and not torch.equal(other[place:], scores[place:])


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("head", ["tied", "bilinear", "compositional_output"])
def test_what_was_trained_stays(model_of, batches, text, head, choice):
    model = model_of(WORDS, head, init_range=0.3)
    before, digest = copy.deepcopy(model.state_dict()), model.decoder.fingerprint()
    with torch.no_grad():
        matrices = model.decoder.matrices()
    adapt(model, settings_of(choice))
    for one in batches(model, text)[:3]:
        scores_of(model, [one])
        assert model.decoder.fingerprint() == digest
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        with torch.no_grad():
            assert all(torch.equal(*pair) for pair in zip(model.decoder.matrices(), matrices, strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("choice", ["all", "features"])
def test_an_exception_leaves_the_model_as_it_was(model_of, batches, text, monkeypatch, choice):
    model = adapt(model_of(WORDS, "tied", init_range=0.3), settings_of(choice))
    read, digest = batches(model, text), model.decoder.fingerprint()
    expected = scores_of(model, read)
    for where in ("query", "log_scores"):
        monkeypatch.setattr(model.decoder.matrices.head, where, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(**read[0]["net_input"])
        monkeypatch.undo()
    assert model.decoder.fingerprint() == digest and model.decoder.matrices.source is None
    assert model.decoder.scoring_layer.change is None
    assert torch.equal(scores_of(model, read), expected)


@pytest.mark.parametrize("choice", ["all", "encoder", "head", "features"])
@pytest.mark.parametrize("encoder, head", [("lstm", "tied"), ("awd_lstm", "tied"), ("awd_lstm", "compositional_output")])
def test_dropout_never_acts(model_of, batches, text, encoder, head, choice):
    rates = dict.fromkeys(("dropout", "dropout_in", "dropout_out", "embedding_dropout", "output_dropout", "feature_dropout"), 0.5)
    rates |= {"weight_dropout": 0.5} if encoder == "awd_lstm" else {}
    rates |= {"corrections": "both", "correction_dropout": 0.5} if head == "compositional_output" else {}
    model = model_of(WORDS, head, init_range=0.3, encoder=encoder, **rates)
    read = batches(model, text)
    assert not torch.equal(*(model.train()(**read[0]["net_input"])[0] for _ in range(2)))
    adapt(model.eval(), settings_of(choice))
    assert torch.equal(scores_of(model, read), scores_of(model, read))


def test_refusals_say_why(model_of, batches, text):
    model = adapt(model_of(WORDS, "tied"))
    with pytest.raises(OptionError, match="2 streams side by side.*--batch-size 1"):
        scores_of(model, batches(model, text, streams=2))
    with pytest.raises(OptionError, match="hypotheses of generation.*features"):
        model.decoder(torch.tensor([[EOS, 4]]), incremental_state={})
    with pytest.raises(OptionError, match="lines by themselves"):
        model(torch.tensor([[EOS, 4]]))
    with torch.inference_mode(), pytest.raises(OptionError, match=r"inference_mode.*no_grad"):
        model(**batches(model, text)[0]["net_input"])
    with pytest.raises(OptionError, match="float16.*--fp16"):
        model.half()(**batches(model, text)[0]["net_input"])
    model.decoder.adapter = Adapter(SETTINGS, model.decoder.real_words(), torch.zeros(12))
    with pytest.raises(OptionError, match="gradient-statistics --path CHECKPOINT"):
        model(**batches(model, text)[0]["net_input"])


@pytest.mark.parametrize("head, choice", [("compositional_output", "encoder"), ("tied", "encoder"), ("tied", "features")])
def test_an_open_vocabulary_goes_with_what_no_word_has(model_of, head, choice):
    lines = ["cat dog lion swim", "zebra run wolf cat", "dog lion run feline", "cat dog lion zebra"]  # blocks end where they do
    mass = NewWordMass(0.5, fixed=True)

    def scorer_of(settings):
        return OpenVocabularyScorer(adapt(model_of(WORDS, head, init_range=0.3), settings), mass, running=True, block=BLOCK)

    settings = settings_of(choice, uniform_weight=0.1)
    hub = Namespace(models=[adapt(model_of(WORDS, head, init_range=0.3), settings)], device="cpu")
    hub.task = Namespace(dictionary=hub.models[0].decoder.dictionary)
    closed = [score for score, _ in score_lines(hub, lines, running=True)]
    scorer = scorer_of(settings)
    assert [scorer.score(line)[0] for line in lines] == pytest.approx([c + 5 * math.log(0.5) for c in closed], abs=1e-5)
    scorer, static = scorer_of(settings), scorer_of(settings.replaced(dynamic_rate=0.0))
    pairs = [(scorer.score(line)[0], static.score(line)[0]) for line in [*lines, "puppy", "dog puppy lion puppy"]]
    assert pairs[0] == pytest.approx(pairs[0][::-1], abs=1e-6) and all(abs(a - b) > 1e-5 for a, b in pairs[1:])
    for refused in ("all", "head"):
        with pytest.raises(OptionError, match=f"--dynamic-parameters {refused} .*encoder or features"):
            scorer_of(settings_of(refused))
        with pytest.raises(OptionError, match="no word can be added"):
            adapt(model_of(WORDS, head), settings_of(refused)).decoder.add_words(["puppy"])


@pytest.mark.parametrize("choice", ["all", "encoder", "features"])
def test_no_block_encodes_the_words_again(model_of, batches, text, monkeypatch, choice):
    model = adapt(model_of(WORDS, "compositional_output", init_range=0.3), settings_of(choice))
    embedding, calls = model.decoder.matrices.embedding, []
    encode = embedding.forward
    monkeypatch.setattr(embedding, "forward", lambda *given: calls.append(1) or encode(*given))
    scores_of(model, batches(model, text))
    assert len(calls) <= 1
