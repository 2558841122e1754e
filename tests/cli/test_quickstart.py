"""The quickstart from corpus to picture, on a few lines."""

import importlib.util
import json
import sys

import forked_programs
import pytest
from cli_helpers import ROOT, WORDS, tokens_of, write

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import find_wordnet


@pytest.fixture
def quickstart(monkeypatch):
    folder = ROOT / "examples" / "quickstart"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("fairseq_groc.programs.BIN", forked_programs.folder())
    spec = importlib.util.spec_from_file_location("run", folder / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_few_lines(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, words) in enumerate({"train": WORDS, "valid": WORDS, "test": WORDS, "new": WORDS + ["zebra"]}.items()):
        write(folder / f"{name}.txt", words, 40, seed)
    return {name: tokens_of(folder / f"{name}.txt") for name in ("train", "valid", "test", "new")}


def test_from_corpus_to_picture(quickstart, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "write_corpus", a_few_lines)
    monkeypatch.setattr(sys, "argv", ["run.py", "--workdir", str(tmp_path), "--updates-factor", "0.004"])
    quickstart.main()
    results = json.loads((tmp_path / "results.json").read_text())
    assert [row["model"] for row in results["rows"]] == ["tied", "groc"]
    tuned = {path.parent.name: json.loads(path.read_text())["best"]["perplexity"] for path in tmp_path.glob("tied-*/tuned.json")}
    assert len(tuned) == 2 and f"tied-lr{results['rows'][0]['rate']:g}" == min(tuned, key=tuned.get)
    for row in results["rows"]:
        assert row["new domain"]["tokens"] == results["tokens"]["new"] and row["in-domain"]["tokens"] == results["tokens"]["test"]
        assert row["new domain"]["share_new"] > row["in-domain"]["share_new"] == 0
        assert row["in-domain"]["new"] is None  # there are none
        assert all(1 < row[domain]["known"] < 1000 for domain in ("in-domain", "new domain"))
        assert row["parameters"] > 100_000 and row["seconds"] > 0
    assert (tmp_path / "results.png").stat().st_size > 10_000
    assert 1 < results["rows"][1]["new domain"]["new"] < 1000
    made = {path: path.stat().st_mtime_ns for kind in ("json", "pt", "bin") for path in tmp_path.glob(f"*/*.{kind}")}
    quickstart.main()
    assert "done before" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in made} == made  # nothing is made again


def test_the_corpus_is_real_text_and_no_line_is_in_two_splits(quickstart, tmp_path):
    try:
        find_wordnet(download=False)
    except LexiconError:
        pytest.skip("no WordNet on this machine")
    counts = quickstart.write_corpus(tmp_path)
    lines = {name: (tmp_path / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in counts}
    assert counts == {name: tokens_of(tmp_path / f"{name}.txt") for name in counts}
    assert sum(counts.values()) > 280_000
    everything = [line for split in lines.values() for line in split]
    assert len(set(everything)) == len(everything)
