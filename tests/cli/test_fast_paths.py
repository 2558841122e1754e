"""Faster training and scoring through fairseq's commands: the results are those of the plain ways."""

import pytest
import torch
from cli_helpers import COMPOSED, PLUGIN, TRAINING, Commands, evaluated, perplexity

from fairseq_groc.tensor_file import open_tensors

VALID = ["--valid-subset", "valid,valid1"]


def weights(folder):
    saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    return {name: value for name, value in saved.items() if torch.is_tensor(value)}


def test_the_chunked_loss_trains_the_same_model(commands, corpus, tmp_path):
    outputs = []
    for name, options in (("whole", []), ("chunks", ["--criterion", "chunked_cross_entropy", "--vocabulary-chunk", "7"])):
        options += ["--max-update", "6", "--encoding-chunk", "9" if name == "chunks" else "1000"]
        outputs.append(commands.train(corpus / "data", tmp_path / name, *options, *VALID))
    whole, chunks = weights(tmp_path / "whole"), weights(tmp_path / "chunks")
    assert whole.keys() == chunks.keys()
    for name in whole:
        if not name.endswith("head.bias.bias"):  # shifts all logits alike: its gradient is rounding, and Adam scales it
            torch.testing.assert_close(whole[name], chunks[name], rtol=0, atol=1e-5)
    losses = [[line.split("| loss ")[1].split()[0] for line in o.splitlines() if "subset | loss" in line] for o in outputs]
    assert losses[0] and losses[0] == losses[1]


def test_the_chunked_loss_scores_as_eval_lm_does(commands, corpus, models):
    """In fairseq-validate, with the uniform mixture and words that the model never saw."""
    mixture = ["--uniform-weight", "0.1"]
    _, perplexity = evaluated(commands.eval_lm(corpus / "union", models["tied"], "--gen-subset", "test", *mixture))
    overrides = ["--path", models["tied"], "--valid-subset", "test", "--batch-size", "1", "--model-overrides"]
    overrides += ["{'criterion': {'_name': 'chunked_cross_entropy', 'sentence_avg': False, 'vocabulary_chunk': 7}}"]
    output = commands.ok("fairseq-validate", corpus / "union", *PLUGIN, *overrides, *mixture)
    assert float(output.split("| ppl ")[1].split()[0]) == perplexity


def test_training_without_the_compiled_kernels(commands, corpus, tmp_path):
    """numba is an extra: a broken one, or none, changes speed alone."""
    (tmp_path / "numba.py").write_text("raise ImportError('broken')\n")
    options = [*PLUGIN, *COMPOSED, *TRAINING, *VALID, "--sampled-update-fraction", "0.5", "--max-update", "10"]
    perplexities = []
    for run in (commands, Commands(None, tmp_path)):
        output = run.ok("fairseq-train", corpus / "data", *options, "--no-save", "--save-dir", tmp_path / "none")
        assert ("slower without numba" in output) == (run is not commands)
        perplexities.append(perplexity(output))
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-3)


def test_kernels_leave_the_number_of_threads_alone(commands):
    """Another number of threads rounds otherwise: a first step would not be what it is when repeated."""
    code = """
import numpy, torch
from fairseq_groc.modules.bags import Bags
Bags.from_lists(numpy.arange(5), numpy.array([0, 2, 5]), 5).mean(torch.randn(5, 3))
print(torch.get_num_threads())
"""
    assert commands.ok("python", "-c", code).split()[-1] == "1"


def test_sampled_updates_train(commands, corpus, tmp_path):
    options = ["--sampled-update-fraction", "0.3", "--refresh-interval", "4", "--max-update", "40", "--update-freq", "2"]
    output = commands.train(corpus / "data", tmp_path / "save", *options, *VALID, "--criterion", "chunked_cross_entropy")
    perplexities = [float(line.split("| ppl ")[1].split()[0]) for line in output.splitlines() if "valid' subset" in line]
    assert perplexities[-1] < perplexities[0]


def test_embeddings_are_exported_and_read_again(commands, corpus, models, tmp_path):
    model, file = models["compositional_output"], tmp_path / "embeddings.pt"
    options = ["--gen-subset", "test", "--export-embeddings", file]
    plain = evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test"))
    first = commands.eval_lm(corpus / "union", model, *options)
    again = commands.eval_lm(corpus / "union", model, *options)
    assert "words written" in first and "words read" in again
    assert plain == evaluated(first) == evaluated(again)
    before = model.read_bytes()
    output = commands.fails("fairseq-eval-lm", corpus / "union", *PLUGIN, "--path", model, *options[:3], model)
    assert "holds no embeddings" in output and model.read_bytes() == before
    commands.ok("python", "-m", "fairseq_groc", "export", tmp_path / "words.vec", "--path", model, "--data", corpus / "union")
    count, size = (tmp_path / "words.vec").read_text(encoding="utf-8").split("\n", 1)[0].split()
    header, saved = open_tensors(file)
    outputs, bias = (saved[str(number)] for number in header["matrices"][1:])
    assert int(size) == outputs.shape[1] and int(count) == int(bias.isfinite().sum())
