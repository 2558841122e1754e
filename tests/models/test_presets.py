"""Every preset builds and takes a training step, at the paper's sizes over a few words."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.contexts.schema import Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.dictionary import predictable_words
from fairseq_groc.heads import HEADS
from fairseq_groc.models.attaching import attach_head
from fairseq_groc.models.building import build_embedding, build_head, feature_width
from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder, GrocLSTMLanguageModel, build_encoder
from fairseq_groc.options import SHARED_OPTIONS, HeadConfig, head_settings
from fairseq_groc.presets import PRESETS

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
TOPICS = Schema((Variable("topic", "category", ("world", "sports", "business", "science"), (1, 1, 1, 1), unknown=1),))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_a_training_step(name, vocabulary_of, dictionary_of):
    torch.manual_seed(1)
    options = PRESETS[name].options
    head_cfg = HeadConfig(**{key: value for key, value in options.items() if key in SHARED_OPTIONS})
    settings = head_settings(head_cfg)
    settings["output_cutoffs"] = [5, 8]  # so that no bin is empty
    decoder = GrocLSTMDecoder(dictionary_of(WORDS), Namespace(**{**options, "init_range": head_cfg.init_range}))
    attach_head(decoder, settings, vocabulary_of(WORDS, range(1, 7)), head_cfg.init_range, schema=TOPICS)
    model = GrocLSTMLanguageModel(decoder).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, targets = torch.tensor([[2, 4, 5], [2, 6, 7]]), torch.tensor([[4, 5, 6], [6, 7, 8]])
    before = [parameter.detach().clone() for parameter in model.parameters()]
    contexts = {"categories": torch.tensor([[1], [2]]), "numbers": torch.zeros(2, 0), "index": torch.tensor([0, 1])}
    F.cross_entropy(model(tokens, context=contexts)[0].flatten(0, 1), targets.flatten()).backward()
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True) if b.numel()]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert sum(moved) >= 0.9 * len(moved)


# of the models that the papers' programs build, from their printed sizes; over the words of Penn Treebank and WikiText-2
PARAMETERS = {
    "drill_lstm_lm_lookup": (43_827_600, 79_931_778),
    "drill_lstm_lm_tied": (24_221_600, 33_556_078),
    "drill_lstm_lm_bilinear": (24_381_600, 33_716_078),
    "drill_lstm_lm_dual_nonlinear": (24_542_400, 33_876_878),
    "drill_lstm_lm_1_layer": (24_382_000, 33_716_478),
    "drill_lstm_lm_2_layers": (24_542_400, 33_876_878),
    "drill_lstm_lm_3_layers": (24_702_800, 34_037_278),
    "drill_lstm_lm_4_layers": (24_863_200, 34_197_678),
    "drill_lstm_lm_residuals": (24_863_200, 34_197_678),
    "drill_lstm_lm_standard_dropout": (24_863_200, 34_197_678),
    "drill_lstm_lm_wikitext2": (None, 34_197_678),
    "awd_lstm_lm_ptb": (24_221_600, None),
    "awd_lstm_lm_wikitext2": (None, 33_556_078),
}


@pytest.mark.parametrize("name, which", [(name, which) for name in PARAMETERS for which in (0, 1) if PARAMETERS[name][which]])
def test_models_on_awd_lstm_have_the_parameters_of_the_papers_to_the_unit(name, which):
    """Ours has rows of ``<s>`` and ``<pad>`` besides, which no text has."""
    expected, preset, size = PARAMETERS[name][which], PRESETS[name], (10_000, 33_278)[which]
    options = {**HeadConfig().__dict__, **preset.options}
    settings, dim = head_settings(Namespace(**options)), options["decoder_embed_dim"]
    words = [*SPECIAL, *(str(i) for i in range(size - 2))]  # </s> and <unk> are among the papers' words
    assert len(words) - sum(predictable_words(words)) == 2
    with torch.device("meta"):
        encoder = build_encoder(Namespace(**options))
    parts = [
        encoder,
        build_embedding(words, dim, settings),
        build_head(words, feature_width(dim, encoder.width, settings), settings),
    ]
    assert feature_width(dim, encoder.width, settings) == encoder.width  # or h would be mapped
    of_a_word = dim + 1 + (encoder.width if options["output_head"] == "lookup" else 0)
    assert sum(p.numel() for part in parts for p in part.parameters()) - 2 * of_a_word == expected
    if which == ("wikitext2" in name):
        assert str(expected / 1e6).startswith(f"{preset.parameters:g}")  # published cut off, not rounded


@pytest.mark.parametrize(
    "name, expected", [("unadapted", 8_330_922), ("softmax_bias", 8_439_914), ("concat", 8_440_574), ("factor", 8_454_734)]
)
def test_models_in_context_have_the_parameters_of_the_formula(name, expected, dictionary_of):
    """V e + V + d e + 3 d (e + d) + 3 d, with 3 d k, k r (e + 4 d) and (4 + V) k of contexts, for AG News.

    Ours has rows of ``<s>`` and ``<pad>`` besides, and one of unknown values.
    """
    options = {**HeadConfig().__dict__, **PRESETS[f"factor_cell_lm_agnews_{name}"].options}
    settings = head_settings(Namespace(**options))
    decoder = GrocLSTMDecoder(dictionary_of([str(i) for i in range(54_492 - 2)]), Namespace(**options))
    attach_head(decoder, settings, None, 0.1, schema=TOPICS)
    more = 2 * (options["decoder_embed_dim"] + 1 + options["context_dim"]) + options["context_dim"]
    assert sum(parameter.numel() for parameter in decoder.parameters()) - more == expected


def test_every_head_that_the_papers_compare_is_a_preset():
    assert {preset.options.get("output_head", "compositional_output") for preset in PRESETS.values()} == set(HEADS) - {
        "mixture_of_softmaxes"  # a baseline of DRILL's Tables 1 to 3, not of its ablation
    }
