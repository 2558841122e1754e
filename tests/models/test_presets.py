"""Every preset builds and takes a training step, at the paper's sizes over a few words."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.heads import HEADS
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
