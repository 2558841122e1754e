"""Dynamic evaluation as users type it: statistics, one figure through every door, tuning, refusals."""

import json
import math
import re
import shutil
from unittest.mock import ANY

import pytest
from cli_helpers import PLUGIN, evaluated, perplexity, tokens_of

from fairseq_groc.cli import tune
from fairseq_groc.evaluation.loading import load
from fairseq_groc.files import digest

RATE = ["--dynamic-rate", "2e-3", "--dynamic-decay", "0.01"]
OTHERS = ["--uniform-weight", "0.05", "--local-weight", "0.1"]
DOORS = [("tied", "head"), ("compositional_output", "all"), ("awd_lstm", "encoder")]


@pytest.fixture(scope="module")
def models(tmp_path_factory, corpus, models, commands):
    """Checkpoints by head, and one of AWD-LSTM."""
    save = tmp_path_factory.mktemp("awd_lstm")
    options = ["--output-head", "tied", "--prefix-encoder", "awd_lstm", "--max-update", "12", "--valid-subset", "valid,valid1"]
    commands.train(corpus / "data", save, *options, "--batch-size-valid", "8")
    return {**models, "awd_lstm": save / "checkpoint_best.pt"}


@pytest.fixture(scope="module")
def statistics(tmp_path_factory, corpus, models, commands):
    """Return a folder with the statistics of some models and choices."""
    folder = tmp_path_factory.mktemp("statistics") / "made" / "by the command"
    for head, choice in [*DOORS, ("tied", "all"), ("tied", "features")]:
        make = ["gradient-statistics", "--path", models[head], "--data", corpus / "data", "--streams", "4", "--dest", folder]
        output = commands.ok("python", "-m", "fairseq_groc", *make, "--dynamic-parameters", choice)
        assert re.search(rf"gradients-[0-9a-f]{{16}}-{choice}\.safetensors: [\d,]+ numbers in \d+ tensors", output)
    return folder


def report_of(ours, data, model, out, *options):
    ours("evaluate", "--path", model, "--data", data, "--out", out, *options)
    return json.loads(out.read_text())


@pytest.mark.parametrize("head, choice", DOORS)
def test_one_figure_through_every_door(commands, ours, corpus, models, statistics, tmp_path, head, choice):
    data, model, text = corpus / "union", models[head], corpus / "other.txt"
    options = [*RATE, "--dynamic-parameters", choice, "--dynamic-statistics", statistics]
    before = digest(model)
    report = report_of(ours, data, model, tmp_path / "r.json", *options, *OTHERS, "--verify-normalization", "3")
    figure = report["all"]["perplexity"]
    assert report["tokens_scored"] == report["tokens_in_text"] == tokens_of(text) and report["settings"]["block"] == 5
    static = report_of(ours, data, model, tmp_path / "s.json", *OTHERS)["all"]["perplexity"]
    assert math.isfinite(figure) and figure != pytest.approx(static, rel=5e-4)
    printed = pytest.approx(figure, abs=0.006)
    assert evaluated(commands.eval_lm(data, model, *options, *OTHERS)) == (tokens_of(text), printed)
    assert evaluated(commands.eval_lm(data, model, *options, *OTHERS, "--softmax-batch", "3"))[1] == printed
    scored = ours("score", text, "--running", "--path", model, "--data", data, *options, *OTHERS)
    scores = [float(line.split("\t")[0]) for line in scored.splitlines()]
    assert math.exp(-sum(scores) / tokens_of(text)) == pytest.approx(figure, rel=1e-5)
    validate = ["fairseq-validate", data, *PLUGIN, "--path", model, "--valid-subset", "test", "--batch-size", "1"]
    assert perplexity(commands.ok(*validate, *options, *OTHERS)) == printed
    targets_alone = ["--model-overrides", "{'criterion': {'_name': 'cache_interpolated_cross_entropy'}}"]
    assert float(re.findall(r"\| ppl ([\d.]+)", commands.ok(*validate, *options, *OTHERS, *targets_alone))[-1]) == printed
    assert digest(model) == before


def test_every_worker_has_its_own_stream(ours, corpus, models, statistics, tmp_path):
    options = [*RATE, "--dynamic-statistics", statistics, *OTHERS]
    report = report_of(ours, corpus / "union", models["tied"], tmp_path / "r.json", *options, "--streams", "2", "--workers", "2")
    assert report["tokens_scored"] == tokens_of(corpus / "other.txt")


def test_tuning_searches_rates_and_decays(commands, ours, corpus, models, statistics, tmp_path, monkeypatch):
    data, model = shutil.copytree(corpus / "union", tmp_path / "union"), models["compositional_output"]
    grid = ["--dynamic-rates", "0", "1e-3", "4e-3", "--dynamic-decays", "0", "0.1", "--dynamic-statistics", statistics]
    caches = ["--cache", "local", "--weights", "0.1", "0.2", "--thetas", "0.3", "1", "--uniform", "0", "0.1", "--no-extend"]
    where = ["--path", model, "--data", data, "--split", "test1"]
    with monkeypatch.context() as patched:
        patched.setattr(tune, "read", None)  # it says so before it reads
        assert "has no gradient statistics of this model" in ours("tune", *where, *grid[:-2], *caches, code=1)
    printed = ours("evaluate", *where, "--dynamic-rate", "4e-3", *grid[-2:])
    assert "model as it learns" in printed and "model alone" not in printed
    ours("tune", *where, *grid, *caches, "--out", tmp_path / "grid.json")
    found = json.loads((tmp_path / "grid.json").read_text())
    assert len(found["grid"]) == (1 + 2 * 2) * 2 * 4  # passes, uniform weights, caches
    assert found["best"]["perplexity"] == min(row["perplexity"] for row in found["grid"]) and found["best"]["dynamic_rate"] > 0
    for row in (found["grid"][13], found["grid"][22], found["best"]):  # no pass is scored with another's parameters
        names = ["dynamic_rate", "dynamic_decay", "uniform_weight", "local_weight", "cache_theta", "cache_size"]
        options = [part for name in names for part in (f"--{name.replace('_', '-')}", row[name])]
        options += ["--dynamic-statistics", statistics, "--split", "test1"]
        report = report_of(ours, data, model, tmp_path / "r.json", *options)
        assert report["all"]["perplexity"] == pytest.approx(row["perplexity"], rel=1e-5)
    output = commands.eval_lm(data, model, "--gen-subset", "test1")
    assert "--dynamic-parameters all" in output
    assert evaluated(output)[1] == pytest.approx(found["best"]["perplexity"], abs=0.006)
    stored = ["fairseq-eval-lm", data, *PLUGIN, "--path", model, "--gen-subset", "test1"]
    for options, message in (
        (["--sample-break-mode", "eos"], "leave it out (--no-tuned-adapters, if tune has stored it)"),
        (["--tokens-per-sample", "10"], "--tokens-per-sample 10: with --dynamic-rate 5 tokens are read at a time, and then"),
    ):
        assert message in commands.fails(*stored, *options)
        commands.ok(*stored, *options, "--no-tuned-adapters")


def test_tuning_goes_on_beyond_the_edge_of_rates_and_decays(ours, corpus, models, statistics, tmp_path):
    """A rate far too small and a decay far too large; without the cache, a setting is a pass."""
    common = ["tune", "--path", models["tied"], "--data", corpus / "union", "--split", "test1", "--cache", "none", "--no-store"]
    common += ["--uniform", "0.1", "--dynamic-statistics", statistics, "--out", tmp_path / "grid.json"]
    grid = ["--dynamic-rates", "0", "1e-4", "3e-4", "--dynamic-decays", "0.5", "1"]

    def tried(*options):
        output = ours(*common, *grid, *options)
        rows = json.loads((tmp_path / "grid.json").read_text())["grid"]
        return output, [sorted({row[name] for row in rows}) for name in ("dynamic_rate", "dynamic_decay")]

    output, (rates, decays) = tried()
    assert "at the edge of the grid (--dynamic-rate 0.0003" in output and "trying values beyond it" in output
    assert rates[:5] == [0, 1e-4, 3e-4, 9e-4, 2.7e-3] and decays[-3:] == [0.25, 0.5, 1]
    output, (rates, decays) = tried("--no-extend")
    assert "better ones may lie beyond it" in output and rates == [0, 1e-4, 3e-4]


def test_features_learn_beside_other_streams_and_in_generation(commands, ours, corpus, models, statistics, tmp_path):
    data, model = corpus / "data", models["tied"]
    options = ["--dynamic-rate", "0.05", "--dynamic-parameters", "features", "--dynamic-statistics", statistics]
    report = report_of(ours, data, model, tmp_path / "r.json", *options, "--split", "valid", "--streams", "4")
    printed = evaluated(commands.eval_lm(data, model, *options, "--gen-subset", "valid", "--batch-size", "4"))[1]
    assert printed == pytest.approx(report["all"]["perplexity"], abs=0.006)
    chosen = dict(dynamic_rate=0.05, dynamic_parameters="features", dynamic_statistics=str(statistics))
    generate = ["fairseq-generate", data, *PLUGIN, "--path", model, "--gen-subset", "valid", "--sample-break-mode", "eos"]
    generate += ["--batch-size", "4", "--beam", "2", "--min-len", "14", "--max-len-b", "16"]
    learned, plain = (re.findall(r"^H-\d+\t(\S+)\t", commands.ok(*generate, *more), re.M) for more in (options, []))
    assert len(learned) == len(plain) and learned != plain
    hubs = load(str(model), str(data), **chosen), load(str(model), str(data))
    tokens = [one.generate(one.encode("a lion"), beam=3, min_len=14, max_len_b=16)[0]["score"].item() for one in hubs]
    assert tokens[0] != pytest.approx(tokens[1], rel=1e-3)
    of_lines = [data, *PLUGIN, "--path", model, "--sample-break-mode", "eos", *options]
    for program, subset in (("fairseq-eval-lm", "--gen-subset"), ("fairseq-validate", "--valid-subset")):
        assert "--dynamic-rate: every line begins anew" in commands.fails(
            program, *of_lines, subset, "valid", "--batch-size", "4"
        )


def test_a_rate_that_is_far_too_large_says_so_once(ours, corpus, models, statistics, caplog):
    evaluate = ["evaluate", "--path", models["tied"], "--data", corpus / "union", "--dynamic-statistics", statistics]
    ours(*evaluate, *RATE)
    assert "diverges" not in caplog.text
    ours(*evaluate, "--dynamic-rate", "1e4")
    assert re.findall(r"--dynamic-rate diverges: .* Lower it\.", caplog.text) == [ANY]


def test_what_cannot_be_done_says_why(commands, ours, corpus, models, statistics, tmp_path):
    data, model = corpus / "union", models["tied"]
    given = [*RATE, "--dynamic-statistics", statistics]
    evaluate = ["evaluate", "--path", model, "--data", data]
    assert "--streams" in ours(*evaluate, *given, "--streams", "4", code=1)
    assert "every line begins anew" in ours(*evaluate, *given, "--sample-break-mode", "eos", code=1)
    assert "--tokens-per-sample 35: with --dynamic-rate 5 tokens" in ours(*evaluate, *given, "--tokens-per-sample", "35", code=1)
    assert "gradient-statistics --path" in ours(*evaluate, *RATE, code=1)
    assert "--dynamic-decay does nothing without --dynamic-rate" in ours(*evaluate, "--dynamic-decay", "0.1", code=1)
    assert "--dynamic-parameters some: expected one of all" in ours(*evaluate, *given, "--dynamic-parameters", "some", code=1)
    assert "--dynamic-rate -1: expected 0 or more" in ours(*evaluate, "--dynamic-rate", "-1", code=1)
    part = ["gradient-statistics", "--path", model, "--data", corpus / "data", "--max-batches", "1", "--dest"]
    assert "may be of a whole text" in ours(*part, statistics, code=1)
    score = ["score", corpus / "other.txt", "--path", model, "--data", data, *given]
    assert "score --running" in ours(*score, code=1)
    assert "--open-vocabulary" in ours(*score, "--running", "--open-vocabulary", code=1)
    tune = ["tune", "--path", model, "--data", data, "--split", "test"]
    assert "--dynamic-decays does nothing without --dynamic-rates" in ours(*tune, "--dynamic-decays", "0.1", code=1)
    train = ["--output-head", "tied", "--max-update", "1", "--valid-subset", "valid,valid1"]
    train = ["fairseq-train", corpus / "data", *PLUGIN, "--arch", "groc_lstm_lm_small", *train, "--save-dir", tmp_path, *given]
    assert "--dynamic-rate is for scoring" in commands.fails(*train, "--optimizer", "adam", "--batch-size", "4")
    streams = commands.fails("fairseq-eval-lm", data, *PLUGIN, "--path", model, "--batch-size", "4", *given)
    assert "4 streams side by side" in streams and "--batch-size 1" in streams
