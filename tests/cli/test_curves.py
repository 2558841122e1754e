"""Finetuning into a union vocabulary with validation text of both domains, and the curves of what was logged."""

import itertools
import json
import math
from datetime import date
from pathlib import Path

import pytest
import torch
from cli_helpers import WORDS, write

from fairseq_groc.__main__ import main
from fairseq_groc.cli.curves import run_names
from fairseq_groc.embeddings.rows import saved_words
from fairseq_groc.evaluation.results import label_log_axis, pyplot
from fairseq_groc.evaluation.training_log import read_clock, read_curves

VALID = "INFO | {0} | epoch 001 | valid on '{0}' subset | loss {1} | ppl {2} | num_updates {3}\n"


@pytest.fixture(scope="module")
def union(tmp_path_factory, corpus, commands):
    """Folder with training text of another domain, its words, and validation text of the first and of the other."""
    folder = tmp_path_factory.mktemp("finetuning")
    other = [word for word in WORDS if word not in ("the", "a", "cat")] + ["hound", "zebra", "puppy"]
    train, valid = write(folder / "train.txt", other, 60, 5), write(folder / "valid.txt", other, 20, 6)
    texts = ["--train", train, "--valid", corpus / "valid.txt", "--valid", valid]
    lexicon = ["--lexicon-path", Path(__file__).parents[1] / "fixtures" / "mini.tsv"]
    commands.preprocess("--vocabulary-from", corpus / "data", *texts, "--dest", folder / "data", *lexicon)
    assert (folder / "data" / "dict.txt").read_text().startswith((corpus / "data" / "dict.txt").read_text().split("madeup")[0])
    return folder / "data"


def test_finetuning_logs_both_domains_and_the_command_draws_them(commands, corpus, models, union, tmp_path):
    logs = []
    for head, form in (("compositional_output", "json"), ("tied", "simple")):
        options = ["--output-head", head, "--finetune-from-model", models[head], "--valid-subset", "valid,valid1"]
        options += ["--validate-interval-updates", "4", "--max-update", "12", "--log-interval", "2", "--log-format", form]
        logs.append(tmp_path / f"{head}.log")
        logs[-1].write_text(commands.train(union, tmp_path / head, *options, "--lr", "0.02"))
        for subset in ("valid", "valid1"):
            curve = read_curves(logs[-1])[subset]
            assert {4, 8, 12} <= {updates for updates, _ in curve} and all(math.isfinite(value) for _, value in curve)
        target = read_curves(logs[-1])["valid1"]
        assert target[-1][1] < target[0][1]  # it learns the other domain
    out = tmp_path / "curves.png"
    names = ["--names", "valid=first", "valid1=second"]
    printed = commands.ok("python", "-m", "fairseq_groc", "curves", *logs, "--out", out, *names)
    saved = json.loads(out.with_suffix(".json").read_text())
    found = {(curve["run"], curve["subset"]): curve["points"] for curve in saved["curves"]}
    assert set(found) == {(h, s) for h in ("compositional_output", "tied") for s in ("first", "second", "train")}
    assert [tuple(point) for point in found["tied", "second"]] == target and saved["metric"] == "ppl"
    for run, subset in found:
        line = next(line for line in printed.splitlines() if line.split()[:2] == [run, subset])
        assert f"{found[run, subset][-1][1]:,.2f}" in line
    assert out.read_bytes().startswith(b"\x89PNG") and len(out.read_bytes()) > 10_000
    one_name = ["--names", "valid=first", "valid1=first"]
    refused = commands.fails("python", "-m", "fairseq_groc", "curves", *logs, "--out", tmp_path / "none.png", *one_name)
    assert (
        "--names valid=first valid1=first: two subsets of a run have one name" in refused and not (tmp_path / "none.png").exists()
    )
    for name, other in (("a", "| valid1 |"), ("b", "| valid |")):  # of two runs they may be one text
        lines = logs[1].read_text().splitlines(keepends=True)
        (tmp_path / f"{name}.log").write_text("".join(line for line in lines if other not in line))
    one_text = [tmp_path / "a.log", tmp_path / "b.log", "--out", tmp_path / "one.png", *one_name]
    commands.ok("python", "-m", "fairseq_groc", "curves", *one_text)
    drawn = [(one["run"], one["subset"]) for one in json.loads((tmp_path / "one.json").read_text())["curves"]]
    assert {("a", "first"), ("b", "first")} < set(drawn)
    printed = commands.ok("python", "-m", "fairseq_groc", "curves", *logs, "--x", "seconds", "--out", out, *names)
    saved = json.loads(out.with_suffix(".json").read_text())
    assert saved["x"] == "seconds" and "at second" in printed and "left out" not in printed
    for curve in saved["curves"]:
        updates, seconds = found[curve["run"], curve["subset"]], curve["points"]
        assert [value for _, value in seconds] == [value for _, value in updates]
        assert seconds[0][0] >= 0 and all(one[0] <= other[0] for one, other in itertools.pairwise(seconds))
    resumed = commands.train(union, tmp_path / "tied", *options, "--lr", "0.02", "--max-update", "16")
    logs[-1].write_text(logs[-1].read_text().replace(f"\n{date.today().year}-", "\n2001-") + resumed)
    clock = read_clock(logs[-1])
    assert clock[-1][0] == 16 and clock[-1][1] < 600  # the years between are not counted


def test_finetuning_begins_new_rows_at_random(commands, models, union, tmp_path):
    options = ["--output-head", "tied", "--finetune-from-model", models["tied"], "--valid-subset", "valid,valid1"]
    commands.train(union, tmp_path, *options, "--max-update", "1", "--lr", "0", "--init-range", "0.1")
    old, new = (torch.load(path, weights_only=True)["model"] for path in (models["tied"], tmp_path / "checkpoint_last.pt"))
    table = "decoder.words.embedding"
    known, words = (saved_words(state, f"{table}.")[0] for state in (old, new))
    fresh = [i for i, word in enumerate(words) if word not in known]
    rows = new[f"{table}.weight"]
    assert len(fresh) >= 3 and bool((rows[fresh] != 0).all()) and 0.05 < rows[fresh].abs().max() <= 0.1
    same = [i for i, word in enumerate(words) if word in known]
    assert torch.equal(rows[same], old[f"{table}.weight"][[known.index(words[i]) for i in same]])


def test_infinite_values_are_in_the_table_and_words_in_the_numbers(tmp_path, capsys):
    log = tmp_path / "run.log"
    log.write_text(VALID.format("valid", "inf", "inf", 2) + VALID.format("valid", 5, 32, 4) + VALID.format("valid", 6, 64, 6))
    assert main(["curves", str(log), "--out", str(tmp_path / "c.svg")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["run", "valid", "3", "inf", "32.00", "4", "64.00", "6"]
    assert json.loads((tmp_path / "c.json").read_text())["curves"][0]["points"] == [[2, "inf"], [4, 32.0], [6, 64.0]]
    assert (tmp_path / "c.svg").stat().st_size > 0


def test_what_is_no_number_is_not_the_best(tmp_path, capsys):
    (tmp_path / "run.log").write_text(VALID.format("valid", "nan", "nan", 2) + VALID.format("valid", 5, 32, 4))
    assert main(["curves", str(tmp_path / "run.log"), "--out", str(tmp_path / "c.svg")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["run", "valid", "2", "nan", "32.00", "4", "32.00", "4"]


def test_bad_input_is_one_line(tmp_path, capsys):
    log, other = tmp_path / "run.log", tmp_path / "run.json"
    for path in (log, other):
        path.write_text(VALID.format("valid", 5, 32, 4))
    empty = tmp_path / "empty.log"
    empty.write_text("")
    for arguments, message in [
        (["absent.log", "--out", f"{tmp_path}/c.png"], "absent.log: no such log"),
        ([empty, "--out", f"{tmp_path}/c.png"], "empty.log: no 'ppl' of a validation subset"),
        ([log, "--out", f"{tmp_path}/c.txt"], "c.txt: expected a name that ends in .png, .pdf, .svg"),
        ([log, "--out", f"{tmp_path}/none/c.png"], "there is no folder"),
        ([log, other, "--out", f"{tmp_path}/run.png"], "would overwrite the log"),
        ([log, "--out", f"{tmp_path}/c.png", "--names", "valid"], "--names valid: expected SUBSET=NAME"),
    ]:
        assert main(["curves", *map(str, arguments)]) == 1
        error = capsys.readouterr().err.strip().splitlines()
        assert len(error) == 1 and error[0].startswith("error: ") and message in error[0]
    assert not list(tmp_path.glob("c.*")) and other.read_text() == log.read_text()


BEGUN = "2026-01-01 10:00:10 | INFO | fairseq_cli.train | {'_name': None}\n"
INNER = "2026-01-01 10:00:{1} | INFO | train_inner | epoch 001:  2 / 7 loss=5, ppl=32, num_updates={0}, train_wall=1, wall=0\n"


def test_seconds_are_beside_updates_and_what_has_none_is_said(tmp_path, capsys, caplog):
    log, out = tmp_path / "run.log", tmp_path / "c.png"
    lines = [INNER.format(2, 20), VALID.format("valid", 5, 32, 2), VALID.format("valid", 4, 16, 4), INNER.format(6, 40)]
    log.write_text("".join([BEGUN, *lines, VALID.format("valid", 3, 8, 8)]))
    assert main(["curves", str(log), "--x", "seconds", "--out", str(out)]) == 0
    printed, saved = capsys.readouterr().out.splitlines(), json.loads(out.with_suffix(".json").read_text())
    assert saved["curves"][0]["points"] == [[10, 32], [20, 16]] and saved["curves"][1]["points"] == [[10, 32], [30, 32]]
    assert printed[1].split() == ["run", "valid", "2", "32.00", "16.00", "20.0", "16.00", "20.0"] and "at second" in printed[0]
    assert "valid: 1 points are left out, before or after the lines of training" in caplog.text
    log.write_text(lines[0] + VALID.format("valid", 3, 8, 8))
    assert main(["curves", str(log), "--x", "seconds", "--out", str(out)]) == 1
    assert capsys.readouterr().err.startswith("error: valid: all points are before or after the lines of training")
    log.write_text(lines[1])
    assert main(["curves", str(log), "--x", "seconds", "--out", str(out)]) == 1
    assert "run.log: no line of training says when it was written" in capsys.readouterr().err


def test_runs_are_named_by_what_differs(tmp_path):
    assert run_names([tmp_path / "a.log", tmp_path / "b.log"]) == ["a", "b"]
    assert run_names([tmp_path / "groc" / "train.log", tmp_path / "tied" / "train.log"]) == ["groc", "tied"]
    assert run_names([tmp_path / "x" / "groc" / "train.log", tmp_path / "y" / "groc" / "train.log"])[0].endswith(
        "x/groc/train.log"
    )


@pytest.mark.parametrize(
    "low, high, shown",
    [(124, 350, [150, 200, 250, 300, 350]), (200, 900, range(200, 1000, 100)), (100, 5000, [100, 200, 500, 1000, 2000, 5000])],
)
def test_numbers_of_a_logarithmic_axis(low, high, shown):
    axes = pyplot().figure().add_subplot(yscale="log", ylim=(low, high))
    label_log_axis(axes.yaxis)
    assert [tick for tick in axes.get_yticks() if low <= tick <= high] == pytest.approx(list(shown))
