"""AWD-LSTM through fairseq's commands."""

import re

import pytest
import torch
from cli_helpers import PLUGIN, TRAINING, evaluated

SMALL = ["--arch", "awd_lstm_lm_small", *TRAINING, "--ignore-unused-valid-subsets"]


def weights(folder):
    saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    return {name: value for name, value in saved.items() if torch.is_tensor(value)}


def test_it_trains_goes_on_where_it_was_and_scores_without_dropout(commands, corpus, tmp_path):
    def trained(folder, updates):
        where = ["--save-dir", tmp_path / folder, "--max-update", updates]
        return commands.ok("fairseq-train", corpus / "data", *PLUGIN, *SMALL, *where)

    whole, first = trained("whole", "6"), trained("pieces", "3")
    assert re.search(r"AWDLSTMEncoder\(\s+weight_dropout=0.2\n", first) and "not part of single contiguous chunk" not in whole
    trained("pieces", "6")
    for (name, one), other in zip(weights(tmp_path / "whole").items(), weights(tmp_path / "pieces").values(), strict=True):
        assert torch.equal(one, other), name
    validated = float(re.findall(r"'valid' subset .*? ppl ([\d.]+)", whole)[-1])
    model = tmp_path / "whole" / "checkpoint_last.pt"
    scores = [evaluated(commands.eval_lm(corpus / "data", model, "--gen-subset", "valid", "--batch-size", "4")) for _ in range(2)]
    assert scores[0] == scores[1] and scores[0][1] == pytest.approx(validated, rel=1e-3)


def test_its_options_are_kept_and_those_of_training_may_change(commands, corpus, tmp_path):
    """A checkpoint says how wide its layers are; whoever goes on from it may drop more or less."""
    sizes = "--decoder-embed-dim 8 --decoder-hidden-size 12 --decoder-output-dim 10 --output-head lookup --lookup-width encoder"
    options = [*PLUGIN, *SMALL, *sizes.split(), "--max-update", "3"]
    output = commands.ok("fairseq-train", corpus / "data", *options, "--save-dir", tmp_path / "first")
    assert re.search(r"LSTM\(12, 10\)", output) and "(context)" not in output
    model = tmp_path / "first" / "checkpoint_last.pt"
    assert evaluated(commands.eval_lm(corpus / "data", model, "--gen-subset", "valid"))[0] > 0
    rates = "--weight-dropout 0 --embedding-dropout 0.5 --feature-dropout 0.5 --output-dropout 0.3".split()
    again = ["--finetune-from-model", model, "--save-dir", tmp_path / "second"]
    commands.ok("fairseq-train", corpus / "data", *options, *rates, *again)
    output = commands.fails("fairseq-train", corpus / "data", *options, *again, "--lookup-width", "embeddings")
    assert "--lookup-width embeddings (checkpoint: encoder)" in output
