"""examples/rescoring: the list that is made, and word error rates of every row."""

import json

import pytest
from cli_helpers import ROOT


def test_every_model_has_a_row_with_and_without_the_ngram(commands, corpus, models, tmp_path):
    pytest.importorskip("jiwer")
    command = ["python", ROOT / "examples" / "rescoring" / "run.py", "--lines", corpus / "valid.txt"]
    command += ["--workdir", tmp_path / "work"]
    command += ["--data", corpus / "data", "--train", corpus / "data", "--utterances", "6", "--hypotheses", "4"]
    command += ["--models", f"tied={models['tied']}", f"GroC={models['compositional_output']}"]
    output = commands.ok(*command)
    found = json.loads((tmp_path / "work" / "rescoring.json").read_text())["rows"]
    ngram = "Kneser-Ney 4-gram"
    assert list(found) == ["acoustic score alone", ngram, "tied", f"tied + {ngram}", "GroC", f"GroC + {ngram}"]
    assert all(0 <= rate < 1 for rate in found.values())
    assert all(f"{label}: {rate:.1%}" in output for label, rate in found.items())
    header, *rows = (tmp_path / "work" / "list.tsv").read_text().splitlines()
    said = dict(line.split("\t") for line in (tmp_path / "work" / "said.tsv").read_text().splitlines())
    texts = [row.split("\t")[::2] for row in rows]
    assert header == "id\tacoustic\ttext" and len({tuple(row) for row in texts}) == 6 * 4
    assert all([name, line] in texts for name, line in said.items())
    assert "was made with other settings" in commands.fails(*command, "--train", corpus / "union")
    assert "have 6 to 25 words, expected 600" in commands.fails(*command, "--utterances", "600")
