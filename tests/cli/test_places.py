"""Places that cannot be written to: found before the work where they can be, and nothing half-written stays."""

import io
import json
import logging
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from cli_helpers import environment
from test_bad_checkpoints import one_line, wheres

from fairseq_groc.__main__ import main
from fairseq_groc.cli import export, score, tune
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.files import check_place, replace_file


@contextmanager
def disk_of(size):
    """Let no file grow beyond so many bytes, as on a disk that is full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    logging.disable()  # what pytest captures goes to a file as well
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        logging.disable(logging.NOTSET)


@pytest.fixture
def loads(monkeypatch):
    """How often a checkpoint was loaded."""
    found, load = [], score.load_as
    for module in (export, score):
        monkeypatch.setattr(module, "load_as", lambda *args, **options: found.append(args) or load(*args, **options))
    return found


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    with replace_file(path) as file:
        file.write("new\n")
        assert path.read_text() == "old\n"
    assert path.read_text() == "new\n"
    with pytest.raises(ZeroDivisionError), replace_file(path) as file:
        file.write(str(1 / 0))
    with pytest.raises(OSError) as error, disk_of(100), replace_file(path) as file:
        file.write("x" * 100_000)
    assert error.value.filename == str(path) and error.value.strerror == "File too large"
    link = tmp_path / "link"
    link.symlink_to(path)
    with replace_file(link, "wb") as file:
        file.write(b"through\n")
    assert path.read_text() == "through\n" and link.is_symlink() and sorted(tmp_path.iterdir()) == [path, link]


def test_a_place_is_checked_by_what_is_there(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    for path, message in [
        (tmp_path / "folder", "is a folder"),
        (tmp_path / "none" / "x", "there is no folder .*none"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        with pytest.raises(OptionError, match=message):
            check_place("--out", path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # a superuser may write anywhere
    with pytest.raises(OptionError, match="nothing may be written to"):
        check_place("--out", tmp_path / "x")


def test_export_overwrites_nothing_but_embeddings(ours, corpus, models, loads, tmp_path):
    model, out = tmp_path / "mine.pt", tmp_path / "e.vec"
    model.write_bytes(models["tied"].read_bytes())
    link, notes = tmp_path / "link.vec", tmp_path / "notes.txt"
    link.hardlink_to(model)
    notes.write_text("12 lines follow\nby hand\n")
    for path, message in [
        (model, f"{model} exists and holds no word2vec text: give another name"),
        (link, "holds no word2vec text"),
        (notes, "holds no word2vec text"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "e.vec", "there is no folder"),
    ]:
        assert message in one_line(ours, "export", path, *wheres(corpus, model))
    assert not loads and model.read_bytes() == models["tied"].read_bytes() and "by hand" in notes.read_text()
    ours("export", out, *wheres(corpus, model))
    first = out.read_bytes()
    ours("export", out, *wheres(corpus, model))
    with disk_of(300):
        assert f"error: {out}: File too large" == one_line(ours, "export", out, *wheres(corpus, model))
    assert out.read_bytes() == first and len(first) > 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.vec", "link.vec", "mine.pt", "notes.txt"]


def test_numbers_and_pictures_leave_nothing_half_written(ours, corpus, models, tmp_path):
    out = tmp_path / "near.json"
    command = ["nearest", "cat", *wheres(corpus, models["tied"]), "--out"]
    (tmp_path / "near.png").mkdir()
    assert "near.png is a folder" in one_line(ours, *command, out)
    (tmp_path / "near.png").rmdir()
    with disk_of(2_000):  # the numbers have room, the picture has none
        assert "near.png: File too large" in one_line(ours, *command, out)
    assert [path.name for path in tmp_path.iterdir()] == ["near.json"]
    with pytest.raises(OSError), disk_of(10):
        write_json(out, {"a": list(range(100))})
    assert out.read_text().startswith('{\n "path"') and len(list(tmp_path.iterdir())) == 1


def test_tune_finds_before_the_work_that_it_cannot_store(ours, corpus, models, tmp_path, monkeypatch):
    data = shutil.copytree(corpus / "data", tmp_path / "data")
    command = ["tune", "--path", models["tied"], "--data", data, "--weights", "0.1", "--thetas", "0.3"]
    monkeypatch.setattr(tune, "read", lambda *args: pytest.fail("the text is read"))
    (data / "adapters.json").mkdir()
    assert "adapters.json is a folder" in one_line(ours, *command)
    (data / "adapters.json").rmdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert f"--data {data / 'adapters.json'}: nothing may be written to {data}" in one_line(ours, *command)


def test_a_place_that_cannot_be_made_is_one_line(ours, corpus, models, tmp_path):
    (tmp_path / "file").write_text("mine\n")
    where = wheres(corpus, models["tied"])
    assert f"{tmp_path / 'file'}: File exists" in one_line(ours, "remember", tmp_path / "file", *where)
    assert "file/x: Not a directory" in one_line(ours, "remember", tmp_path / "file" / "x", *where)
    with disk_of(500):
        assert "dest: File too large" in one_line(ours, "remember", tmp_path / "dest", *where, "--split", "valid")
    assert not list((tmp_path / "dest").glob(".*part*")) and not list((tmp_path / "dest").glob(".state*"))


def started(corpus, models, text, **options):
    """Start score in a process of its own, since a fork has the logs of fairseq's programs on its output."""
    command = [sys.executable, "-m", "fairseq_groc", "score", text, *wheres(corpus, models["tied"])]
    return subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True, env=environment(), **options)


def test_a_reader_that_has_enough_is_no_error(corpus, models, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat\n" * 200)
    with started(corpus, models, text, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().endswith("\tthe cat\n")
        process.stdout.close()
        error = process.stderr.read()
    assert process.returncode == 141 and "BrokenPipe" not in error and "Traceback" not in error


def test_ctrl_c_ends_a_command_without_a_traceback(corpus, models):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with started(corpus, models, "-", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **pipes) as process:
        process.stdin.write("the cat\n" * 20_000)  # more than a pipe holds: it is being read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT  # so that a shell's loop ends, too


def test_numbers_that_json_lacks(tmp_path):
    write_json(tmp_path / "r.json", [math.inf, -math.inf, math.nan, 0.5])
    assert json.loads((tmp_path / "r.json").read_text()) == ["inf", "-inf", None, 0.5]


def test_an_output_without_the_letter_is_one_line(corpus, models, tmp_path, monkeypatch, capsys):
    text = tmp_path / "text.txt"
    text.write_text("na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert main([*map(str, ("score", text, *wheres(corpus, models["tied"])))]) == 1
    message = r"error: ascii lacks '\xef': set PYTHONIOENCODING=utf-8:surrogateescape"
    assert capsys.readouterr().err.splitlines()[-1] == message


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_an_output_that_is_full_is_one_line(corpus, models, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the cat\n")
    with open("/dev/full", "w") as full, started(corpus, models, text, stdout=full) as process:
        error = process.stderr.read()
    assert process.returncode == 1 and error.splitlines()[-1] == "error: No space left on device" and "Traceback" not in error
