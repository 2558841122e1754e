"""Training speed of several models: read from fairseq's log, held against the first model, with a picture."""

import json
import re
import subprocess

import pytest
from cli_helpers import FILTERS, SMALL

from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation import speed
from fairseq_groc.evaluation.speed import Speed, read_speed, summary
from fairseq_groc.programs import started

CPUS = "--cpu --distributed-backend gloo --ddp-backend legacy_ddp"
LOG = """2026-01-01 00:00:00 | INFO | fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,234)
2026-01-01 00:00:00 | INFO | train_inner | epoch 001:      1 / 50 loss=1, ppl=2, wps=0, ups=0, wpb=40, bsz=4, num_updates=1
2026-01-01 00:00:00 | INFO | train_inner | epoch 001:      2 / 50 loss=1, ppl=2, wps=400, ups=10, wpb=40, bsz=4, num_updates=2
2026-01-01 00:00:00 | INFO | train_inner | epoch 001:      3 / 50 loss=1, ppl=2, wps=66.7, ups=3.3, wpb=20, bsz=4, num_updates=3
"""


def test_figures_are_those_of_the_log():
    found = read_speed(LOG, 1.5)
    assert found.step == pytest.approx((40 / 400 + 20 / 66.7) / 2) and found.tokens == 30
    assert (found.epoch, found.parameters, found.peak) == (50, 1234, 1.5)


def test_models_are_held_against_the_first_of_the_same_round():
    one = [Speed(step, 50, 30, 7, peak) for step, peak in ((0.1, 1), (0.4, 3), (0.2, 2))]
    other = [Speed(step, 50, 30, 9, 1) for step in (0.2, 0.4, 0.8)]
    first, second = summary({"one": one, "other": other})
    assert first["relative_range"] == [1, 1] and first["relative"] == 1
    assert first["epoch_seconds"] == pytest.approx(10) and first["tokens_per_second"] == pytest.approx(150)
    assert first["peak_gib"] == 3 and second["parameters"] == 9
    assert second["relative"] == pytest.approx(2) and second["relative_range"] == pytest.approx([1, 4])


def test_models_are_trained_in_turns_and_drawn(commands, corpus, tmp_path):
    sizes = " ".join(SMALL[1:])
    models = [f"tied={sizes} --output-head tied", f"GroC, half={sizes} {' '.join(FILTERS)} --full-update-prob 0.5"]
    models += [f"two={sizes} --output-head tied --batch-size 1 --distributed-world-size 2 {CPUS}"]
    options = ["--data", corpus / "data", "--updates", 3, "--rounds", 2, "--options", "--batch-size 4 --tokens-per-sample 10"]
    out = tmp_path / "speed.json"
    printed = commands.ok("python", "-m", "fairseq_groc", "training-speed", *options, "--models", *models, "--out", out)
    saved = json.loads(out.read_text())
    assert [row["name"] for row in saved["rows"]] == ["tied", "GroC, half", "two"] and saved["rounds"] == 2
    assert [row["tokens"] for row in saved["rows"]] == [40, 40, 20]  # a model's own options win: two workers of one stream
    for row in saved["rows"]:
        least, most = row["relative_range"]
        assert 0 < least <= row["relative"] <= most and row["epoch_seconds"] > 0 and row["parameters"] > 100
        assert f"{row['name']:<12}{row['parameters']:>12,}" in printed
    assert "round 2 of 2: GroC, half" in printed and out.with_suffix(".png").stat().st_size > 5000


def test_parts_of_a_user_s_are_trained(commands, corpus, tmp_path):
    theirs = tmp_path / "theirs" / "__init__.py"
    theirs.parent.mkdir()
    theirs.write_text("from fairseq_groc.heads import TiedOutput, register_head\n\nregister_head('theirs')(TiedOutput)\n")
    model = f"one={' '.join(SMALL[1:])} --output-head theirs --batch-size 4 --tokens-per-sample 10"
    options = ["--data", corpus / "data", "--models", model, "--updates", 3, "--rounds", 1]
    printed = commands.ok("python", "-m", "fairseq_groc", "training-speed", *options, "--user-dir", theirs.parent)
    assert re.search(r"^one +[\d,]+ ", printed, re.MULTILINE)


@pytest.mark.parametrize(
    "options, said",
    [
        (["--models", "tied"], "--models tied: expected a name of its own and an --arch"),
        (["--models", "a=groc_lstm_lm", "a=groc_lstm_lm"], "--models a=groc_lstm_lm: 'a' is the name of two"),
        (["--models", "a=groc_lstm_lm", "--updates", "2"], "--updates 2: expected a whole number, 3 or more"),
        (["--models", "a=groc_lstm_lm 'x"], "--models groc_lstm_lm 'x: No closing quotation"),
        (["--models", "a=groc_lstm_lm", "--options", '"'], '--options ": No closing quotation'),
        (["--models", "a=groc_lstm_lm", "--out", "speed.png"], "--out speed.png: expected a name that ends in .json"),
    ],
)
def test_bad_options_are_refused(ours, corpus, options, said):
    assert said in ours("training-speed", "--data", corpus / "data", *options, code=1)


def test_a_folder_without_data_is_refused(ours, tmp_path):
    assert "dict.txt not found" in ours("training-speed", "--data", tmp_path, "--models", "a=groc_lstm_lm", code=1)


def test_a_training_that_fails_says_why(ours, corpus):
    model = f"a=groc_lstm_lm --output-head none --distributed-world-size 2 {CPUS}"
    printed = ours("training-speed", "--data", corpus / "data", "--models", model, code=1)
    assert re.search(r"^error: training failed: .*--output-head none: expected one of", printed, re.MULTILINE)


def test_what_a_worker_says_that_is_ended_is_no_reason(monkeypatch, tmp_path):
    said = "[rank0]: OptionError: too large\nterminate called without an active exception\n"
    monkeypatch.setattr(speed, "measured", lambda *_, log: (log.write_text(said), (1, 0.0))[1])
    with pytest.raises(OptionError, match=r"^training failed: \[rank0\]: OptionError: too large$"):
        speed.trained(tmp_path, speed.TRAINING)


def test_a_log_that_is_cut_is_one_line():
    with pytest.raises(DataError, match="log has no update after the first"):
        read_speed("", 1.0)


def test_what_is_interrupted_may_end_its_own_workers(tmp_path):
    script = f"trap 'echo ended > {tmp_path}/told; exit 0' TERM; echo ready; sleep 60 & wait"
    with pytest.raises(KeyboardInterrupt), started(["sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        raise KeyboardInterrupt
    assert (tmp_path / "told").read_text() == "ended\n" and process.returncode == 0
