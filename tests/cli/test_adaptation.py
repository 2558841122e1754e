"""Adapters as users type them: one figure through every door, tuning, reports, remembered text."""

import json
import logging
import math
import multiprocessing
import re
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cli_helpers import PLUGIN, evaluated, perplexity, tokens_of
from fairseq_cli import eval_lm
from filelock import FileLock

from fairseq_groc.adapters import AdapterSettings
from fairseq_groc.adapters.adapter import View
from fairseq_groc.cli import tune
from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.errors import DataError, GrocError
from fairseq_groc.evaluation import tuning
from fairseq_groc.evaluation.line_losses import read_losses
from fairseq_groc.evaluation.loading import load
from fairseq_groc.evaluation.stored import store_tuned, tuned_adapters
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModel

ADAPTERS = ["--uniform-weight", "0.05", "--unigram-weight", "0.1", "--local-weight", "0.2", "--unbounded-weight", "0.1"]
TUNED = "adapters as tuned on 'test1'"
ADAPTERS += ["--cache-theta", "2", "--cache-size", "30", "--cache-neighbors", "9"]


@pytest.fixture
def scored(monkeypatch, caplog):
    """Return a function that runs fairseq-eval-lm in this process and returns what it logged."""

    def run(data, model, *options):
        caplog.clear()
        command = ["fairseq-eval-lm", data, *PLUGIN, "--path", model, "--num-workers", 0, *options]
        monkeypatch.setattr(sys, "argv", [str(part) for part in command])
        with caplog.at_level(logging.INFO):
            eval_lm.cli_main()
        return caplog.text

    return run


def printed(figure):
    """What fairseq-eval-lm prints of a perplexity: two digits behind the point."""
    return pytest.approx(figure, abs=0.006)


def evaluate(ours, data, model, out, *options):
    ours("evaluate", "--path", model, "--data", data, "--out", out, *options)
    return json.loads(out.read_text())


@pytest.mark.parametrize("head", ["compositional_output", "tied"])
def test_one_figure_through_every_door(ours, scored, corpus, models, tmp_path, head):
    data, model, text = corpus / "union", models[head], corpus / "other.txt"
    report = evaluate(ours, data, model, tmp_path / "r.json", *ADAPTERS, "--verify-normalization", "2")
    figure = report["all"]["perplexity"]
    assert report["tokens_scored"] == report["tokens_in_text"] == tokens_of(text) and math.isfinite(figure)
    assert report["largest_sum_error"] <= 1e-5 and report["verified_positions"] > 0
    own = report["all"]["model_perplexity"]
    assert own == "inf" if head == "tied" else figure != pytest.approx(own, rel=1e-3)
    assert evaluated(scored(data, model, *ADAPTERS)) == (tokens_of(text), printed(figure))
    assert evaluated(scored(data, model, *ADAPTERS, "--softmax-batch", "3"))[1] == printed(figure)
    assert evaluated(scored(data, model, *ADAPTERS, "--tokens-per-sample", "1")) == evaluated(scored(data, model, *ADAPTERS))
    by_line = ["score", text, "--running", "--tokens-per-sample", "10", "--path", model, "--data", data]
    scores = [float(line.split("\t")[0]) for line in ours(*by_line, *ADAPTERS).splitlines()]
    assert math.exp(-sum(scores) / tokens_of(text)) == pytest.approx(figure, rel=1e-5)


def test_the_mass_of_new_words(ours, corpus, models, tmp_path):
    options = ["--uniform-weight", "0.1", "--verify-normalization", "1"]
    report = evaluate(ours, corpus / "union", models["tied"], tmp_path / "r.json", *options)
    known, words = ({line.split()[0] for line in (corpus / name / "dict.txt").open()} for name in ("data", "union"))
    assert report["verified_positions"] == report["tokens_scored"] and report["model_new_mass"] == 0
    assert report["new_mass"] == pytest.approx(0.1 * len(words - known) / len(words), rel=1e-5)


def test_commands_of_fairseq_see_the_adapted_model(commands, ours, corpus, models, tmp_path):
    data, model = corpus / "union", models["compositional_output"]
    report = evaluate(ours, data, model, tmp_path / "r.json", *ADAPTERS)
    figure, own = report["all"]["perplexity"], report["all"]["model_perplexity"]
    assert evaluated(commands.eval_lm(data, model, *ADAPTERS))[1] == printed(figure)
    validate = ["fairseq-validate", data, *PLUGIN, "--path", model, "--valid-subset", "test", "--batch-size", "1", *ADAPTERS]
    assert perplexity(commands.ok(*validate)) == printed(figure)
    output = commands.ok(*validate, "--model-overrides", "{'criterion': {'_name': 'cache_interpolated_cross_entropy'}}")
    assert [float(p) for p in re.findall(r"ppl ([\d.]+)", output)] == [printed(figure), printed(own)]


def test_validation_in_training_is_adapted(commands, ours, corpus, models, tmp_path):
    options = [
        "--finetune-from-model",
        models["tied"],
        "--output-head",
        "tied",
        "--valid-subset",
        "valid,valid1",
        "--max-update",
        "1",
    ]
    options += ["--criterion", "cache_interpolated_cross_entropy", "--lr", "1e-12", "--batch-size-valid", "1"]
    output = commands.train(corpus / "data", tmp_path, *options, *ADAPTERS)
    logged = re.findall(r"\| valid on 'valid' subset .*? ppl ([\d.]+)", output)
    report = evaluate(ours, corpus / "data", models["tied"], tmp_path / "r.json", "--split", "valid", *ADAPTERS)
    assert float(logged[-1]) == printed(report["all"]["perplexity"])


def test_sums_that_are_not_1_are_an_error(ours, corpus, models, tmp_path, monkeypatch):
    adapt = View.adapt
    monkeypatch.setattr(View, "adapt", lambda view, lprobs: adapt(view, lprobs) + 3e-5)
    command = ["evaluate", "--path", models["tied"], "--data", corpus / "union", "--local-weight", "0.1"]
    error = ours(*command, "--verify-normalization", "2", code=1)
    assert re.search(r"probabilities do not sum to 1: [23]\.\de-05 off, more than 1\.0e-05", error)


def test_reports_and_losses_are_the_same_with_any_number_of_workers(ours, corpus, models, tmp_path, monkeypatch):
    options = ["--streams", "4", "--unigram-weight", "0.1", "--local-weight", "0.1", "--unbounded-weight", "0.1"]
    options += ["--split", "other=test", "valid=test1", "--losses"]
    reports, losses, meanwhile = [], [], []
    context, handler = multiprocessing.get_context("spawn"), signal.getsignal(signal.SIGINT)
    begin = context.Pool
    monkeypatch.setattr(context, "Pool", lambda *of: meanwhile.append(signal.getsignal(signal.SIGINT)) or begin(*of))
    for n in (1, 2):
        out, lines = tmp_path / f"{n}.json", tmp_path / f"{n}.tsv"
        reports.append(evaluate(ours, corpus / "union", models["tied"], out, *options, lines, "--workers", n)["texts"])
        losses.append({name: read_losses(tmp_path / f"{n}.{name}.tsv") for name in ("other", "valid")})
    assert meanwhile == [signal.SIG_IGN] and signal.getsignal(signal.SIGINT) is handler  # workers say nothing of Ctrl-C
    assert (tmp_path / "1.valid.tsv").read_text().count("\t0\t0.0\t") == 20  # no line has new words
    one, two = (report["other"] for report in reports)
    assert one["all"]["impossible"] == two["all"]["impossible"] > 0 and one["all"]["perplexity"] == "inf"
    for part in ("all", "known", "new"):
        assert one[part]["tokens"] == two[part]["tokens"] > 0
    for name in ("other", "valid"):
        known, same = (report[name]["known"]["perplexity"] for report in reports)
        assert known == pytest.approx(same, rel=1e-6)
        (columns, words), (others, again) = (of[name] for of in losses)
        assert words == again and all(columns[column] == pytest.approx(others[column], rel=1e-6) for column in columns)
        assert list(columns["all_tokens"]) == [len(line.split()) + 1 for line in open(corpus / f"{name}.txt")]
    assert one["known"]["tokens"] + one["new"]["tokens"] == one["all"]["tokens"]
    assert one["checkpoint"] == two["checkpoint"] and one["data"] == two["data"]
    wrong = ["evaluate", "--path", models["tied"], "--data", corpus / "union"]
    assert ours(*wrong, "--streams", "3", "--workers", "2", code=1) == "error: --streams 3 must be a multiple of --workers 2\n"
    error = ours(*wrong, "--no-corrections", "--dynamic-rate", "1e-4", code=1)
    assert error == "error: --no-corrections and --dynamic-rate: gradient statistics are of the whole model. Give one.\n"


def test_bits_per_character_are_those_of_the_raw_text(ours, corpus, models, tmp_path):
    report = evaluate(ours, corpus / "union", models["compositional_output"], tmp_path / "r.json")
    bits = math.log2(report["all"]["perplexity"]) * report["tokens_scored"]
    text = "".join(" ".join(line.split()) + "\n" for line in open(corpus / "other.txt"))
    assert report["bits_per_character"] == pytest.approx(bits / len(text), rel=1e-6)
    assert report["bits_per_byte"] == pytest.approx(bits / len(text.encode()), rel=1e-6)


@pytest.mark.parametrize("cache", ["local", "unigram", "unbounded", "none"])
def test_tuning_finds_what_scoring_then_finds(ours, scored, corpus, models, tmp_path, cache):
    data, model = tmp_path / "union", models["tied"]
    shutil.copytree(corpus / "union", data)
    grid = ["--weights", ".05", ".3", "--thetas", "0", "2", "--sizes", "9", "50", "--neighbors", "3", "9"]
    grid += ["--uniform", ".01", ".1", "--discounts", ".1", "1"]
    options = ["--split", "test1", "--cache", cache, "--out", tmp_path / "grid.json", "--no-extend"]
    output = ours("tune", "--path", model, "--data", data, *options, *grid)
    tried = json.loads((tmp_path / "grid.json").read_text())["grid"]
    assert len(tried) == {"local": 32, "unigram": 8, "unbounded": 16, "none": 4}[cache]
    assert (tmp_path / "grid.png").exists() == (cache in ("local", "unbounded"))
    found = min(row["perplexity"] for row in tried)
    assert f"best: {found:,.2f}" in output and json.loads((tmp_path / "grid.json").read_text())["best"]["perplexity"] == found
    tuned = scored(data, model, "--gen-subset", "test1")
    assert TUNED in tuned and evaluated(tuned)[1] == printed(found)
    plain = scored(data, model, "--gen-subset", "test1", "--no-tuned-adapters")
    assert TUNED not in plain and evaluated(plain)[1] != printed(found)
    assert TUNED not in scored(data, models["lookup"], "--gen-subset", "test1")  # which has none here
    for row in tried[:: len(tried) // 4]:  # some of the grid, by the way that users score
        flags = [part for name, value in row.items() if name != "perplexity" for part in (f"--{name.replace('_', '-')}", value)]
        again = evaluate(ours, data, model, tmp_path / "r.json", "--split", "test1", *flags)
        assert again["all"]["perplexity"] == pytest.approx(row["perplexity"], rel=1e-5)


def test_tuning_goes_on_beyond_the_edge_of_its_grid(ours, corpus, models, tmp_path, monkeypatch):
    """The model runs once; a grid whose best is within it stays as it is."""
    data, model, out = tmp_path / "union", models["compositional_output"], tmp_path / "grid.json"
    shutil.copytree(corpus / "union", data)
    passes, read = [], tuning.read
    monkeypatch.setattr(tune, "read", lambda *given: passes.append(1) or read(*given))
    options = ["--path", model, "--data", data, "--split", "test1", "--sizes", "9", "--out", out]
    grid = ["--weights", "0.9", "0.95", "--uniform", "0.7", "0.8", "--thetas", "0", "0.01"]
    output = ours("tune", *options, *grid)
    found = json.loads(out.read_text())
    assert "at the edge of the grid (" in output and "trying values beyond it" in output and len(passes) == 1
    assert found["best"]["local_weight"] < 0.9 and found["best"]["uniform_weight"] < 0.7
    again = evaluate(ours, data, model, tmp_path / "r.json", "--split", "test1")
    assert again["settings"]["adapters"] == {name: value for name, value in found["best"].items() if name != "perplexity"}
    assert again["all"]["perplexity"] == pytest.approx(found["best"]["perplexity"], rel=1e-5)
    output = ours("tune", *options, *grid, "--no-extend", "--no-store")
    assert "better ones may lie beyond it" in output and len(json.loads(out.read_text())["grid"]) == 8


@pytest.mark.parametrize(
    "content, what",
    [
        ("{", "is not readable"),
        ('{"a": {}}', "is not readable"),
        ("[1]", "is not readable"),
        ('{"format": 1, "models": {}}', "has format 1, expected 2"),
        ('{"format": 2, "models": [1]}', "is not readable"),
        ('{"format": 2, "models": {"m": {"settings": {}}}}', "is not readable"),
        *(
            (f'{{"format": 2, "models": {{"m": {{"split": "valid", "settings": {settings}}}}}}}', "is not readable")
            for settings in (
                *(
                    "null",
                    "[]",
                    '{"local_weight": -1}',
                    '{"uniform_weight": NaN}',
                    '{"uniform_weight": 2}',
                    '{"cache_theta": NaN}',
                ),
                *('{"cache_size": -1}', '{"cache_size": 1.5}', '{"local_weight": "1"}', '{"local_weight": true}'),
                *('{"cache_theta": null}', '{"new_word_discount": 0}', '{"cache_neighbors": 1e999}'),
            )
        ),
        ('{"format": 2, "models": {"m": {"split": "valid", "settings": {}, "cache_text": 5}}}', "is not readable"),
    ],
)
def test_settings_on_disk_that_no_option_takes_are_refused(tmp_path, content, what):
    (tmp_path / "adapters.json").write_text(content)
    for use in (tuned_adapters, lambda data, decoder: store_tuned(data, decoder, AdapterSettings(), split="valid")):
        with pytest.raises(DataError, match=f"adapters.json {what}.* Remove it and tune again"):
            use(tmp_path, SimpleNamespace())
    assert (tmp_path / "adapters.json").read_text() == content


def test_an_option_on_disk_of_a_cache_that_is_not_registered_is_named_with_its_file(tmp_path):
    content = '{"format": 2, "models": {"m": {"split": "valid", "settings": {"other_weight": 0.1}}}}'
    (tmp_path / "adapters.json").write_text(content)
    with pytest.raises(DataError, match="adapters.json: other_weight: none of the registered adapters .*--user-dir"):
        tuned_adapters(tmp_path, SimpleNamespace(fingerprint=lambda: "m"))


def test_folders_on_disk_are_those_of_the_adapters(tmp_path):
    """A folder stands beside the settings, as files have it that are older than options that are folders."""
    content = '"split": "valid", "settings": {"unbounded_weight": 0.1}, "cache_text": "/text", "dynamic_statistics": null'
    (tmp_path / "adapters.json").write_text(f'{{"format": 2, "models": {{"m": {{{content}}}}}}}')
    decoder = SimpleNamespace(fingerprint=lambda: "m")
    assert tuned_adapters(tmp_path, decoder) == AdapterSettings(unbounded_weight=0.1, cache_text="/text")
    store_tuned(tmp_path, decoder, AdapterSettings(unbounded_weight=0.2, cache_text="text"), split="valid")
    stored = json.loads((tmp_path / "adapters.json").read_text())["models"]["m"]
    assert stored["cache_text"] == str(Path("text").resolve()) and "cache_text" not in stored["settings"]


def test_settings_that_are_a_link_to_nothing_are_not_taken_for_none(tmp_path):
    (tmp_path / "adapters.json").symlink_to(tmp_path / "none")
    with pytest.raises(DataError, match="adapters.json is not readable"):
        tuned_adapters(tmp_path, None)


@pytest.mark.parametrize("mode", ["none", "eos"])
@pytest.mark.parametrize("cache", ["unigram", "local", "unbounded"])
def test_tuning_reads_streams_and_lines_as_scoring_does(ours, corpus, models, tmp_path, cache, mode):
    """Lines by themselves remember nothing of each other; 20 of them are no multiple of 7."""
    data, model = corpus / "union", models["tied"]
    weight = f"--{cache}-weight"
    for streams in (1, 7):
        read = ["--split", "test", "--streams", streams, "--sample-break-mode", mode]
        fixed = ["--weights", "0.3", "--thetas", "2", "--sizes", "9", "--neighbors", "3", "--uniform", "0.1"]
        output = ours("tune", "--path", model, "--data", data, "--cache", cache, "--no-store", *read, *fixed)
        own = {"local": ["--cache-theta", "2", "--cache-size", "9"], "unbounded": ["--cache-neighbors", "3"]}.get(cache, [])
        report = evaluate(ours, data, model, tmp_path / "r.json", *read, weight, "0.3", "--uniform-weight", "0.1", *own)
        found = float(re.findall(r"best: ([\d.,]+)", output)[0].replace(",", ""))
        assert found == pytest.approx(report["all"]["perplexity"], rel=1e-5, abs=0.005), (streams, mode)


def test_a_text_is_not_tuned_on_with_itself_remembered(ours, corpus, models, tmp_path):
    data, model, store = tmp_path / "data", models["tied"], tmp_path / "valid"
    shutil.copytree(corpus / "data", data)
    ours("remember", store, "--path", model, "--data", data, "--split", "valid")
    tune = ["tune", "--path", model, "--data", data, "--cache", "unbounded", "--cache-text", store]
    assert "valid.bin is the text that the adapter 'unbounded' has read" in ours(*tune, code=1)
    assert not (data / "adapters.json").exists()


def test_what_cannot_be_tuned_says_so_and_stores_nothing(ours, corpus, models, tmp_path, monkeypatch):
    data = tmp_path / "union"
    shutil.copytree(corpus / "union", data)
    tune = ["tune", "--path", models["tied"], "--data", data, "--split", "test", "--cache", "unigram"]
    assert "a token is impossible: give --uniform some weights above 0" in ours(*tune, "--uniform", "0", code=1)
    monkeypatch.setattr("fairseq_groc.cli.tune.open_model", None)  # what follows is refused before the work
    for option, values, expected in (
        ("--weights", ["0.1", "1"], "--weights 1: expected a number from 0 to below 1"),
        ("--weights", ["nan"], "--weights nan: expected a number from 0 to below 1"),
        ("--uniform", ["0", "-0.1"], "--uniform -0.1: expected a number from 0 to below 1"),
        ("--thetas", ["nan"], "--thetas nan: expected a number"),
        ("--thetas", ["1", "inf"], "--thetas inf: expected a number"),
        ("--discounts", ["0"], "--discounts 0: expected a number above 0"),
        ("--discounts", ["inf"], "--discounts inf: expected a number above 0"),
        ("--sizes", ["0"], "--sizes 0: expected 1 or more"),
        ("--neighbors", ["9", "-9"], "--neighbors -9: expected 1 or more"),
    ):
        assert ours(*tune, option, *values, code=1) == f"error: {expected}\n"
    assert not (data / "adapters.json").exists()


def test_a_remembered_text_is_tuned_with_and_comes_with_the_settings(ours, scored, corpus, models, tmp_path):
    data, model, store = tmp_path / "data", models["tied"], tmp_path / "train"
    shutil.copytree(corpus / "data", data)
    ours("remember", store, "--path", model, "--data", data)
    tune = ["tune", "--path", model, "--data", data, "--cache", "unbounded", "--neighbors", "9", "--weights", "0.3"]
    found = [float(re.findall(r"best: ([\d.,]+)", ours(*tune, *text))[0]) for text in ([], ["--cache-text", store])]
    assert found[0] != pytest.approx(found[1], rel=1e-3)
    tuned = scored(data, model, "--gen-subset", "valid")
    assert evaluated(tuned)[1] == printed(found[1]) and "words remembered" in tuned
    (data / "binarised.json").unlink()
    output = ours(*tune, "--discounts", "1", "3", code=1)
    assert "nothing says which words are new" in output


def test_a_model_in_half_precision_has_the_tuned_adapters(ours, corpus, models, tmp_path, caplog):
    """As fairseq's programs with --fp16, which round it before they look for any."""
    data = tmp_path / "union"
    shutil.copytree(corpus / "union", data)
    ours("tune", "--path", models["tied"], "--data", data, "--split", "test1", "--cache", "unigram")
    for name, message in (("tied", TUNED), ("lookup", "adapters.json has no adapters of this model, only of others")):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            hub = GrocLSTMLanguageModel.from_pretrained(str(models[name].parent), models[name].name, str(data)).half().eval()
            hub.score("the cat")
        assert message in caplog.text and bool(hub.models[0].decoder.adapter) == (name == "tied")


def test_words_that_come_later_keep_the_tuned_adapters(ours, corpus, models, tmp_path):
    data, model = tmp_path / "union", models["compositional_output"]
    shutil.copytree(corpus / "union", data)
    ours("tune", "--path", model, "--data", data, "--split", "test1", "--cache", "unigram")
    hub = load(str(model), str(data))
    adapter = hub.models[0].decoder.adapter
    before = hub.score("the cat barked")["positional_scores"]
    hub.models[0].add_words(["zzzyx"])
    after = hub.score("the cat barked")["positional_scores"]
    assert adapter is not None and hub.models[0].decoder.adapter is adapter
    assert (before - after).abs().max() < 0.1  # what the new word takes


def test_the_training_text_is_scored_like_any_other(commands, ours, corpus, models, tmp_path):
    data, model = corpus / "data", models["tied"]
    report = evaluate(ours, data, model, tmp_path / "r.json", "--split", "train", "--unigram-weight", "0.2")
    validate = ["fairseq-validate", data, *PLUGIN, "--path", model, "--valid-subset", "train", "--batch-size", "1"]
    assert perplexity(commands.ok(*validate, "--unigram-weight", "0.2")) == printed(report["all"]["perplexity"])


def test_what_a_training_had_acts_with_a_word_where_it_acts(commands, ours, corpus, tmp_path):
    """Programs that take the checkpoint's task have it, as fairseq-validate; those that have a task of their own do not."""
    had = ["--uniform-weight", "0.3", "--sample-break-mode", "eos", "--draw-new-rows", "--ignore-unused-valid-subsets"]
    commands.train(corpus / "data", tmp_path, "--output-head", "tied", "--max-update", "3", *had)
    model, data = tmp_path / "checkpoint_last.pt", corpus / "union"
    validate = ["fairseq-validate", data, *PLUGIN, "--path", model, "--valid-subset", "test", "--batch-size", "4"]
    output = commands.ok(*validate)
    assert "adapters as in training: --uniform-weight 0.3" in output
    assert "as in training" not in commands.ok(*validate, "--uniform-weight", "0.2")
    output = commands.eval_lm(data, model)
    assert "as in training" not in output and math.isinf(evaluated(output)[1])
    assert "the model was trained on lines by themselves; 'test' is a running text" in output
    assert evaluate(ours, data, model, tmp_path / "r.json")["all"]["perplexity"] == "inf"
    drawn = evaluate(ours, data, model, tmp_path / "r.json", "--draw-new-rows")["all"]["perplexity"]
    assert math.isfinite(drawn) and evaluated(commands.eval_lm(data, model, "--draw-new-rows"))[1] == printed(drawn)


def test_words_of_the_training_text_are_known_wherever_the_dictionary_has_them(ours, commands, corpus, models, tmp_path):
    """A folder to finetune in: its dictionary begins with the words of another one, not all of which it trains on."""
    raw = tmp_path / "new.txt"
    raw.write_text("zebra zebra cat\nthe zebra\n")
    lexicon = ["--lexicon-path", "none"]
    options = ["--vocabulary-from", corpus / "data", "--train", raw, "--valid", raw, "--dest", tmp_path / "new", *lexicon]
    commands.preprocess(*options)
    commands.preprocess("--vocabulary", tmp_path / "new" / "dict.txt", "--train", raw, "--dest", tmp_path / "own", *lexicon)
    commands.preprocess("--vocabulary", tmp_path / "new" / "dict.txt", "--test", raw, "--dest", tmp_path / "bare", *lexicon)
    dictionary = load_dictionary(tmp_path / "new" / "dict.txt")
    first, own = (trained_words(tmp_path / name, len(dictionary)) for name in ("new", "own"))
    ids = {word: dictionary.index(word) for word in ("the", "cat", "zebra", "dog", "</s>", "<unk>")}
    assert [bool(first[ids[w]]) for w in ids] == [True, True, True, True, True, False]  # dog: in the first folder's text
    assert [bool(own[ids[w]]) for w in ids] == [True, True, True, False, True, False]
    assert trained_words(tmp_path / "bare", len(dictionary)) is None


def test_a_remembered_text_is_seen_and_a_foreign_one_refused(ours, scored, corpus, models, tmp_path):
    data, model, store = corpus / "data", models["tied"], tmp_path / "train"
    remember = ["remember", store, "--path", model, "--data", data]
    assert f"{tokens_of(corpus / 'train.txt'):,} words stored" in ours(*remember)
    options = ["--gen-subset", "valid", "--unbounded-weight", "0.3", "--cache-neighbors", "9"]
    seen = evaluated(scored(data, model, *options, "--cache-text", store))
    unseen = evaluated(scored(data, model, *options))
    assert seen[0] == unseen[0] and seen[1] != printed(unseen[1])
    with pytest.raises(GrocError, match="its model or vocabulary is .*Give another folder, or make it anew"):
        scored(data, models["lookup"], *options, "--cache-text", store)
    words = (store / "words.u32").read_bytes()
    (store / "words.u32").write_bytes(b"\xff" * len(words))
    with pytest.raises(GrocError, match="they are damaged"):
        scored(data, model, *options, "--cache-text", store)
    (store / "words.u32").write_bytes(words)
    with pytest.raises(GrocError, match="train.bin is the text that the adapter 'unbounded' has read"):
        scored(data, model, "--gen-subset", "train", *options[2:], "--cache-text", store)
    with pytest.raises(GrocError, match="--cache-text does nothing without --unbounded-weight"):
        scored(data, model, "--cache-text", store)
    (store / "keys.f32").write_bytes(b"")
    with pytest.raises(GrocError, match="is shorter than the"):
        scored(data, model, *options, "--cache-text", store)


def test_lines_that_were_trained_on_by_themselves_are_a_running_text_to_caches(commands, ours, corpus, tmp_path):
    """As fairseq-eval-lm has it: how a text is read is the command's to say, not the checkpoint's."""
    options = ["--output-head", "tied", "--max-update", "2", "--sample-break-mode", "eos", "--ignore-unused-valid-subsets"]
    commands.train(corpus / "data", tmp_path / "save", *options)
    model, data = tmp_path / "save" / "checkpoint_last.pt", corpus / "data"
    stored = ours("remember", tmp_path / "m", "--path", model, "--data", data)
    assert f"{tokens_of(corpus / 'train.txt'):,} words stored" in stored
    options = ["--split", "valid", "--unigram-weight", "0.2"]
    running = evaluate(ours, data, model, tmp_path / "r.json", *options)["all"]["perplexity"]
    by_line = evaluate(ours, data, model, tmp_path / "r.json", *options, "--sample-break-mode", "eos")["all"]["perplexity"]
    assert by_line != pytest.approx(running, rel=1e-3)
    printed_by_fairseq = commands.eval_lm(data, model, "--gen-subset", "valid", "--unigram-weight", "0.2")
    assert evaluated(printed_by_fairseq)[1] == printed(running)


def test_a_checkpoint_of_another_default_is_used(ours, corpus, models, tmp_path):
    """Checkpoints keep what every option was when they were made."""
    saved = torch.load(models["tied"], weights_only=False)
    assert saved["cfg"]["task"]["cache_theta"] != 0.5
    saved["cfg"]["task"]["cache_theta"] = 0.5
    torch.save(saved, tmp_path / "model.pt")
    assert load(str(tmp_path / "model.pt"), str(corpus / "union")).models[0].decoder.adapter is None
    common = ["--path", tmp_path / "model.pt", "--data", corpus / "union"]
    figure = evaluate(ours, corpus / "union", tmp_path / "model.pt", tmp_path / "r.json", "--local-weight", "0.1")
    assert figure["settings"]["adapters"]["cache_theta"] == 3  # of the command, as in fairseq-eval-lm
    assert "--cache-theta does nothing without --local-weight" in ours("evaluate", *common, "--cache-theta", "0.5", code=1)


def test_numbers_out_of_range_and_names_that_cannot_be_written_are_refused_at_once(ours, corpus, models, tmp_path):
    common = ["--path", models["tied"], "--data", corpus / "union"]
    assert "--streams 0: expected a whole number, 1 or more" in ours("tune", *common, "--streams", "0", code=1)
    many = ["--split", "test", "--streams", "100000"]
    assert f"--streams 100,000: the text has {tokens_of(corpus / 'other.txt')} tokens" in ours("tune", *common, *many, code=1)
    assert "--tokens-per-sample -1: expected" in ours("evaluate", *common, "--tokens-per-sample", "-1", code=1)
    assert "--out nowhere/x.json: there is no folder" in ours("evaluate", *common, "--out", "nowhere/x.json", code=1)
    assert "--out grid.png: expected a name" in ours("tune", *common, "--out", "grid.png", code=1)
    assert "--cache-text does nothing" in ours("tune", *common, "--cache-text", tmp_path, code=1)
    for tokens in ("0", "-1"):
        score = ["score", corpus / "other.txt", *common, "--tokens-per-sample", tokens]
        assert f"--tokens-per-sample {tokens}: expected a whole number, 1 or more" in ours(*score, "--open-vocabulary", code=1)
    with pytest.raises(GrocError, match="--new-word-discount inf: expected"):
        load(str(models["tied"]), str(corpus / "union"), new_word_discount=math.inf)


def test_remembering_goes_on_where_it_was_killed(ours, corpus, models, tmp_path, monkeypatch):
    """Blocks are stored at once, the fifth kills; what was reported as stored is there, and the rest is added."""
    from fairseq_groc.cli import remember

    command = ["remember", "--path", models["compositional_output"], "--data", corpus / "data"]
    ours(command[0], tmp_path / "whole", *command[1:])
    monkeypatch.setattr(remember, "COMMIT", -1)
    whole, commit, reported = remember.commit, remember.commit, []

    def killed(*arguments):
        if len(reported) == 5:
            raise KeyboardInterrupt
        reported.append(commit(*arguments))
        return reported[-1]

    monkeypatch.setattr(remember, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        ours(command[0], tmp_path / "killed", *command[1:])
    assert json.loads((tmp_path / "killed" / "header.json").read_text())["stored"] == reported[-1] == 50
    monkeypatch.setattr(remember, "commit", whole)
    state = tmp_path / "killed" / "50.state.pt"
    state.rename(tmp_path / "state.pt")
    assert f"{state}, the model's state after the last word stored, is missing or damaged" in ours(
        command[0], tmp_path / "killed", *command[1:], code=1
    )
    (tmp_path / "state.pt").rename(state)
    with FileLock(tmp_path / "killed" / ".lock"):
        assert "another process writes to" in ours(command[0], tmp_path / "killed", *command[1:], code=1)
    ours(command[0], tmp_path / "killed", *command[1:])
    for name in ("keys.f32", "words.u32", "header.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
