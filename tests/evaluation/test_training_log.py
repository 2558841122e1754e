"""What fairseq-train logs, line by line, to curves."""

import json

import pytest

from fairseq_groc.errors import DataError
from fairseq_groc.evaluation.training_log import by_seconds, read_clock, read_curves

SIMPLE = """
2026-01-01 10:00:00 | INFO | fairseq.trainer | begin training epoch 1
2026-01-01 10:00:01 | INFO | train_inner | epoch 001:      2 / 7 loss=4.5, ppl=22.63, wps=0, ups=0, num_updates=2, lr=0.01
2026-01-01 10:00:02 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4.1 | ppl 17.15 | wps 10 | num_updates 2
2026-01-01 10:00:02 | INFO | valid1 | epoch 001 | valid on 'valid1' subset | loss inf | ppl inf | num_updates 2 | best_loss 4.1
2026-01-01 10:00:03 | INFO | train_inner | epoch 001:      4 / 7 loss=4, ppl=16, wps=0, ups=0, num_updates=4, lr=0.01
2026-01-01 10:00:04 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4 | ppl 16 | wps 10 | num_updates 4 | best_loss 4
2026-01-01 10:00:04 | INFO | valid1 | epoch 001 | valid on 'valid1' subset | loss 5 | ppl 32 | num_updates 4 | best_loss 4
2026-01-01 10:00:05 | INFO | train | epoch 001 | loss 4.2 | ppl 18.38 | num_updates 4 | train_wall 1
2026-01-01 10:00:06 | INFO | valid | valid on 'valid' subset | loss 3 | ppl 8, of fairseq-validate
"""
JSON = """
2026-01-01 10:00:00 | INFO | fairseq_cli.train | {'_name': None, 'common': {'seed': 1}}
2026-01-01 10:00:01 | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "4.5", "ppl": "22.63", "num_updates": "2"}
2026-01-01 10:00:02 | INFO | valid | {"epoch": 1, "valid_loss": "4.1", "valid_ppl": "17.15", "valid_num_updates": "2"}
[2026-01-01 10:00:02][valid1][INFO] - {"epoch": 1, "valid1_loss": "inf", "valid1_ppl": "inf", "valid1_num_updates": "2"}
2026-01-01 10:00:03 | INFO | train_inner | {"epoch": 1, "update": 0.6, "loss": "4", "ppl": "16", "num_updates": "4"}
2026-01-01 10:00:04 | INFO | valid | {"epoch": 1, "valid_loss": 4, "valid_ppl": 16, "valid_num_updates": 4, "valid_best_loss": 4}
2026-01-01 10:00:04 | INFO | valid1 | {"epoch": 1, "valid1_loss": "5", "valid1_ppl": "32", "valid1_num_updates": "4"}
2026-01-01 10:00:05 | INFO | train | {"epoch": 1, "train_loss": "4.2", "train_ppl": "18.38", "train_num_updates": "4"}
"""
INFINITE = float("inf")


@pytest.mark.parametrize("text", [SIMPLE, JSON], ids=["simple", "json"])
def test_both_formats_give_the_same_curves(tmp_path, text):
    log = tmp_path / "train.log"
    log.write_text(text)
    expected = {"valid": [(2, 17.15), (4, 16.0)], "valid1": [(2, INFINITE), (4, 32.0)], "train": [(2, 22.63), (4, 16.0)]}
    assert read_curves(log) == expected
    assert read_curves(log, "loss")["valid1"] == [(2, INFINITE), (4, 5.0)]
    assert read_curves(log, "num_updates").keys() == expected.keys()


@pytest.mark.parametrize("text", [SIMPLE, JSON], ids=["simple", "json"])
def test_a_run_that_went_back_counts_from_there(tmp_path, text):
    log = tmp_path / "train.log"
    log.write_text(text + text.replace("16", "15", 4).replace("17.15", "18.5"))
    assert read_curves(log)["valid"] == [(2, 18.5), (4, 15.0)]
    assert [updates for updates, _ in read_curves(log)["train"]] == [2, 4]


def test_what_is_no_log_is_refused(tmp_path):
    log = tmp_path / "train.log"
    for text in ("", "\ud800 words {not json}\n{}", SIMPLE.split("2026-01-01 10:00:02")[0]):
        log.write_bytes(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(DataError, match="train.log: no 'ppl' of a validation subset. Expected the output of fairseq-train"):
            read_curves(log)
    with pytest.raises(DataError, match="absent.log: no such log"):
        read_curves(tmp_path / "absent.log")


def simple(updates, second, epoch=False):
    if epoch:
        return f"{at(second)} | INFO | train | epoch 001 | loss 4 | ppl 16 | num_updates {updates} | lr 0.01 | wall 0\n"
    return f"{at(second)} | INFO | train_inner | epoch 001:  2 / 7 loss=4, ppl=16, num_updates={updates}, wall=0\n"


def as_json(updates, second, epoch=False):
    prefix = "train_" if epoch else ""
    stats = {"num_updates": updates, "loss": "4", "ppl": "16", "wall": "0"}
    whole = {"epoch": 1, **{prefix + key: value for key, value in stats.items()}}
    return f"{at(second)} | INFO | train | {json.dumps(whole)}\n"


def at(second):
    return f"2026-02-28 23:59:{second:02}" if second < 60 else f"2026-03-01 00:00:{second - 60:02}"


def begun(second):
    return f"{at(second)} | INFO | fairseq_cli.train | {{'_name': None, 'common': {{}}}}\n"


@pytest.mark.parametrize("line", [simple, as_json])
def test_the_clock_goes_on_where_a_run_does(tmp_path, line):
    log = tmp_path / "train.log"
    first = begun(2) + line(10, 6) + line(20, 9) + line(24, 11, epoch=True) + line(24, 13) + line(30, 14)
    log.write_text(f"+ fairseq-train\n{line(5, 3).replace(at(3), '2026-02-31 10:00:00')}{first}")
    assert read_clock(log) == [(10, 4), (20, 7), (24, 9), (30, 12)]
    with log.open("a") as file:  # later, from a checkpoint of 20 updates
        file.write(begun(40) + line(25, 43) + line(40, 48))
    assert read_clock(log) == [(10, 4), (20, 7), (24, 9), (25, 12), (40, 17)]
    with log.open("a") as file:  # from one of 40
        file.write(begun(59) + line(50, 61, epoch=True))
    assert read_clock(log)[-2:] == [(40, 17), (50, 19)]


def test_points_lie_between_the_lines_that_say_when(tmp_path):
    clock = [(10, 4.0), (20, 8.0), (40, 9.0)]
    curve = [(5, 9.0), (10, 8.0), (15, INFINITE), (30, 6.0), (40, 5.0), (41, 4.0)]
    assert by_seconds(curve, clock) == ([(4.0, 8.0), (6.0, INFINITE), (8.5, 6.0), (9.0, 5.0)], 2)


@pytest.mark.parametrize("line", [simple, as_json])
def test_a_clock_that_is_none_is_refused(tmp_path, line):
    log = tmp_path / "train.log"
    for text in (line(10, 4).replace("2026-", ""), begun(1)):
        log.write_text(text)
        with pytest.raises(DataError, match=r"train.log: no line of training says when it was written: give the log"):
            read_clock(log)
    log.write_text(begun(1) + line("soon", 4))
    with pytest.raises(DataError, match=r"train.log:2: num_updates of 'train' is 'soon', expected a number"):
        read_clock(log)
