"""examples/papers from a text to its results."""

import itertools
import json
import runpy
import sys
from argparse import Namespace

import pytest
from cli_helpers import PLUGIN, ROOT, WORDS, write
from fairseq import options

from fairseq_groc.__main__ import _parser as main_parser

PAPERS = ROOT / "examples" / "papers"
RUN = [sys.executable, PAPERS / "run.py"]


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        write(folder / f"{split}.txt", WORDS, count, count)
    return folder


def test_rows_are_trained_chosen_scored_and_skipped_when_done(commands, texts, tmp_path):
    command = [*RUN, "table-2", "--from", texts, "--workdir", tmp_path / "work", "--updates", "4", "--settings", "2"]
    command += ["--seeds", "1", "2", "--rows"]
    output = commands.ok(*command, "tied")
    assert "tied: " in output and "(paper, at its size: 86.2)" in output
    saved = json.loads((tmp_path / "work" / "table-2-ptb-cpu.json").read_text())
    assert list(saved["rows"]) == ["tied"] and saved["scale"] == "cpu"
    row = saved["rows"]["tied"]
    assert [run["setting"]["lr"] for run in row["tried"]] == [0.003, 0.004]
    assert row["setting"] == min(row["tried"], key=lambda run: run["valid"])["setting"]
    for seed, found in enumerate(row["runs"], 1):
        assert found["seed"] == seed and found["curve"][-1][0] == found["updates"] == 4 and found["test"] > 1
        assert (tmp_path / "work" / found["checkpoint"]).exists()
    assert row["runs"][0]["valid"] != row["runs"][1]["valid"]
    again = commands.ok(*command, "tied")
    assert "fairseq-train" not in again and "evaluate" not in again
    analyses = [sys.executable, PAPERS / "analyses.py", "figure-7", "--workdir", tmp_path / "work"]
    assert "figure-7-ptb-cpu.json" in commands.ok(*analyses)
    table = commands.ok(sys.executable, PAPERS / "report.py", tmp_path / "work", "--out", tmp_path / "r.md")
    size, setting = row["runs"][0]["parameters"], row["setting"]
    assert "r.md" in table
    assert f"| tied | {size / 1e6:.2f} | lr {setting['lr']:g}, output dropout 0 |" in (tmp_path / "r.md").read_text()
    assert "(2 seeds)" in (tmp_path / "r.md").read_text() and "| 0.034 | " in (tmp_path / "r.md").read_text()
    for name in ("table-2", "figure-7"):
        assert f"](work/{name}-ptb-cpu.png)" in (tmp_path / "r.md").read_text()
        assert (tmp_path / "work" / f"{name}-ptb-cpu.png").stat().st_size > 1000


def test_the_published_page_is_made_of_the_published_numbers(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    page = runpy.run_path(str(PAPERS / "report.py"))["page"]
    assert page(PAPERS / "results", ROOT / "docs") == (ROOT / "docs" / "results.md").read_text()


def test_commands_of_analyses_are_taken(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "experiments.py"))
    for analysis in names["ANALYSES"].values():
        assert analysis.model in [row.label for row in names["EXPERIMENTS"][analysis.table].rows]
        command = analysis.command("model.pt", {"deep residual": "other.pt"}, "data")
        assert main_parser().parse_args([str(part) for part in command]).path == "model.pt"


def test_options_of_every_row_and_scale_are_taken(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(PAPERS / "run.py"))
    for experiment, scale in itertools.product(names["EXPERIMENTS"].values(), names["SCALES"].values()):
        for row, dataset in itertools.product(experiment.rows, experiment.datasets):
            model = names["model_options"](Namespace(in_bf16=True), row.preset.format(data=dataset), scale)
            words = ["data", *PLUGIN, *model, *scale.training.format(updates=4).split()]
            assert options.parse_args_and_arch(options.get_training_parser(), input_args=words).arch == "groc_lstm_lm"


def test_unknown_rows_and_datasets_are_refused(commands, tmp_path):
    output = commands.fails(*RUN, "table-2", "--workdir", tmp_path, "--rows", "none")
    assert "--rows none: expected some of lookup, convolutional, tied" in output
    assert "drill-table-4 has no wikitext2: ptb" in commands.fails(
        *RUN, "drill-table-4", "--dataset", "wikitext2", "--workdir", tmp_path
    )
