"""examples/languages from texts to its tables."""

import importlib
import json
import math

import pytest
from cli_helpers import ROOT, WORDS, write

FOLDER = ROOT / "examples" / "languages"


@pytest.fixture
def texts(tmp_path):
    options = []
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        options += [f"--{split}", write(tmp_path / split, WORDS, count, count)]
    return [*options, "--other", f"far={write(tmp_path / 'far', [*WORDS, 'Zebra,', 'häuser'], 60, 7)}"]


def test_the_example_makes_its_table_and_skips_what_is_done(commands, texts, tmp_path):
    lexicon = ROOT / "tests" / "fixtures" / "mini.tsv"
    command = ["python", FOLDER / "run.py", *texts, "--tokenize-others", "de", "--lexicon", lexicon, "--updates", "2"]
    command += ["--workdir", tmp_path / "work", "--models", "tied", "GroC, relations"]
    output = commands.ok(*command)
    results = json.loads((tmp_path / "work" / "results.json").read_text())
    assert list(results["rows"]) == ["tied", "GroC, relations"]
    for row in results["rows"].values():
        for of_text in row.values():
            assert list(of_text) == ["in-domain", "far"]
            assert all(math.isfinite(found["all"]["perplexity"]) for found in of_text.values())
            assert of_text["far"]["new"]["tokens"] > 0 == of_text["in-domain"]["new"]["tokens"]
    assert results["rows"]["tied"]["local"]["far"]["settings"]["local_weight"] > 0
    assert list(results["rates"]["tied"]) == ["0.003", "0.006"] and list(results["coverage"]) == ["GroC, relations"]
    covered = results["coverage"]["GroC, relations"]
    assert covered["training text"]["types"] == len(WORDS) and 0 < covered["training text"]["tokens with relations"] < 1
    assert covered["new words, far"]["types"] == 3 and covered["new words, far"]["types with relations"] == 0  # of zebra , häuser
    table = [line for line in output.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4 and table[2].startswith("| in-domain | tied + uniform | ")
    again = commands.ok(*command)
    assert "fairseq" not in again and [line for line in again.splitlines() if line.startswith("|")] == table
    assert "was made with other settings" in commands.fails(*command, "--updates", "3")


def test_a_model_that_is_none_is_named(commands, texts, tmp_path):
    command = ["python", FOLDER / "run.py", *texts, "--lexicon", "none", "--workdir", tmp_path / "work", "--models", "tied", "x"]
    assert "error: --models x: expected some of tied, GroC, spellings, " in commands.fails(*command)


def test_coverage_keeps_what_the_file_says_of_other_languages(commands, tmp_path):
    text, out = tmp_path / "text", tmp_path / "coverage.json"
    text.write_text("cat cat häuser\nzebra cat\n", encoding="utf-8")
    for name in ("One", "Two"):
        commands.ok("python", FOLDER / "lexicon_coverage.py", name, text, ROOT / "tests/fixtures/mini.tsv", "--out", out)
    results = json.loads(out.read_text())
    assert list(results) == ["One", "Two"] and results["One"] == results["Two"]
    found, spelled = results["One"]["coverage"][""], results["One"]["spellings"]
    assert found["types with relations"] == 1 / 3 and found["tokens with relations"] == 3 / 5
    assert found["types with a definition"] == 1 / 3 and found["tokens with a definition"] == 3 / 5
    assert spelled["types with a letter of several bytes"] == 1 / 3 and spelled["longest in bytes and characters"] == [7, 6]


def test_tables_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    tables = importlib.import_module("language_tables")

    def at(*perplexities):
        parts = zip(("all", "known", "new"), perplexities, strict=True)
        return {part: {"tokens": 1, "perplexity": perplexity} for part, perplexity in parts}

    rows = {"tied": {"none": {"news": at(10, 9, 1234.56)}, "local": {"news": at(8, 7, None)}}}
    assert tables.table({"rows": rows}).splitlines()[2] == "| news | tied + uniform | 1 | 10.0 | 9.0 | 1,234.6 | 8.0 | 7.0 |  |"
    of = {"": {"types with relations": 0.5, "tokens with relations": 0.25}}
    line = tables.coverage({"X": {"lexicon": "x.tab", "coverage": of, "spellings": {"types": 1000}}}).splitlines()[2]
    assert line == "| X | x.tab | 1,000 | 50.0% |  | 25.0% |  |"
