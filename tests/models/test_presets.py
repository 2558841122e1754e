"""Every preset builds and takes a training step, at the paper's sizes over a few words."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.heads import HEADS
from fairseq_groc.models.building import build_embedding, build_head
from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder, GrocLSTMLanguageModel
from fairseq_groc.models.word_decoder import attach_head
from fairseq_groc.options import SHARED_OPTIONS, HeadConfig, head_settings
from fairseq_groc.presets import PRESETS

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_a_training_step(name, vocabulary_of, dictionary_of):
    torch.manual_seed(1)
    options = PRESETS[name].options
    head_cfg = HeadConfig(**{key: value for key, value in options.items() if key in SHARED_OPTIONS})
    settings = head_settings(head_cfg)
    settings["output_cutoffs"] = [5, 8]  # so that no bin is empty
    decoder = GrocLSTMDecoder(dictionary_of(WORDS), Namespace(**{**options, "init_range": head_cfg.init_range}))
    attach_head(decoder, settings, vocabulary_of(WORDS, range(1, 7)), head_cfg.init_range)
    model = GrocLSTMLanguageModel(decoder).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, targets = torch.tensor([[2, 4, 5], [2, 6, 7]]), torch.tensor([[4, 5, 6], [6, 7, 8]])
    before = [parameter.detach().clone() for parameter in model.parameters()]
    F.cross_entropy(model(tokens)[0].flatten(0, 1), targets.flatten()).backward()
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True) if b.numel()]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert sum(moved) >= 0.9 * len(moved)


def test_every_head_that_the_papers_compare_is_a_preset():
    assert {preset.options.get("output_head", "compositional_output") for preset in PRESETS.values()} == set(HEADS) - {
        "mixture_of_softmaxes"  # a baseline of DRILL's Tables 1 to 3, not of its ablation
    }


# DRILL, Table 4, prints them in millions, truncated; AWD-LSTM's own program prints 24,221,600
PARAMETERS = {
    ("lookup", 10_000): 43_827_600,
    ("tied", 10_000): 24_221_600,
    ("bilinear", 10_000): 24_381_600,
    ("dual_nonlinear", 10_000): 24_542_400,
    ("1_layer", 10_000): 24_382_000,
    ("2_layers", 10_000): 24_542_400,
    ("3_layers", 10_000): 24_702_800,
    ("4_layers", 10_000): 24_863_200,
    ("residuals", 10_000): 24_863_200,
    ("standard_dropout", 10_000): 24_863_200,
    ("wikitext2", 33_278): 34_197_678,
}


@pytest.mark.parametrize("name, count", PARAMETERS)
def test_presets_of_drill_have_the_published_parameters_to_the_unit(name, count, dictionary_of):
    options = PRESETS[f"drill_lstm_lm_{name}"].options
    cfg = HeadConfig(**{key: value for key, value in options.items() if key in SHARED_OPTIONS})
    with torch.device("meta"):
        decoder = GrocLSTMDecoder(dictionary_of([f"w{i}" for i in range(count - 4)]), Namespace(**options))
        decoder.output_projection = torch.nn.Linear(decoder.encoder.width, count, device="meta")
        heads = (
            build_embedding([""] * count, 400, head_settings(cfg)),
            build_head([""] * count, 400, {**head_settings(cfg), "features_width": decoder.encoder.width}),
        )
    found = sum(p.numel() for part in (decoder.encoder, *heads) for p in part.parameters())
    assert found == PARAMETERS[name, count]


def test_words_are_dropped_from_what_is_read_alone(model_of):
    model = model_of(WORDS, "tied").train()
    decoder, tokens, read = model.decoder, torch.tensor([[2, 4, 5]]), []
    decoder.embedding_dropout = 0.999
    decoder.encoder.register_forward_hook(lambda module, args, output: read.append(args[0]))
    scores, extra = decoder(tokens)
    inputs, outputs, bias = decoder.matrices()
    assert not read[0].any() and inputs.any()
    torch.testing.assert_close(scores, decoder.matrices.log_scores(extra["features"], outputs, bias), rtol=0, atol=0)
    model.eval()(tokens)
    assert read[1].any()
