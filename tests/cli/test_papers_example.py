"""examples/papers from a text to its results."""

import json
import sys

import pytest
from cli_helpers import ROOT, WORDS, write

RUN = [sys.executable, ROOT / "examples" / "papers" / "run.py"]


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        write(folder / f"{split}.txt", WORDS, count, count)
    return folder


def test_rows_are_trained_chosen_scored_and_skipped_when_done(commands, texts, tmp_path):
    command = [*RUN, "table-2", "--from", texts, "--workdir", tmp_path / "work", "--updates", "4", "--try-updates", "2"]
    command += ["--seeds", "1", "2", "--rows"]
    output = commands.ok(*command, "tied")
    assert "tied: " in output and "(paper, at its size: 86.2)" in output
    saved = json.loads((tmp_path / "work" / "table-2-ptb-cpu.json").read_text())
    assert list(saved["rows"]) == ["tied"] and saved["scale"] == "cpu"
    row = saved["rows"]["tied"]
    assert [(run["setting"]["lr"], run["setting"]["dropout"]) for run in row["tried"]] == [
        (0.002, 0),
        (0.004, 0),
        (0.002, 0.2),
        (0.004, 0.2),
    ]
    assert row["setting"] == min(row["tried"], key=lambda run: run["valid"])["setting"]
    for seed, found in enumerate(row["runs"], 1):
        assert found["seed"] == seed and found["curve"][-1][0] == found["updates"] == 4 and found["test"] > 1
        assert (tmp_path / "work" / found["checkpoint"]).exists()
    assert row["runs"][0]["valid"] != row["runs"][1]["valid"] and {run["updates"] for run in row["tried"]} == {2}
    again = commands.ok(*command, "tied")
    assert "fairseq-train" not in again and "evaluate" not in again
    table = commands.ok(sys.executable, ROOT / "examples" / "papers" / "report.py", tmp_path / "work", "--out", tmp_path / "r.md")
    size, setting = row["runs"][0]["parameters"], row["setting"]
    dropout = f"dropout {setting['dropout']:g}"
    assert "r.md" in table
    assert f"| tied | {size / 1e6:.2f} | lr {setting['lr']:g}, {dropout} |" in (tmp_path / "r.md").read_text()


def test_unknown_rows_and_datasets_are_refused(commands, tmp_path):
    output = commands.fails(*RUN, "table-2", "--workdir", tmp_path, "--rows", "none")
    assert "--rows none: expected some of lookup, convolutional, tied" in output
    assert "drill-table-4 has no wikitext2: ptb" in commands.fails(
        *RUN, "drill-table-4", "--dataset", "wikitext2", "--workdir", tmp_path
    )
