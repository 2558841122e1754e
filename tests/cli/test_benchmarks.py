"""Benchmarks run: at sizes of which nothing can be concluded."""

import importlib
import json
import re

import pytest
from cli_helpers import ROOT

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import find_wordnet

NAMED = ("adding_words", "caches", "factor_cell", "losses", "scaling", "scoring", "serving", "training_speed")
RUN = {name: ["python", ROOT / "benchmarks" / f"{name}.py"] for name in NAMED}
NAMES = ["tied", "lstm_lm (fairseq)", "plain PyTorch loop"]


def test_losses(commands):
    output = commands.ok(*RUN["losses"], "--sizes", "300", "--rounds", "1")
    losses = re.findall(r"^ +300  \S.* ([\d.]+)$", output, re.MULTILINE)
    assert len(losses) == 3 and len(set(losses)) == 1


def test_what_a_program_printed_is_kept_for_the_page(commands, tmp_path, monkeypatch):
    record = ["python", ROOT / "benchmarks" / "record.py"]
    assert "none: expected one of adding_words, " in commands.fails(*record, "none --sizes 300")
    commands.ok(*record, "losses --sizes 300 --rounds 1", "--results", tmp_path / "results" / "printed")
    found = json.loads((tmp_path / "results" / "printed" / "losses.json").read_text())
    assert found["command"] == "python benchmarks/losses.py --sizes 300 --rounds 1" and 0 < found["core_minutes"] < 5
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("benchmark_page")
    (tmp_path / "losses.py").write_text((ROOT / "benchmarks" / "losses.py").read_text())
    (tmp_path / "common.py").write_text((ROOT / "benchmarks" / "common.py").read_text())
    _, _, row = page.programs(tmp_path).splitlines()
    assert re.fullmatch(r"\| `losses.py` \| Which loss .*\? \| \d\.\d \|", row)
    assert page.printed(tmp_path).splitlines() == [f"    {found['command']}", "", "```text", *found["printed"], "```"]


def test_adding_words(commands):
    output = commands.ok(*RUN["adding_words"], "--sizes", "1200")
    (row,) = re.findall(r"^ +1,200((?: +[\d.,]+){5})$", output, re.MULTILINE)
    whole, one, *_ = (float(ms.replace(",", "")) for ms in row.split())
    assert one < whole


def test_caches(commands, tmp_path):
    sizes = ["--sizes", "300", "--entries", "400", "--dim", "16", "--rounds", "1"]
    output = commands.ok(*RUN["caches"], "--out", tmp_path, *sizes)
    ways = ("targets", "all words")
    rows = [rf"^ +300 {way} +{cache} +\d+ \(" for way in ways for cache in ("no cache", "unigram", "local", "unbounded")]
    assert [row for row in rows if not re.search(row, output, re.MULTILINE)] == []
    assert json.loads((tmp_path / "caches.json").read_text())["ms"]["300"]


def test_factor_cell(commands, tmp_path):
    output = commands.ok(*RUN["factor_cell"], "--out", tmp_path, "--shapes", "dbpedia", "--steps", "2", "--dense-steps", "2")
    assert re.search(r"^nn.LSTM( +[\d,.]+){4} +1.00 +1.00 to 1.00$", output, re.MULTILINE)
    found = json.loads((tmp_path / "factor-cell.json").read_text())["shapes"]["dbpedia"]
    assert len(found["ways"]) == 10 and {len(times["seconds"]) for times in found["ways"].values()} == {2}
    assert 0 < found["difference"] < 1e-5 < found["dense to FactorCell"][0]


def test_training_speed_beside_other_programs(commands, corpus):
    output = commands.ok(*RUN["training_speed"], corpus / "data", "--rounds", "1", "--updates", "3")
    assert re.findall(r"^(tied|lstm_lm \(fairseq\)|plain PyTorch loop) +[\d,]+", output, re.MULTILINE) == NAMES


def test_scaling_with_the_vocabulary_of_a_text(commands, corpus, tmp_path):
    size = len((corpus / "data" / "dict.txt").read_text().splitlines()) + 4
    scaling = [*RUN["scaling"], "--data", corpus / "data", "--out", tmp_path, "--shape", "small"]
    output = commands.ok(*scaling, "--runs", "floor", "tied", "full", "--steps", "1", "--rounds", "1")
    assert re.search(rf"^{size} +full ", output, re.MULTILINE)
    words = (tmp_path / f"tables-{size}" / "words.txt").read_text().split("\n")
    assert words[4:] == [line.split()[0] for line in (corpus / "data" / "dict.txt").read_text().splitlines()]
    turns = ["--runs", "tied", "tied-awd", "sampled-0.1", "--steps", "2", "--rounds", "1", "--step-by-step"]
    output = commands.ok(*scaling, *turns)
    assert re.search(rf"^{size} +tied( +[\d,]+){{4}} +1.00 +1.00$", output, re.MULTILINE)
    found = json.loads((tmp_path / "step-by-step-small.json").read_text())["runs"][str(size)]
    assert {run: len(of_run["seconds"]) for run, of_run in found.items()} == {"tied": 2, "tied-awd": 2, "sampled-0.1": 2}


def test_scaling_and_scoring(commands, tmp_path):
    try:
        find_wordnet(download=False)
    except LexiconError:
        pytest.skip("no WordNet on this machine")
    sizes = ["--out", tmp_path, "--sizes", "300"]
    runs = ["--runs", "tied", "sampled-0.1", "--steps", "1", "--rounds", "1"]
    assert "sampled-0.1" in commands.ok(*RUN["scaling"], *sizes, *runs)
    results = tmp_path / "scaling-ptb.json"
    found = json.loads(results.read_text())["runs"]
    assert len(found) == 2 and (tmp_path / "scaling-ptb.png").exists()
    again = commands.ok(*RUN["scaling"], *sizes, *runs)
    assert "round 1 of 1" not in again and "sampled-0.1" in again
    # what another machine has measured is not taken for this one's
    results.write_text(json.dumps({"runs": {f"{key} of another": of_run for key, of_run in found.items()}}))
    assert "round 1 of 1" in commands.ok(*RUN["scaling"], *sizes, "--runs", "tied", *runs[3:])
    assert "300 words encoded in" in commands.ok(*RUN["scoring"], *sizes, "--rounds", "1")
    found = json.loads((tmp_path / "scoring.json").read_text())["sizes"]["300"]
    assert found["tied 20x35"]["min"] <= found["tied 20x35"]["ms"] <= found["tied 20x35"]["max"]


def test_serving(commands, tmp_path, monkeypatch):
    options = ["--out", tmp_path, "--sizes", "300", "--threads", "1", "--rounds", "2"]
    output = commands.ok(*RUN["serving"], *options, "--json", tmp_path / "found.json")
    results = json.loads((tmp_path / "found.json").read_text())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = importlib.import_module("benchmark_page")
    kenlm = results["sizes"]["300"]["kenlm"]
    missing = ["not installed" in text for text in (output, page.serving_speed(results))]
    assert missing == [kenlm is None] * 2 and (kenlm is None or kenlm["threads"]["1"]["tokens a second"] > 1000)
    for program in ("fairseq_groc.load", "service.py"):
        of_program = results["sizes"]["300"][program]
        assert of_program["threads"]["1"].keys() == {"one line", "10-best", "100 lines", "tokens a second"}
        assert 0 < of_program["memory"]["of two"] < of_program["memory"]["alone"] and of_program["start"]["min"] > 0
        assert re.search(rf"^ *300 +{program} ", output, re.MULTILINE)
        for table in (page.serving_speed(results), page.serving_memory(results)):
            assert re.search(rf"^\| 300 \|.* `{program}` \| ", table, re.MULTILINE)
