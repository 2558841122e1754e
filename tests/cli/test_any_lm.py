"""fairseq's own language models with an open vocabulary: train, score, validate, generate."""

import math
import re

import pytest
import torch
from cli_helpers import ARCHITECTURES, PLUGIN, TRAINING, evaluated, perplexity, tokens_of, train_stock
from fairseq.models import FairseqLanguageModel

from fairseq_groc.errors import OptionError

LINES = ["the zebra sat", "a cat", "the hound"]
LONG = ["--tokens-per-sample", "20"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_stock_language_model_with_an_open_vocabulary(commands, corpus, tmp_path, name):
    train_stock(commands, corpus, tmp_path, ARCHITECTURES[name], *LONG, "--criterion", "chunked_cross_entropy")
    model, total = tmp_path / "checkpoint_last.pt", tokens_of(corpus / "other.txt")
    tokens, figure = evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test", "--batch-size", "4"))
    assert tokens == total and math.isfinite(figure)
    if name in ("transformer_lm", "lstm_lm"):  # of no state a block of 5 tokens would leave too little
        made = ["--path", model, "--data", corpus / "data", "--dynamic-parameters", "features", "--dest", tmp_path]
        commands.ok("python", "-m", "fairseq_groc", "gradient-statistics", *made, "--streams", "4")
        learns = ["--dynamic-parameters", "features", "--dynamic-statistics", tmp_path, "--dynamic-rate"]
        output = commands.eval_lm(corpus / "union", model, "--gen-subset", "test", "--batch-size", "4", *learns, "1e-12")
        assert evaluated(output)[1] == pytest.approx(figure, rel=1e-5)
        score = ["python", "-m", "fairseq_groc", "score", corpus / "other.txt", "--path", model, "--data", corpus / "union"]
        for more in ([], [*learns, "0.01"]):  # in the blocks of the other doors, over the ends of lines
            lines = re.findall(r"^(-\d+\.\d+)\t\d+\t", commands.ok(*score, "--running", *more), re.M)
            one = evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test", *more))[1]
            assert -sum(map(float, lines)) / total == pytest.approx(math.log(one), abs=1e-3)
        said = "this model carries no state, so it reads every line by itself"
        assert said in commands.ok(*score, "--running", "--open-vocabulary")
    if name == "transformer_lm":  # which has positions
        output = commands.fails("fairseq-eval-lm", corpus / "union", *PLUGIN, "--path", model, "--tokens-per-sample", "21")
        assert any("the model has room for 20" in line for line in output.splitlines()[-3:])
    options = ["--path", model, "--batch-size", "4", "--valid-subset", "test"]
    output = commands.ok("fairseq-validate", corpus / "union", *PLUGIN, *options)
    assert perplexity(output) == pytest.approx(figure, rel=1e-3)
    line = corpus / f"{name}.txt"
    line.write_text("\n".join(LINES) + "\n")
    lexicon = ["--lexicon-path", "tests/fixtures/mini.tsv"]
    commands.preprocess("--vocabulary-from", corpus / "union", "--test", line, "--dest", tmp_path / "line", *lexicon)
    options = ["--path", model, "--sample-break-mode", "eos", "--beam", "2", "--max-len-b", "8", "--num-workers", "0"]
    output = commands.ok("fairseq-generate", tmp_path / "line", *PLUGIN, *options, "--batch-size", "2")
    assert [re.search(rf"^H-{i}\t\S+\t(.*)", output, re.M)[1].startswith(s) for i, s in enumerate(LINES)] == [True] * 3
    if name == "lstm_lm":
        lines = tmp_path / "short.txt"
        generate = ["fairseq-generate", tmp_path / "line", *PLUGIN, *options]
        lines.write_text("the cat sat\n\nthe\n")
        commands.preprocess("--vocabulary-from", corpus / "union", "--test", lines, "--dest", tmp_path / "short", *lexicon)
        prefixed = ["fairseq-generate", tmp_path / "short", *PLUGIN, *options, "--batch-size", "3", "--prefix-size", "2"]
        begun = dict(re.findall(r"^H-(\d)\t\S+\t(.*)", commands.ok(*prefixed), re.M))
        assert len(begun) == 3 and begun["0"].startswith("the cat") and begun["2"].startswith("the")
        for scored in ([], ["--score-reference"], ["--prefix-size", "2"]):
            output = commands.fails(*generate, "--tokens-per-sample", "3", *scored)
            assert any("give --tokens-per-sample, above the longest line's" in text for text in output.splitlines()[-3:])
            output = commands.fails(*generate, "--sample-break-mode", "none", *scored)
            assert any("give --sample-break-mode eos" in text for text in output.splitlines()[-3:])
        score = ["python", "-m", "fairseq_groc", "score", line, "--path", model, "--data", tmp_path / "line"]
        scores = re.findall(r"^(-\d+\.\d+)\t(\d+)\t", commands.ok(*score), re.M)
        means = re.findall(r"^H-(\d)\t(-\d+\.\d+)", commands.ok(*generate, "--score-reference"), re.M)
        expected = [float(total) / int(tokens) / math.log(2) for total, tokens in scores]
        assert [float(mean) for _, mean in sorted(means)] == pytest.approx(expected, abs=1e-3)
        read = ["--path", model, "--beam", "2", "--max-len-b", "8", "--input", line]
        output = commands.ok("fairseq-interactive", tmp_path / "line", *PLUGIN, *read)
        assert len(re.findall(r"^H-[012]\t\S+\t(?:the zebra|a cat|the hound)", output, re.M)) == 3

    hub = FairseqLanguageModel.from_pretrained(str(tmp_path), "checkpoint_last.pt", str(corpus / "union")).eval()
    decoder, dictionary = hub.models[0].decoder, hub.task.dictionary
    tokens = dictionary.encode_line("</s> the zebra sat on a hound", add_if_not_exist=False, append_eos=False).long()[None]
    with torch.no_grad():
        whole, state = hub.models[0](tokens)[0], {}
        for t in range(tokens.size(1)):
            step = decoder(tokens[:, : t + 1], incremental_state=state)[0]
            possible = whole[:, t].isfinite()
            torch.testing.assert_close(step[:, -1][possible], whole[:, t][possible], rtol=0, atol=1e-4)
    assert hub.score("the zebra sat")["positional_scores"].shape == (4,)
    assert hub.score(" ".join(["the"] * 19))["positional_scores"].shape == (20,)  # all the room that transformer_lm has
    if name == "transformer_lm":
        with pytest.raises(OptionError, match="a line of 21 tokens, and the model has room for 20"):
            hub.score(" ".join(["the"] * 20))
    trained = set((corpus / "train.txt").read_text().split())
    words = decoder.matrices.impossible | torch.tensor([word in trained for word in dictionary.symbols])
    decoder.matrices.impossible = words.index_fill(0, torch.tensor([dictionary.unk()]), True)
    generated = hub.sample("the cat", beam=2, min_len=4, max_len_b=8).split()[2:]  # words outside the training vocabulary
    assert generated and not trained & set(generated)


@pytest.mark.parametrize(
    "options, message",
    [
        ("transformer_lm --adaptive-softmax-cutoff 5 --criterion adaptive_loss", "cannot replace an adaptive softmax"),
        ("transformer_lm --adaptive-input --adaptive-input-cutoff 5", "cannot replace a AdaptiveInput"),
        ("transformer_lm --character-embeddings", "leave --adaptive-input and --character-embeddings out"),
        ("lstm_lm --share-decoder-input-output-embed", "leave --share-decoder-input-output-embed out"),
        ("transformer_lm --criterion label_smoothed_cross_entropy --label-smoothing 0.1", "use cross_entropy"),
        ("transformer_lm --add-bos-token", "every text begins with </s> here"),
        ("transformer", "trains language models, and TransformerModel is none"),
        ("transformer_lm --output-head bilinaer", "expected one of"),
    ],
)
def test_what_cannot_have_a_head_is_one_clear_error(commands, corpus, tmp_path, options, message):
    output = commands.fails(
        "fairseq-train", corpus / "data", *PLUGIN, "--arch", *options.split(), *TRAINING, "--save-dir", tmp_path
    )
    assert any(message in line for line in output.splitlines()[-3:])


def test_a_stock_language_model_from_yaml(commands, corpus, tmp_path):
    config = ["--config-dir", "examples/any_fairseq_lm/config", "--config-name", "transformer_lm"]
    overrides = [f"task.data={corpus / 'data'}", f"common.user_dir={PLUGIN[1]}", "dataset.valid_subset='valid,valid1'"]
    overrides += ["task.tokens_per_sample=20", "task.char_filters=[4,4,4]"]
    overrides += [f"checkpoint.save_dir={tmp_path}", "optimization.max_update=2", f"hydra.run.dir={tmp_path}"]
    commands.ok("fairseq-hydra-train", *config, *overrides)
    tokens, figure = evaluated(commands.eval_lm(corpus / "union", tmp_path / "checkpoint_last.pt", "--gen-subset", "test"))
    assert tokens == tokens_of(corpus / "other.txt") and math.isfinite(figure)
