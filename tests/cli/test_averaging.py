"""Checkpoints are averaged by fairseq's own means: a script that sums and divides, and moving averages in training."""

import pytest
import torch
from cli_helpers import evaluated
from fairseq.checkpoint_utils import load_ema_from_checkpoint

VALID = ["--valid-subset", "valid,valid1"]


def average(paths):
    """Return a checkpoint with the mean of all that the models of some hold, as ``average_checkpoints.py`` computes it."""
    mean, *others = (torch.load(path, weights_only=True) for path in paths)
    for name, value in mean["model"].items():
        total = value.clone()
        for other in others:
            total += other["model"][name]
        mean["model"][name] = total.div_(len(paths))
    return mean


def test_checkpoints_and_moving_averages_are_used_as_others_are(commands, corpus, tmp_path):
    options = ["--output-head", "adaptive", "--output-cutoffs", "[8,16]", "--adaptive-scoring", "bins", *VALID, "--store-ema"]
    for epochs in "24":  # the second time it resumes
        commands.train(corpus / "data", tmp_path, *options, "--ema-fp32", "--ema-decay", "0.9", "--max-epoch", epochs)
    paths = [tmp_path / f"checkpoint{epoch}.pt" for epoch in (4, 3, 2)]
    torch.save(average(paths), tmp_path / "average.pt")
    torch.save(load_ema_from_checkpoint(paths[0]), tmp_path / "ema.pt")
    for data, subset in (("data", "valid"), ("union", "test")):
        score = ["--gen-subset", subset, "--uniform-weight", "0.1"]
        models = paths[0], tmp_path / "average.pt", tmp_path / "ema.pt"
        last, *means = (evaluated(commands.eval_lm(corpus / data, path, *score)) for path in models)
        assert all(tokens == last[0] and ppl == pytest.approx(last[1], rel=0.2) for tokens, ppl in means)
