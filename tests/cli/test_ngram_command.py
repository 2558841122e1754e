"""An n-gram beside a model as users type it: made by a command, one figure through every door, tuning, refusals."""

import json
import math
import re
import shutil

import pytest
import torch
from cli_helpers import PLUGIN, evaluated, perplexity, tokens_of

from fairseq_groc.adapters.ngram_file import FILE
from fairseq_groc.evaluation.loading import load

OTHERS = ["--uniform-weight", "0.05", "--local-weight", "0.1", "--new-word-discount", "0.5"]


@pytest.fixture(scope="module")
def ngram(tmp_path_factory, corpus, commands):
    """Return a folder with a trigram model of the training text."""
    folder = tmp_path_factory.mktemp("ngram") / "made by" / "the command"
    output = commands.ok("python", "-m", "fairseq_groc", "ngram", "--data", corpus / "data", "--order", "3", "--dest", folder)
    words = set((corpus / "train.txt").read_text(encoding="utf-8").split())
    assert f"order 3, {tokens_of(corpus / 'train.txt'):,} tokens, {len(words - {'<unk>'}):,} words" in output
    assert [name for name, _ in figures(output)] == ["valid", "valid1"]  # which is the training text
    assert float(figures(output)[1][1]) < float(figures(output)[0][1]) < len(output)
    return folder


def figures(output):
    return re.findall(r"^(\w+): [\d,]+ tokens, perplexity ([\d.]+) over", output, re.MULTILINE)


def report_of(ours, data, model, out, *options):
    ours("evaluate", "--path", model, "--data", data, "--out", out, *options)
    return json.loads(out.read_text())


@pytest.mark.parametrize("head", ["tied", "compositional_output"])
@pytest.mark.parametrize("lines", [[], ["--sample-break-mode", "eos"]])
def test_one_figure_through_every_door(commands, ours, corpus, models, ngram, tmp_path, head, lines):
    data, model, text = corpus / "union", models[head], corpus / "other.txt"
    options = ["--ngram-weight", "0.4", "--ngram-path", ngram, *OTHERS]
    report = report_of(ours, data, model, tmp_path / "r.json", *options, *lines, "--verify-normalization", "1")
    figure = report["all"]["perplexity"]
    assert report["tokens_scored"] == tokens_of(text) and report["largest_sum_error"] < 1e-5
    assert report["settings"]["opened"]["ngram"]["order"] == 3
    at_targets = report_of(ours, data, model, tmp_path / "t.json", *options, *lines)["all"]["perplexity"]
    assert at_targets == pytest.approx(figure, rel=1e-5)
    without = report_of(ours, data, model, tmp_path / "s.json", *OTHERS, *lines)["all"]["perplexity"]
    assert math.isfinite(figure) and figure != pytest.approx(without, rel=1e-3)
    printed = pytest.approx(figure, abs=0.006)
    assert evaluated(commands.eval_lm(data, model, *options, *lines)) == (tokens_of(text), printed)
    assert evaluated(commands.eval_lm(data, model, *options, *lines, "--softmax-batch", "3"))[1] == printed
    running = [] if lines else ["--running"]
    scored = ours("score", text, *running, "--path", model, "--data", data, *options)
    scores = [float(line.split("\t")[0]) for line in scored.splitlines()]
    assert math.exp(-sum(scores) / tokens_of(text)) == pytest.approx(figure, rel=1e-5)
    streams = ["--batch-size", "8" if lines else "1"]
    validate = ["fairseq-validate", data, *PLUGIN, "--path", model, "--valid-subset", "test", *streams, *lines, *options]
    assert perplexity(commands.ok(*validate)) == printed
    targets_alone = ["--model-overrides", "{'criterion': {'_name': 'cache_interpolated_cross_entropy'}}"]
    assert float(re.findall(r"\| ppl ([\d.]+)", commands.ok(*validate, *targets_alone))[-1]) == printed


def test_new_words_have_what_the_model_gives_them(ours, corpus, models, ngram, tmp_path):
    data, model = corpus / "union", models["compositional_output"]
    alone = report_of(ours, data, model, tmp_path / "a.json")
    mixed = report_of(ours, data, model, tmp_path / "m.json", "--ngram-weight", "0.9", "--ngram-path", ngram)
    assert mixed["new"]["tokens"] > 0 and mixed["new"]["perplexity"] == pytest.approx(alone["new"]["perplexity"], rel=1e-6)
    assert mixed["known"]["perplexity"] != pytest.approx(alone["known"]["perplexity"], rel=1e-3)


def test_tuning_finds_its_weight(commands, ours, corpus, models, ngram, tmp_path):
    data, model = shutil.copytree(corpus / "union", tmp_path / "union"), models["compositional_output"]
    grid = [
        "--cache",
        "ngram",
        "--ngram-path",
        ngram,
        "--weights",
        "0.2",
        "0.6",
        "--uniform",
        "0",
        "0.1",
        "--discounts",
        "1",
        "0.3",
    ]
    tune = ["tune", "--path", model, "--data", data, "--split", "test", "--streams", "2", "--no-extend"]
    ours(*tune, *grid, "--out", tmp_path / "grid.json")
    found = json.loads((tmp_path / "grid.json").read_text())
    assert len(found["grid"]) == 2 * 2 * 2
    for row in (found["grid"][3], found["grid"][-1], found["best"]):
        names = ["ngram_weight", "uniform_weight", "new_word_discount"]
        chosen = [part for name in names for part in (f"--{name.replace('_', '-')}", row[name])]
        report = report_of(ours, data, model, tmp_path / "r.json", *chosen, "--ngram-path", ngram, "--streams", "2")
        assert report["all"]["perplexity"] == pytest.approx(row["perplexity"], rel=1e-5)
    output = commands.eval_lm(data, model, "--batch-size", "2")  # as tuned, with the folder
    assert "ngram_weight" in output and evaluated(output)[1] == pytest.approx(found["best"]["perplexity"], abs=0.006)


def test_it_scores_texts_of_other_folders(ours, corpus, tmp_path):
    again = shutil.copytree(corpus / "union", tmp_path / "union")  # of the same name
    scored = ["--score", corpus / "union", again, "--out", tmp_path / "n.json", "--arpa", tmp_path / "n.arpa"]
    output = ours("ngram", "--data", corpus / "data", "--order", "3", "--dest", tmp_path / "n", *scored)
    found = json.loads((tmp_path / "n.json").read_text())["texts"]
    assert (tmp_path / "n.arpa").read_text().startswith("\\data\\\nngram 1=")
    names = [f"{folder}/{split}" for folder in (corpus / "union", again) for split in ("test", "test1")]
    assert list(found) == ["valid", "valid1", *names] and found[names[0]] == found[names[2]]
    other = found[names[0]]
    assert other["all"]["tokens"] == tokens_of(corpus / "other.txt") == other["known"]["tokens"] + other["new"]["tokens"]
    assert other["new"]["perplexity"] > other["words"] > other["known"]["perplexity"]
    assert f"{names[0]}: {other['all']['tokens']:,} tokens, perplexity {other['all']['perplexity']:,.2f} over" in output
    assert found["valid"]["all"]["perplexity"] == pytest.approx(found[names[1]]["all"]["perplexity"], rel=0.05)  # more words


def test_words_that_are_met_and_a_limit(ours, corpus, models, ngram, tmp_path):
    """An open vocabulary ends as the union's, whatever the n-gram knows of it; a limit is one of the mixture."""
    model, options = models["compositional_output"], ["--ngram-weight", "0.4", "--ngram-path", ngram]
    text = tmp_path / "text.txt"
    text.write_text("the cat hound\nthe hound sat\n")
    score = ["score", text, "--path", model, *options]
    union = [float(line.split("\t")[0]) for line in ours(*score, "--data", corpus / "union").splitlines()]
    met = ours(*score, "--data", corpus / "data", "--open-vocabulary", "--lexicon-path", "none").splitlines()
    assert len(met) == len(union) == 2 and all(math.isfinite(float(line.split("\t")[0])) for line in met)
    hub = load(str(model), str(corpus / "data"), ngram_weight=0.4, ngram_path=str(ngram))
    model = hub.models[0]
    model.limit_vocabulary(["the", "cat", "sat"])
    with torch.no_grad():
        tokens = hub.task.dictionary.encode_line("the dog sat", append_eos=False).long().unsqueeze(0)
        p = model.get_normalized_probs(model(tokens), log_probs=False)
    torch.testing.assert_close(p.sum(-1), torch.ones(1, 3), rtol=1e-5, atol=0)
    assert int((p[0, -1] > 0).sum()) == 5


def test_beams_see_it(corpus, models, ngram):
    hub = load(str(models["tied"]), str(corpus / "data"), ngram_weight=0.99, ngram_path=str(ngram))
    plain = load(str(models["tied"]), str(corpus / "data"))
    sampled = [one.sample("the cat", beam=3, max_len_b=12) for one in (hub, plain)]
    assert sampled[0].startswith("the cat") and sampled[0] != sampled[1]
    best = hub.generate(hub.encode("the cat"), beam=3, max_len_b=12)[0]
    (scored,) = hub.score([hub.decode(best["tokens"][:-1])])
    torch.testing.assert_close(scored["tokens"], best["tokens"])
    torch.testing.assert_close(scored["positional_scores"], best["positional_scores"], rtol=0, atol=1e-5)


def test_what_cannot_be_done_says_why(commands, ours, corpus, models, ngram, tmp_path):
    data, model = corpus / "union", models["tied"]
    evaluate = ["evaluate", "--path", model, "--data", data]
    assert "--ngram-path FOLDER" in ours(*evaluate, "--ngram-weight", "0.1", code=1)
    assert "--ngram-path does nothing without --ngram-weight" in ours(*evaluate, "--ngram-path", ngram, code=1)
    assert f"{FILE} not found" in ours(*evaluate, "--ngram-weight", "0.1", "--ngram-path", tmp_path, code=1)
    assert "--ngram-weight 1: expected" in ours(*evaluate, "--ngram-weight", "1", "--ngram-path", ngram, code=1)
    known = ["evaluate", "--path", model, "--data", corpus / "data", "--split", "train", "--ngram-weight", "0.1"]
    assert "is the text that the adapter 'ngram' has read" in ours(*known, "--ngram-path", ngram, code=1)
    tune = ["tune", "--path", model, "--data", data, "--split", "test", "--ngram-path", ngram]
    assert "--ngram-path does nothing without --cache ngram" in ours(*tune, code=1)
    damaged = shutil.copytree(ngram, tmp_path / "damaged")
    (damaged / FILE).write_bytes((damaged / FILE).read_bytes()[:-1])
    assert "is damaged. Make it anew" in ours(*evaluate, "--ngram-weight", "0.1", "--ngram-path", damaged, code=1)
    make = ["ngram", "--data", corpus / "data", "--dest"]
    assert "--order 11: expected 1 to 10" in ours(*make, tmp_path / "n", "--order", "11", code=1)
    assert "expected a whole number, 1 or more" in ours(*make, tmp_path / "n", "--order", "0", code=1)
    assert "none.idx not found" in ours(*make, tmp_path / "n", "--split", "none", code=1)
    assert not (tmp_path / "n").exists()
