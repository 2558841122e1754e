"""The measurement of robust training from texts to table, on a few lines."""

import importlib.util
import json
import sys

import forked_programs
import pytest
from cli_helpers import PLUGIN, ROOT, WORDS, evaluated, write


@pytest.fixture
def measurement(monkeypatch):
    monkeypatch.setattr("fairseq_groc.cli.programs.BIN", forked_programs.folder())
    spec = importlib.util.spec_from_file_location("robust_training", ROOT / "examples" / "adaptation" / "robust_training.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sentences_are_split_and_tokenised_alike(measurement, tmp_path):
    (tmp_path / "a.txt").write_text('It\'s a well-made film. "Not bad!" he said.\n\nEnd\n')
    (tmp_path / "b.txt").write_text('it\'s " good . " indeed\n')
    assert list(measurement.sentences([tmp_path / "a.txt"])) == ["it's a well-made film .", '" not bad ! " he said .', "end"]
    assert list(measurement.sentences([tmp_path / "b.txt"], raw=False)) == ['it\'s " good . " indeed']


def test_from_texts_to_table(measurement, commands, tmp_path, monkeypatch, capsys):
    for seed, name in enumerate(("reviews/train", "reviews/test", "abc/science", "abc/rural", "speeches/1", "wikitext-2/train")):
        file = tmp_path / "data" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, WORDS + ["zebra", "hound"] * (seed > 1), 40, seed)
    sizes = ["--decoder-embed-dim", "8", "--decoder-hidden-size", "12", "--char-filters", "[4,4,4]"]
    monkeypatch.setattr(measurement, "TRAINING", [*measurement.TRAINING, *sizes])
    preprocess, lexicon = measurement.preprocess, ["--lexicon-path", ROOT / "tests" / "data" / "mini.tsv"]
    monkeypatch.setattr(measurement, "preprocess", lambda dest, *options: preprocess(dest, *options, *lexicon))
    arguments = ["robust_training.py", "--data", str(tmp_path / "data"), "--workdir", str(tmp_path / "run"), "--updates", "3"]
    arguments += ["--settings", "both"]
    monkeypatch.setattr(sys, "argv", arguments)
    measurement.main()
    first = capsys.readouterr().out
    rows = {row["domain"]: row for row in json.loads((tmp_path / "run" / "results.json").read_text())["rows"]}
    assert set(rows) == {"reviews", "science", "rural", "speeches", "science-wide"}
    assert rows["rural"]["share_new"] > 0 == rows["reviews"]["share_new"]
    model = tmp_path / "run" / "checkpoints" / "both-seed-1-3" / "checkpoint_last.pt"
    for discount in ("1", "0.1"):
        options = ["--path", model, "--gen-subset", "test", "--batch-size", "8", "--new-word-discount", discount]
        output = commands.ok("fairseq-eval-lm", tmp_path / "run" / "union" / "rural", *PLUGIN, *options, "--num-workers", "0")
        tokens, perplexity = evaluated(output)
        assert tokens == rows["rural"]["tokens"] and perplexity == pytest.approx(rows["rural"]["overall"][discount], abs=0.01)
    measurement.main()
    again = capsys.readouterr().out
    assert "training" in first and "training" not in again and again.strip() in first
