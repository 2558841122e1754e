"""Vocabulary and lexicon dropout through fairseq-train: they act, in training alone, and bind nobody who uses the model."""

import re

from cli_helpers import evaluated

SHORT = ["--max-update", "3", "--valid-subset", "valid,valid1", "--log-interval", "1"]


def losses(output):
    """Return the training losses of every update and the last validation loss."""
    valid = re.findall(r"on 'valid' subset \| loss ([\d.]+)", output)
    return re.findall(r" loss=([\d.]+)", output), valid[-1]


def test_each_option_acts_in_training_alone(commands, corpus, models, tmp_path):
    still = ["--finetune-from-model", models["compositional_output"], "--lr", "0", "--dropout", "0", "--dropout-in", "0"]
    found = {}
    for name, options in {
        "plain": [],
        "words": ["--vocabulary-dropout", "0.5"],
        "lexicon": ["--lexicon-dropout", "0.5"],
        "chunked": ["--vocabulary-dropout", "0.5", "--criterion", "chunked_cross_entropy"],
    }.items():
        found[name] = losses(commands.train(corpus / "data", tmp_path / name, *SHORT, *still, *options))
    assert len({valid for _, valid in found.values()}) == 1  # one model, whole in validation
    assert found["words"][0] == found["chunked"][0]
    assert len({tuple(training) for training, _ in found.values()}) == 3


def test_a_model_trained_so_is_scored_as_any_other(commands, corpus, tmp_path):
    options = ["--vocabulary-dropout", "0.5", "--lexicon-dropout", "0.5", "--sampled-update-fraction", "0.5"]
    commands.train(corpus / "data", tmp_path, *SHORT, *options)
    model = tmp_path / "checkpoint_last.pt"
    first, second = (evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test")) for _ in range(2))
    assert first == second and first[1] < 1e4


def test_heads_with_rows_have_sub_vocabularies_and_no_lexicon(commands, corpus, tmp_path):
    options = ["--output-head", "tied", "--vocabulary-dropout", "0.5", "--lexicon-dropout", "0.5"]
    output = commands.train(corpus / "data", tmp_path, *SHORT, *options)
    assert "lexicon dropout changes nothing" in output and "done training" in output
