"""Preprocess, train, validate, score: the commands of the README on a tiny corpus."""

import json
import math
import os
import re

import pytest
import torch
from cli_helpers import PLUGIN, evaluated, tokens_of

from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.evaluation.loading import load
from fairseq_groc.lexicon.tables_file import load_tables


def sharded(commands, corpus, model, *options):
    """Return (tokens, log-likelihood) of the other text."""
    tokens, perplexity = evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test", *options))
    return tokens, -tokens * math.log(perplexity)


def test_another_dictionary_and_every_token_once(commands, corpus, models):
    model, total = models["compositional_output"], tokens_of(corpus / "other.txt")
    one = sharded(commands, corpus, model, "--tokens-per-sample", "35")
    assert one[0] == total and math.isfinite(one[1])
    single = sharded(commands, corpus, model, "--tokens-per-sample", "1")
    default = sharded(commands, corpus, model)  # the block length of the checkpoint
    assert single[0] == default[0] == total
    # printed with two decimals
    assert single[1] == pytest.approx(one[1], rel=1e-3) and default[1] == pytest.approx(one[1], rel=1e-3)
    streams = sharded(commands, corpus, model, "--batch-size", "4", "--tokens-per-sample", "7")
    shards = [sharded(commands, corpus, model, "--batch-size", "2", "--num-shards", "2", "--shard-id", i) for i in "01"]
    assert streams[0] == shards[0][0] + shards[1][0] == total
    # four streams, or two shards of two streams, are the same streams
    assert streams[1] == pytest.approx(shards[0][1] + shards[1][1], rel=1e-3)
    assert sharded(commands, corpus, model, "--sample-break-mode", "eos", "--batch-size", "3")[0] == total


@pytest.mark.parametrize("head", ["tied", "lookup"])
def test_new_words_are_impossible_for_row_heads(commands, corpus, models, head):
    output = commands.eval_lm(corpus / "union", models[head], "--gen-subset", "test")
    total = tokens_of(corpus / "other.txt")
    assert evaluated(output) == (total, math.inf)
    words = (corpus / "other.txt").read_text(encoding="utf-8").split()
    new = sum(w not in (corpus / "train.txt").read_text().split() for w in words)
    assert f"{new} of {total} tokens of 'test'" in output.replace(",", "") and "--uniform-weight" in output
    mixed = commands.eval_lm(corpus / "union", models[head], "--gen-subset", "test", "--uniform-weight", "0.01")
    assert math.isfinite(evaluated(mixed)[1]) and "impossible" not in mixed


def test_validate_counts_and_agrees_with_eval_lm(commands, corpus, models):
    model, total = models["tied"], tokens_of(corpus / "valid.txt")
    tokens, perplexity = evaluated(commands.eval_lm(corpus / "data", model, "--gen-subset", "valid", "--batch-size", "8"))
    options = ["--path", model, "--batch-size", "8", "--valid-subset", "valid"]
    output = commands.ok("fairseq-validate", corpus / "data", *PLUGIN, *options)
    assert tokens == total and f"wpb {total}" in output
    assert float(re.findall(r"ppl ([\d.]+)", output)[-1]) == pytest.approx(perplexity, rel=1e-3)
    trained = (model.parent / "train.log").read_text()
    last = [float(ppl) for ppl in re.findall(r"\| valid \| .*?ppl ([\d.]+)", trained)]
    assert min(last) == pytest.approx(perplexity, abs=0.011)  # what training printed for its best checkpoint
    union = evaluated(commands.eval_lm(corpus / "union", model, "--gen-subset", "test1", "--batch-size", "8"))
    assert union == (tokens, pytest.approx(perplexity, rel=1e-3))  # rows moved to a larger dictionary: new words have no share


def test_a_compositional_checkpoint_holds_nothing_of_the_vocabulary(corpus, models):
    saved = torch.load(models["compositional_output"], weights_only=True)  # safe loading suffices
    symbols = load_dictionary(corpus / "data" / "dict.txt").symbols
    words, forms = len(symbols), load_tables(corpus / "data", symbols).num_forms
    assert words != forms
    for name, value in saved["model"].items():
        if torch.is_tensor(value):
            assert not {words, forms} & set(value.shape), name


def test_scoring_lines(commands, corpus, models):
    python = ["python", "-m", "fairseq_groc", "score"]
    where = ["--path", models["compositional_output"], "--data", corpus / "union"]

    def scored(*options):
        rows = [line.split("\t", 2) for line in commands.ok(*python, *options, *where).splitlines() if re.match(r"-\d", line)]
        return [float(score) for score, _, _ in rows], sum(int(tokens) for _, tokens, _ in rows)

    total = tokens_of(corpus / "other.txt")
    running, counted = scored(corpus / "other.txt", "--running", "--tokens-per-sample", "3")
    assert counted == total
    reference = sharded(commands, corpus, models["compositional_output"])[1]
    assert sum(running) == pytest.approx(reference, rel=1e-3)
    _, counted = scored(corpus / "other.txt")
    assert counted == total
    nbest = corpus / "nbest.tsv"
    nbest.write_text("1\tthe cat sat\tx\n1\tthe zebra sat\ty\n")
    plain = corpus / "plain.txt"
    plain.write_text("the cat sat\nthe zebra sat\n")
    assert scored(nbest, "--field", "2")[0] == scored(plain)[0]
    from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModel

    checkpoint = models["compositional_output"]
    hub = GrocLSTMLanguageModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(corpus / "union"))
    hub.eval()
    texts = ["the cat sat", "on", "the zebra sat under a tree and ran"]
    together = [row["positional_scores"] for row in hub.score(texts)]  # one padded batch
    for text, scores in zip(texts, together, strict=True):
        torch.testing.assert_close(scores, hub.score(text)["positional_scores"], rtol=0, atol=1e-5)
    figures = [hub.score(line)["positional_scores"].sum().item() for line in ("the cat sat", "the zebra sat")]
    assert figures == pytest.approx(scored(plain)[0], abs=1e-3)
    assert hub.sample("the zebra", beam=3, max_len_b=5).startswith("the zebra")
    assert hub.sample("the zebra", sampling=True, max_len_b=5).startswith("the zebra")


def test_a_line_with_an_impossible_word_scores_minus_infinity(commands, corpus, models):
    text = corpus / "impossible.txt"
    text.write_text("the cat sat\nthe zebra sat\nthe platypus sat\n")
    where = ["--path", models["tied"], "--data", os.path.relpath(corpus / "union")]  # ../..: not beside the checkpoint
    output = commands.ok("python", "-m", "fairseq_groc", "score", text, *where)
    rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
    assert math.isfinite(float(rows[0][0])) and rows[1][0] == "-inf"
    assert "1 of 3 lines have words" in output and "--uniform-weight" in output
    assert "1 words, 'platypus' first, are not in the vocabulary" in output and "--vocabulary-from" in output
    nowhere = ["--path", models["tied"], "--data", corpus / "nowhere"]
    assert "nowhere/dict.txt not found" in commands.fails("python", "-m", "fairseq_groc", "score", text, *nowhere)


def test_a_checkpoint_of_another_machine_serves_on_this_one(corpus, models, tmp_path):
    """Trained with half precision and sampled updates, neither of which binds those who use it."""
    saved = torch.load(models["compositional_output"], weights_only=True)
    saved["cfg"]["task"].update(fp16=True, full_update_prob=0.5)
    torch.save(saved, tmp_path / "gpu.pt")
    hub = load(tmp_path / "gpu.pt", str(corpus / "union"))
    assert math.isfinite(hub.score("the zebra sat")["positional_scores"].sum().item())


NEWER = ("init_range", "embedding_dropout", "feature_dropout", "prefix_encoder", "weight_dropout", "decoder_output_dim")


@pytest.mark.parametrize("arch", ["groc_lstm_lm", "groc_lstm_lm_ptb_tied", "groc_lstm_lm_small", "drill_lstm_lm_tied"])
def test_a_checkpoint_that_is_older_than_an_option_serves(corpus, models, tmp_path, arch):
    """fairseq gives a model the defaults of newer options only where its name is no architecture's."""
    saved = torch.load(models["tied"], weights_only=True)
    for options in (saved["cfg"]["task"], saved["cfg"]["model"], saved["task_state"]["groc"]["head"]):
        assert [options.pop(name) for name in NEWER if name in options]
    saved["cfg"]["model"]["_name"] = arch
    torch.save(saved, tmp_path / "old.pt")
    old, new = (load(path, str(corpus / "data")).score("the cat sat") for path in (tmp_path / "old.pt", models["tied"]))
    assert torch.equal(old["positional_scores"], new["positional_scores"])


def test_explain(commands, corpus):
    output = commands.ok("python", "-m", "fairseq_groc", "explain", "cat", "--lexicon-path", "tests/fixtures/mini.tsv")
    assert "characters   ^ c a t $" in output
    assert "relation     feline  (mini.tsv:1)" in output
    assert "definition   a small domesticated animal with fur  (mini.tsv:1)" in output


def test_explain_writes_what_it_shows(ours, tmp_path):
    shown = ours("explain", "cat", "zz", "--lexicon-path", "tests/fixtures/mini.tsv", "--out", tmp_path / "cat.json")
    assert "nothing of the lexicon (mini.tsv): its spelling alone" in shown and (tmp_path / "cat.png").stat().st_size > 1000
    cat, zz = json.loads((tmp_path / "cat.json").read_text())["words"]
    assert cat["characters"] == ["^", "c", "a", "t", "$"] and cat["relations"][0] == {"word": "feline", "source": "mini.tsv:1"}
    assert cat["definition"] == {"words": ["a", "small", "domesticated", "animal", "with", "fur"], "source": "mini.tsv:1"}
    assert zz == {"word": "zz", "characters": ["^", "z", "z", "$"], "relations": [], "definition": {"words": [], "source": ""}}
    assert "--out none/x.json: there is no folder" in ours("explain", "cat", "--out", "none/x.json", code=1)
    ours("explain", "$", "us$", "a$b$", "--lexicon-path", "tests/fixtures/mini.tsv", "--out", tmp_path / "signs.json")
    assert (tmp_path / "signs.png").stat().st_size > 1000  # signs, not formulas
