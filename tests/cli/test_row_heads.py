"""Heads with rows of their own: other dictionaries, finetuning, translation."""

import math

import pytest
from cli_helpers import ARCHITECTURES, PLUGIN, TRAINING, evaluated, perplexity, tokens_of, train_stock


@pytest.mark.parametrize("head", ["adaptive", "convolutional"])
def test_row_heads_on_a_transformer_move_and_finetune(commands, corpus, tmp_path, head):
    train_stock(commands, corpus, tmp_path / "first", ARCHITECTURES["transformer_lm"], head=head)
    model = tmp_path / "first" / "checkpoint_last.pt"
    known = evaluated(commands.eval_lm(corpus / "data", model, "--gen-subset", "valid"))
    moved = commands.eval_lm(corpus / "union", model, "--gen-subset", "test1")
    assert evaluated(moved)[0] == known[0] == tokens_of(corpus / "valid.txt")
    if head != "convolutional":  # which gives new words a share
        assert evaluated(moved)[1] == pytest.approx(known[1], rel=1e-3)
    new = ["--uniform-weight", "0.1"] if head != "convolutional" else []
    assert math.isfinite(evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test", *new))[1])
    again = ["--finetune-from-model", model, "--max-update", "4"]
    train_stock(commands, corpus, tmp_path / "second", ARCHITECTURES["transformer_lm"], *again, head=head)
    differs = [*ARCHITECTURES["transformer_lm"].split(), *TRAINING, *again, "--output-head", "bilinear"]
    differs += ["--valid-subset", "valid,valid1", "--save-dir", tmp_path / "third"]
    output = commands.fails("fairseq-train", corpus / "data", *PLUGIN, "--arch", *differs)
    assert f"--output-head bilinear (checkpoint: {head})" in output


def test_new_rows_may_be_drawn_like_the_others(commands, corpus, models):
    output = commands.eval_lm(corpus / "union", models["tied"], "--gen-subset", "test", "--draw-new-rows")
    assert math.isfinite(evaluated(output)[1]) and "impossible" not in output


def test_generation_over_line_ends_is_refused(commands, corpus, models):
    options = ["--path", models["compositional_output"], "--beam", "2", "--num-workers", "0"]
    output = commands.fails("fairseq-generate", corpus / "union", *PLUGIN, *options)
    assert any("give --sample-break-mode eos" in line for line in output.splitlines()[-3:])


VALID = 10  # lines, no multiple of the 8 sentences that fairseq wants of a batch


def test_translation_with_a_head(commands, corpus, tmp_path):
    for split, count in (("train", 40), ("valid", VALID)):
        pairs = [line for line in (corpus / "train.txt").read_text().split("\n") if line.strip()][:count]
        (tmp_path / f"{split}.en").write_text("\n".join(pairs) + "\n")
        (tmp_path / f"{split}.de").write_text("\n".join(line.upper() for line in pairs) + "\n")
    prefixes = ["--trainpref", tmp_path / "train", "--validpref", tmp_path / "valid", "--testpref", tmp_path / "valid"]
    commands.ok("fairseq-preprocess", "-s", "en", "-t", "de", *prefixes, "--destdir", tmp_path / "bin")
    task = ["--user-dir", PLUGIN[1], "--task", "translation_output_head", "--arch", "transformer"]
    sizes = "--encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-layers 1 --decoder-layers 1 --encoder-ffn-embed-dim 8"
    sizes += " --decoder-ffn-embed-dim 8 --encoder-attention-heads 1 --decoder-attention-heads 1 --batch-size 8 --max-update 6"
    training = "--optimizer adam --lr 0.01 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --num-workers 0"
    head = ["--output-head", "deep_residual", "--output-depth", "2", "--output-activation", "sigmoid"]
    options = [*sizes.split(), *training.split(), *head, "--save-dir", tmp_path / "save"]
    output = commands.ok("fairseq-train", tmp_path / "bin", *task, *options)
    assert math.isfinite(perplexity(output))
    words = (tmp_path / "bin" / "dict.de.txt").read_text().splitlines(keepends=True)
    (tmp_path / "de").write_text("".join(reversed(words)))
    dictionaries = ["--srcdict", tmp_path / "bin" / "dict.en.txt", "--tgtdict", tmp_path / "de"]
    commands.ok("fairseq-preprocess", "-s", "en", "-t", "de", *prefixes, "--destdir", tmp_path / "other", *dictionaries)
    output = commands.fails("fairseq-train", tmp_path / "other", *task, *options, "--max-update", "8")
    assert "another dictionary, and its optimizer goes on by that" in output.splitlines()[-1]
    assert "done training" in commands.ok("fairseq-train", tmp_path / "bin", *task, *options, "--max-update", "8")
    options = ["--path", tmp_path / "save" / "checkpoint_best.pt", "--scoring", "sacrebleu", "--num-workers", "0"]
    output = commands.ok("fairseq-generate", tmp_path / "bin", *task[:4], *options)
    assert "BLEU" in output.splitlines()[-1]
    few = commands.ok("fairseq-generate", tmp_path / "bin", *task[:4], *options, "--batch-size", "8")
    assert few.count("\nH-") == output.count("\nH-") == VALID
    output = commands.fails("fairseq-train", tmp_path / "bin", *task, *sizes.split(), "--output-head", "compositional_output")
    assert "translation has no lexicon tables" in output.splitlines()[-1]
    head = ["--output-head", "compositional_output", "--lexicon-parts", "none", "--corrections", "both"]
    output = commands.fails("fairseq-train", tmp_path / "bin", *task, *sizes.split(), *head)
    assert output.splitlines()[-1].endswith("--corrections goes with --task wordnet_lexicon alone: leave it out")
