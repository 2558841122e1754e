"""Numbers on the command line, and text and logs that are none."""

import argparse
import json
import math

import pytest
from test_bad_checkpoints import one_line, wheres

from fairseq_groc.arguments import natural, positive, share

POSITIVE, NATURAL = "a whole number, 1 or more", "a whole number, 0 or more"


@pytest.mark.parametrize(
    "kind, good, bad, expected",
    [
        (positive, {"1": 1, "12": 12}, ["0", "-1", "1.5", "nan", "inf", "", "x", "1_0", "٣"], POSITIVE),
        (natural, {"0": 0, "12": 12}, ["-1", "0.5", "1e3"], NATURAL),
        (share, {"0": 0, "1": 1, ".25": 0.25, "1e-3": 0.001}, ["-0.1", "1.1", "nan", "inf", "x", ""], "a number from 0 to 1"),
    ],
)
def test_a_number_is_what_it_says_or_refused(kind, good, bad, expected):
    for text, value in good.items():
        assert kind(text) == value and not math.isnan(kind(text))
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=f"{expected}"):
            kind(text)


@pytest.mark.parametrize(
    "command, option, value, expected",
    [
        ("score", "--tokens-per-sample", "0", POSITIVE),
        ("score", "--field", "-2", POSITIVE),
        ("evaluate", "--verify-normalization", "-1", NATURAL),
        ("evaluate", "--streams", "0", POSITIVE),
        ("evaluate", "--workers", "x", POSITIVE),
        ("evaluate", "--tokens-per-sample", "-5", NATURAL),
        ("remember", "--tokens-per-sample", "-5", NATURAL),
        ("coverage", "--shares", "1.5", "a number from 0 to 1"),
        ("coverage", "--shares", "nan", "a number from 0 to 1"),
        ("coverage", "--seed", "-1", NATURAL),
        ("coverage", "--tokens-per-sample", "-5", NATURAL),
        ("frequency-bins", "--edges", "-1", NATURAL),
        ("frequency-bins", "--tokens-per-sample", "-5", NATURAL),
        ("nearest", "--count", "0", POSITIVE),
        ("tune", "--streams", "0", POSITIVE),
        ("tune", "--tokens-per-sample", "-5", NATURAL),
        ("explain", "--max-relations", "-1", NATURAL),
        ("tables", "--keep-entries", "1.5", "a number from 0 to 1"),
        ("training-speed", "--rounds", "0", POSITIVE),
        ("training-speed", "--updates", "2", "a whole number, 3 or more"),
        ("preprocess", "--threshold", "0", POSITIVE),
    ],
)
def test_a_bad_number_is_one_line(ours, command, option, value, expected):
    arguments = [command, option, value]
    error = one_line(ours, *arguments)
    assert f"error: {option} {value}: expected {expected}. Options: " in error and f"{command} --help" in error


def test_a_command_that_is_none_or_not_whole_is_one_line(ours):
    assert "the following arguments are required: --path" in one_line(ours, "score", "text.txt", "--data", "d")
    assert "invalid choice: 'scroe'" in one_line(ours, "scroe")
    assert "--user-dir: expected one argument" in one_line(ours, "presets", "--user-dir")


def test_more_streams_than_tokens(ours, corpus, models):
    command = ["evaluate", *wheres(corpus, models["tied"]), "--split", "valid", "--streams", "100000"]
    assert "--streams 100,000: the text has" in one_line(ours, *command)


def test_a_baseline_is_named_once(ours, corpus, models):
    command = ["frequency-bins", *wheres(corpus, models["tied"]), "--baselines", f"a={models['tied']}", f"a={models['lookup']}"]
    assert "'a' is the name of two" in one_line(ours, *command)


def test_text_that_is_empty_or_long(ours, corpus, models, tmp_path, monkeypatch, caplog):
    where, empty, text = wheres(corpus, models["tied"]), tmp_path / "empty.txt", tmp_path / "text.txt"
    text.write_text("x" * 1_000_000 + " the\n")
    empty.write_text("\n \n")
    for options in ([], ["--open-vocabulary"]):
        with open("/dev/null") as nothing:
            monkeypatch.setattr("sys.stdin", nothing)
            assert "- is empty: nothing to score" in one_line(ours, "score", "-", *where, *options)
    assert f"{empty}: no word to limit the vocabulary to" in one_line(ours, "score", text, *where, "--limit-vocabulary", empty)
    caplog.clear()
    ours("score", text, *where)
    told = next(record.message for record in caplog.records if "not in the vocabulary" in record.message)
    assert len(told) < 500 and "'xxx" in told and "... (1,000,000 characters) first" in told
    assert len(one_line(ours, "nearest", "x" * 1_000_000, *where)) < 300
    assert len(one_line(ours, "nearest", "x" * 1_000_000 + " ", *where)) < 300


LINE = {"epoch": 1, "valid_ppl": "32.0", "valid_num_updates": "5"}


@pytest.mark.parametrize(
    "key, value",
    [("valid_ppl", value) for value in (None, True, [1], "high", {})]
    + [("valid_num_updates", value) for value in (None, "five", [5], "nan", "inf", -5)],
)
def test_a_log_whose_numbers_are_none(ours, tmp_path, key, value):
    log = tmp_path / "run.log"
    log.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, key: value}) + "\n")
    error = one_line(ours, "curves", log, "--out", tmp_path / "c.png")
    assert f"{log}:2: {key[6:]} of 'valid' is " in error and "expected a number" in error
    assert not list(tmp_path.glob("c.*"))


def test_a_log_line_that_is_nested_without_end_is_no_result(ours, tmp_path):
    log = tmp_path / "run.log"
    lines = [json.dumps(LINE), '{"a": ' + "[" * 100_000 + "}", json.dumps({**LINE, "valid_num_updates": 6})]
    log.write_text("\n".join(lines) + "\n")
    assert "valid" in ours("curves", log, "--out", tmp_path / "c.png")
