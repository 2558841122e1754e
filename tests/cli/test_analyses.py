"""Analyses of trained models as users type them."""

import json
import math
import re
import shutil

import pytest
from cli_helpers import tokens_of


def perplexity(ours, tmp_path, data, model, split):
    ours("evaluate", "--path", model, "--data", data, "--split", split, "--out", tmp_path / "r.json", "--no-tuned-adapters")
    return json.loads((tmp_path / "r.json").read_text())["all"]["perplexity"]


def test_frequency_bins_are_the_difference_of_perplexities(ours, corpus, models, tmp_path):
    command = ["frequency-bins", "--path", models["compositional_output"], "--data", corpus / "data", "--split", "valid"]
    command += ["--edges", "0", "8", "40", "--out", tmp_path / "bins.json"]
    output = ours(*command, "--baselines", f"tied={models['tied']}", f"own={models['compositional_output']}")
    found = json.loads((tmp_path / "bins.json").read_text())
    assert (tmp_path / "bins.png").exists() and "1 to 8" in output
    for name, bins in found["bins"].items():
        model = models["tied" if name == "tied" else "compositional_output"]
        theirs, own = (perplexity(ours, tmp_path, corpus / "data", m, "valid") for m in (model, models["compositional_output"]))
        total = sum(b["mean"] * b["tokens"] for b in bins)
        assert total == pytest.approx(tokens_of(corpus / "valid.txt") * math.log(theirs / own), rel=1e-4, abs=1e-6)
        assert sum(b["tokens"] for b in bins) == found["tokens"] == tokens_of(corpus / "valid.txt")
    wrong = [*command, "--baselines", models["tied"]]
    assert ours(*wrong, code=1) == f"error: --baselines {models['tied']}: expected NAME=CHECKPOINT\n"
    wrong = [*command, "--baselines", f"tied={models['tied']}", "--edges", "5", "2"]
    assert "--edges 5 2: expected rising numbers" in ours(*wrong, code=1)
    assert re.search(r"^\d+ tokens are in no bin: of words that occur, but 8 times", ours(*wrong[:-2], "8", "40"), re.MULTILINE)
    without = ["--data", corpus / "union", "--split", "test", "--baselines", f"tied={models['tied']}"]
    assert "train.bin not found" in ours("frequency-bins", "--path", models["tied"], *without, code=1)


def test_bins_of_models_that_were_smoothed(ours, corpus, models, tmp_path):
    data, losses = tmp_path / "data", []
    shutil.copytree(corpus / "data", data)
    for model, weight in (("tied", "0.5"), ("compositional_output", "0.2")):
        about = ["--path", models[model], "--data", data, "--split", "valid"]
        ours("tune", *about, "--cache", "none", "--uniform", weight, "--discounts", "1", "--no-extend")
        ours("evaluate", *about, "--out", tmp_path / "r.json")
        losses.append(math.log(json.loads((tmp_path / "r.json").read_text())["all"]["perplexity"]))
    command = ["frequency-bins", *about, "--edges", "0", "--baselines", f"tied={models['tied']}"]
    ours(*command, "--tuned-adapters", "--out", tmp_path / "bins.json")
    found = json.loads((tmp_path / "bins.json").read_text())
    total = sum(b["mean"] * b["tokens"] for b in found["bins"]["tied"])
    assert total == pytest.approx(found["tokens"] * (losses[0] - losses[1]), rel=1e-4)


def test_tokens_that_a_model_cannot_predict_are_not_compared(ours, corpus, models, tmp_path):
    data = tmp_path / "union"
    shutil.copytree(corpus / "union", data)
    for kind in ("bin", "idx"):
        shutil.copy(corpus / "data" / f"train.{kind}", data)
    command = ["frequency-bins", "--path", models["compositional_output"], "--data", data, "--split", "test"]
    error = ours(*command, "--baselines", f"tied={models['tied']}", code=1)
    assert re.search(r"error: \d+ tokens are impossible for tied or ", error)


def test_coverage_goes_from_spelling_alone_to_the_whole_lexicon(ours, corpus, models, tmp_path, data):
    model, out = models["compositional_output"], tmp_path / "coverage.json"
    command = ["coverage", "--path", model, "--data", corpus / "data", "--split", "valid", "--lexicon-path", data / "mini.tsv"]
    ours(*command, "--shares", "1", "0", "0.5", "--out", out)
    rows = json.loads(out.read_text())["rows"]
    assert [row["share"] for row in rows] == [0, 0.5, 1] and out.with_suffix(".png").exists()
    assert rows[0]["relations"] == rows[0]["definitions"] == 0 < rows[1]["definitions"] < rows[2]["definitions"]
    told = ours("tables", shutil.copytree(corpus / "data", tmp_path / "data"), "--lexicon-path", data / "mini.tsv")
    entries, _, *counts = map(int, re.findall(r"\d+", told))
    assert [rows[2][part] for part in ("relations", "definitions")] == [count / (entries - 4) for count in counts]
    whole = perplexity(ours, tmp_path, corpus / "data", model, "valid")
    assert rows[2]["perplexity"] == pytest.approx(whole, rel=1e-6)
    assert rows[0]["perplexity"] != pytest.approx(whole, rel=1e-4)
    ours(*command[:-2], "--shares", "1", "--out", out)  # the tables remember the lexicon
    assert json.loads(out.read_text())["rows"] == rows[2:]
    assert "its words are not made of a lexicon's entries" in ours(*command[:2], models["tied"], *command[3:], code=1)


def test_a_thinned_lexicon_makes_tables_of_its_own(commands, corpus, tmp_path, data):
    options = ["--train", corpus / "train.txt", "--valid", corpus / "valid.txt", "--lexicon-path", data / "mini.tsv"]
    report = commands.preprocess(*options, "--keep-entries", "0", "--dest", tmp_path / "data")
    assert "with relations 0.0%, with a definition 0.0%" in report
    commands.train(tmp_path / "data", tmp_path / "save", "--max-update", "1")


@pytest.mark.parametrize("limits", [["--max-relations", "1", "--max-definition", "2"], []], ids=["fewer", "as usual"])
def test_a_restricted_lexicon_has_no_words_but_the_vocabularys(commands, corpus, tmp_path, data, limits):
    whole = commands.preprocess(
        "--train", corpus / "train.txt", "--lexicon-path", data / "mini.tsv", *limits, "--dest", tmp_path / "whole"
    )
    command = ["python", "-m", "fairseq_groc", "tables", tmp_path / "whole", "--lexicon-path", data / "mini.tsv", *limits]
    words = len((tmp_path / "whole" / "dict.txt").read_text().splitlines()) + 4
    forms = [int(re.search(r"([\d,]+) forms", text)[1]) for text in (whole, commands.ok(*command))]
    assert forms[0] == forms[1] > words
    assert f" {words} forms; " in commands.ok(*command, "--forms-from", tmp_path / "whole" / "dict.txt")
    assert "none.txt" in commands.fails(*command, "--forms-from", tmp_path / "none.txt")


def test_nearest_words_of_any_string(ours, corpus, models, tmp_path, data):
    command = [
        "nearest",
        "--data",
        corpus / "data",
        "--count",
        "3",
        "--lexicon-path",
        data / "mini.tsv",
        "--out",
        tmp_path / "near.json",
    ]
    shown = ours(*command, "--path", models["compositional_output"], "cat", "catx", "\x1b[0mx")
    assert shown.count("\n<U+001B>[0mx (new)\n") == 1 and "\x1b" not in shown
    known, new, _ = json.loads((tmp_path / "near.json").read_text())["words"]
    assert not known["new"] and new["new"] and (tmp_path / "near.png").exists()
    for row in (known, new):
        similar = [near["similarity"] for near in row["nearest"]]
        assert len(similar) == 3 and similar == sorted(similar, reverse=True) and max(similar) <= 1 + 1e-6
    assert "cat" not in [near["word"] for near in known["nearest"]] and "catx" not in [n["word"] for n in known["nearest"]]
    assert "'catx' is not in the vocabulary" in ours(*command, "--path", models["tied"], "catx", code=1)
    ours(*command, "--path", models["tied"], "cat")
