"""examples/papers/background.py and timed_train.py: what is stopped, killed or changed in between."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cli_helpers import PLUGIN, ROOT, SMALL, TRAINING, WORDS, environment, write

PAPERS = ROOT / "examples" / "papers"
BACKGROUND, TIMED = PAPERS / "background.py", PAPERS / "timed_train.py"
LINE = "table-2 --scale cpu --updates 60 --settings 1 --rows tied"
SPLITS = (("train", 2000), ("valid", 200), ("test", 20))
TOLD = 128 + signal.SIGTERM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program outlives one that is killed")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts") / "ptb"
    folder.mkdir()
    for split, count in SPLITS:
        write(folder / f"{split}.txt", WORDS, count, count)
    return folder.parent


def began(*command, **variables):
    """Start a process of its own: signals do not reach what is behind the tests' forks."""
    words = [sys.executable, *map(str, command)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, env={**environment(), **variables}, **streams)


def read_until(process, *wanted):
    """Read what it prints until a line has all that is wanted."""
    for line in process.stdout:
        if all(text in line for text in wanted):
            return line
    raise AssertionError(f"ended with {process.wait()} before {wanted}")


def wait_for(condition, *what):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(what)


def test_a_training_that_is_stopped_and_killed_is_the_same_as_one_in_one_piece(commands, texts, tmp_path):
    splits = [part for split, _ in SPLITS for part in (f"--{split}", texts / "ptb" / f"{split}.txt")]
    commands.preprocess(*splits, "--lexicon-path", "none", "--dest", tmp_path / "data")
    schedule = ["--lr-scheduler", "resumable_reduce_lr_on_plateau", "--warmup-updates", "20", "--lr-shrink", "0.1"]
    options = [*PLUGIN, *SMALL, *TRAINING, *schedule, "--output-head", "tied", "--dropout", "0.2", "--no-epoch-checkpoints"]
    options += ["--max-epoch", "3", "--log-interval", "1", "--lr-threshold", "1"]  # but for the first, every epoch is a bad one
    command = [tmp_path / "data", *options, "--save-dir"]
    commands.ok("fairseq-train", *command, tmp_path / "whole")
    cut = [TIMED, *command, tmp_path / "cut"]
    stopped = began(*cut)
    read_until(stopped, "num_updates=30,")
    stopped.terminate()
    assert "score None" in read_until(stopped, "Saved checkpoint", "(epoch 1 @ ")  # and nothing but that
    assert stopped.wait() == TOLD
    killed = began(*cut)
    read_until(killed, "end of epoch 1 ")
    read_until(killed, "Saved checkpoint", "(epoch 2 @ ")  # at its first update: the schedule has seen the loss
    killed.kill()
    killed.wait()
    last = commands.ok("python", *cut)
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch 2 @ ", last) and "done training" in last, last[-6000:]
    whole, resumed = (torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True) for name in ("whole", "cut"))
    assert whole["model"].keys() == resumed["model"].keys()
    assert all(torch.equal(whole["model"][name], resumed["model"][name]) for name in whole["model"])
    moments = [saved["last_optimizer_state"]["state"] for saved in (whole, resumed)]
    assert all(torch.equal(moments[0][i][name], moments[1][i][name]) for i in moments[0] for name in ("exp_avg", "exp_avg_sq"))
    rates = [saved["last_optimizer_state"]["param_groups"][0]["lr"] for saved in (whole, resumed)]
    assert rates[0] == rates[1] < 0.01 and whole["extra_state"]["best"] == resumed["extra_state"]["best"]


def test_a_training_that_was_killed_at_its_very_end_makes_no_more_updates(commands, texts, tmp_path):
    splits = [part for split in ("train", "valid") for part in (f"--{split}", texts / "ptb" / f"{split}.txt")]
    commands.preprocess(*splits, "--lexicon-path", "none", "--dest", tmp_path / "data")
    options = [*PLUGIN, *SMALL, *TRAINING, "--output-head", "tied", "--max-update", "4", "--no-epoch-checkpoints"]
    for _ in range(2):
        assert "done training" in commands.ok("python", TIMED, tmp_path / "data", *options, "--save-dir", tmp_path / "save")
    saved = torch.load(tmp_path / "save" / "checkpoint_last.pt", weights_only=True)
    assert saved["optimizer_history"][-1]["num_updates"] == 4


def test_a_queue_is_killed_stopped_and_goes_on_until_it_is_done(commands, texts, tmp_path):
    queue, work = tmp_path / "queue.txt", tmp_path / "work"
    queue.write_text(f"# a comment\n\n{LINE}\n")
    about = [BACKGROUND, "--workdir", work, "--queue", queue, "--texts", texts]
    about += ["--nice", "1"]  # or other tests would leave it nothing

    def status():
        return commands.ok("python", *about, "status")

    assert f"nothing was started in {work}" in commands.fails("python", *about, "status")
    assert f"nothing runs in {work}" in commands.fails("python", *about, "stop")

    def logged():
        return "".join(log.read_text() for log in work.rglob("train.log"))

    def saved():
        return re.findall(r"Saved checkpoint .* @ (\d+) updates", logged())

    begin_in_background(*about)
    assert "has one running" in commands.fails("python", *about, "run")
    wait_for(lambda: len(saved()) > 3 and "valid on" in logged(), "no checkpoint, or no validation")
    assert re.search(r"--rows tied \(line 1 of 1\), running: ", status())
    worker = json.loads((work / "queue.state").read_text())["pid"]
    assert os.getpriority(os.PRIO_PROCESS, worker) == 1
    (row,) = (line.split()[0] for line in trainings(work, "pid,args") if "/run.py" in line)
    group = Path("/proc", row, "autogroup")
    assert not group.exists() or group.read_text().endswith("nice 1\n")
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: trainings(work) == [], "it trains still")
    assert "(line 1 of 1), killed: " in status()
    first = len(saved())
    begin_in_background(*about)
    wait_for(lambda: len(saved()) > first, "it did not go on")
    assert commands.ok("python", *about, "stop").endswith("stopped\n")
    wait_for(lambda: trainings(work) == [], "it has not ended")
    (made,) = work.rglob("made.json")
    assert re.search(r"\(line 1 of 1\), stopped: .*validation [\d. ]+", status())
    last = made.with_name("checkpoint_last.pt")
    checkpoint = torch.load(last, weights_only=True)
    (code,) = checkpoint["extra_state"]["code"]
    torch.save({**checkpoint, "extra_state": {**checkpoint["extra_state"], "code": ["0ther"]}}, last)
    before = len(saved())
    assert f"was begun by other code (0ther, now {code}): --code-changed or" in commands.fails("python", *about, "run")
    assert len(saved()) == before and "(line 1 of 1), this line failed: " in status()
    assert commands.ok("python", *about, "run", "--minutes", "0.001", "--code-changed").endswith("stopped\n")
    assert not list(work.rglob("test.json"))
    assert "tied: " in commands.ok("python", *about, "run", "--code-changed")
    found = json.loads(made.read_text())
    assert (found["code_before"], found["code"]) == (["0ther"], code)
    assert list(json.loads((work / "table-2-ptb-cpu.json").read_text())["rows"]) == ["tied"]
    updates = [int(number) for number in saved()]
    assert updates[-1] == 60 and updates == sorted(updates)  # it never began anew
    assert "(line 1 of 1), all done: " in status()


def test_who_does_not_end_within_the_grace_is_ended(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    end_group = runpy.run_path(str(BACKGROUND))["end_group"]
    assert end_group.__globals__["GRACE"] <= 20
    monkeypatch.setitem(end_group.__globals__, "GRACE", 0.3)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline()
    end_group(process)
    assert process.wait(10) == -signal.SIGKILL


def test_who_misses_a_signal_is_told_again(commands, tmp_path):
    deaf = f"""import signal, time, filelock
with filelock.FileLock({str(tmp_path / "queue.lock")!r}):
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    print(flush=True)
    while len(told) < 2:
        time.sleep(0.1)"""
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    (tmp_path / "queue.state").write_text(json.dumps({"pid": process.pid}))
    assert commands.ok("python", BACKGROUND, "--workdir", tmp_path, "stop").endswith("stopped\n")
    assert process.wait(10) == 0


def test_a_kill_costs_less_than_ten_minutes(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(TIMED))
    variables = names["Clock"].__init__.__globals__
    now, saves = [0.0], []
    monkeypatch.setitem(variables, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setitem(variables, "checkpoint_utils", SimpleNamespace(save_checkpoint=lambda *_: saves.append(now[0])))
    clock = names["Clock"](names["SECONDS"])
    for now[0] in range(0, 4000, 7):
        clock.after_update(lambda *_: ([None], False), SimpleNamespace(checkpoint=None), *[None] * 4, end_of_epoch=False)
    gaps = [after - before for before, after in pairwise([0.0, *saves])]
    assert len(saves) == 8 and max(gaps) < 500  # a validation fits into what is left


def begin_in_background(*about):
    """Start the queue by a process that ends when it is under way, with a checkpoint after every update."""
    process = began(*about, "start", SAVE_SECONDS="0")
    assert "started: " in process.communicate()[0] and process.returncode == 0


def trainings(work, columns="args"):
    """Return the lines of commands that train or score in a folder."""
    done = subprocess.run(["ps", "-ww", "-eo", columns], stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(work) in line and "ps -ww" not in line]


def test_a_status_says_where_a_training_is_and_when_it_ends(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(BACKGROUND))
    made, log = tmp_path / "made.json", tmp_path / "train.log"
    made.write_text(json.dumps({"options": "--max-epoch 40 --lr 0.001"}))
    log.write_text("nothing\n")
    assert names["progress"](log) == "no update logged yet"
    log.write_text("Saved checkpoint checkpoint_last.pt (epoch 1 @ 89 updates, score None) (writing took 1 seconds)")
    assert names["progress"](log) == "epoch 1, update 89"
    curve = [900.0, 500.0, 400.0, 338.5, 224.3, 182.0]
    lines = [f"| valid on 'valid' subset | ppl {ppl} | num_updates {i + 1}" for i, ppl in enumerate(curve)]
    step = "epoch 007:    {} / 1000 loss=1, ups={}, wpb=1, num_updates={}, lr=1"
    steps = [step.format(100, 1, 6100), step.format(200, 3, 6200)]
    log.write_text("\n".join([*lines, *steps]))
    told = names["progress"](log)
    assert told.startswith(
        "epoch 7, update 6,200, validation 900.0 500.0 400.0 338.5 224.3 182.0, 2 updates a second, at the latest"
    )
    assert told.endswith(" (40,000 updates)")
    end = time.strptime(re.findall(r"done by (\S+ \S+)", told)[0], "%Y-%m-%d %H:%M")
    assert time.mktime(end) == pytest.approx(time.time() + (40_000 - 6_200) / 2, abs=120)
    assert names["last_update"]("--max-epoch 40 --max-update 70", 10) == 70 and names["last_update"]("", 10) is None


def test_lines_of_the_queue_are_rows_and_are_done_when_their_results_are_there(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(BACKGROUND))
    lines = names["lines_of"](PAPERS / "queue.txt")
    first, then = ["tied", "GroC", "GroC + corrections"], ["deep residual", "GroC, surface"]
    rows = [*first, *then, "adaptive", "bilinear", "lookup", "convolutional", *first, "tied", "4 layers"]
    assert [row for line in lines for row in line.rows] == rows
    assert [line.dataset for line in lines] == ["ptb"] * 9 + ["wikitext2"] * 3 + ["ptb"] * 2
    assert lines[4].words[-2:] == ["--scale", "paper"] and lines[4].results == "table-3-ptb-paper.json"
    assert not names["is_done"](lines[0], tmp_path)
    (tmp_path / "table-2-ptb-paper.json").write_text(json.dumps({"rows": {"tied": {}}}))
    assert [names["is_done"](line, tmp_path) for line in lines[:2]] == [True, False]
    (tmp_path / "queue.txt").write_text("table-2 --rows tide")
    with pytest.raises(SystemExit, match="no tide: expected some of lookup, "):
        names["lines_of"](tmp_path / "queue.txt")


def test_the_fingerprint_is_of_the_code_that_trains(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(PAPERS)
    names = runpy.run_path(str(TIMED))
    for name in ("encoders/lstm.py", "cli/tune.py", "presets.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    fingerprint = names["code_fingerprint"]
    monkeypatch.setitem(fingerprint.__globals__, "FOLDER", tmp_path)
    before = fingerprint()
    (tmp_path / "cli" / "tune.py").write_text("two")
    assert fingerprint() == before
    (tmp_path / "encoders" / "lstm.py").write_text("two")
    assert fingerprint() != before
