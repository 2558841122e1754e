"""``preprocess``: what it makes, what it refuses, and that nothing is lost whatever happens."""

import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import ROOT, WORDS, write
from filelock import FileLock

from fairseq_groc.__main__ import main
from fairseq_groc.data.fingerprint import trained_words
from fairseq_groc.data.folder import SCRATCH
from fairseq_groc.dictionary import load_dictionary

LEXICON = ["--lexicon-path", "none"]


@pytest.fixture
def preprocess(capfd):
    """Return a function that runs the command in this process and returns what it printed."""

    def run(*options, code=0, lexicon=LEXICON):
        capfd.readouterr()
        assert main(["preprocess", *map(str, options), *lexicon]) == code
        printed = capfd.readouterr()
        return printed.out if code == 0 else printed.err

    return run


@pytest.fixture
def text(tmp_path):
    return write(tmp_path / "text.txt", WORDS, 30, 1)


@pytest.fixture
def data(tmp_path, text, preprocess):
    """A folder with train, valid and test."""
    preprocess("--train", text, "--valid", text, "--test", text, "--dest", tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize(
    "lexicon, said",
    [
        (["--lexicon-path", "nosuch"], "--lexicon-path nosuch: no such file or folder"),
        (["--lexicon-path", "omw:nosuch"], "--lexicon-path nosuch: no such file or folder"),
        (["--lexicon-path", "lemmas:nosuch"], "--lexicon-path nosuch: no such file or folder"),
        ([*LEXICON, "--forms-from", "nosuch"], "nosuch: [Errno 2] No such file"),
    ],
)
def test_a_lexicon_that_is_not_there_is_refused_before_texts_are_read(tmp_path, preprocess, lexicon, said):
    (tmp_path / "text").write_bytes(b"\x00")  # which is refused when it is read
    assert said in preprocess("--train", tmp_path / "text", "--dest", tmp_path / "data", code=1, lexicon=lexicon)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_fork(function, *arguments):
    """Run a function in a fork of this process; return its exit code."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def test_files_that_it_did_not_make_stay(preprocess, data, text, caplog):
    names = ("testimony.bin", "validation.idx", "train.txt", "valid.en.bin", "adapters.json")
    for name in names:
        (data / name).write_text("mine")
    with caplog.at_level(logging.WARNING):
        preprocess("--train", text, "--dest", data)
    assert all((data / name).read_text() == "mine" for name in names)
    made = {"dict.txt", "binarised.json", "lexicon-tables", "train.bin", "train.idx"}
    assert {path.name for path in data.iterdir()} == {*names, *made}
    assert "has no longer test.bin, test.idx, valid.bin, valid.idx" in caplog.text


@pytest.mark.parametrize("option, read", [("--vocabulary-from", ""), ("--vocabulary", "dict.txt"), ("--known", "")])
def test_a_folder_that_is_read_is_not_replaced(preprocess, data, text, tmp_path, option, read):
    before = files(data)
    (tmp_path / "link").symlink_to(data)
    (tmp_path / "file").symlink_to(data / "dict.txt")
    for dest in (data, tmp_path / "link"):
        options = ["--test", text, "--train", text] if option == "--known" else ["--test", text]
        error = preprocess(option, data / read, *options, "--dest", dest, code=1)
        assert f"--dest {dest} would replace the texts of a folder that is read" in error and "another --dest" in error
    assert "would replace" in preprocess("--vocabulary", tmp_path / "file", "--test", text, "--dest", data, code=1)
    assert files(data) == before


def test_a_folder_stays_whole_where_there_is_no_room(preprocess, data, tmp_path):
    long, before = write(tmp_path / "long.txt", WORDS, 3000, 2), files(data)

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        os._exit(main(["preprocess", "--train", str(long), "--dest", str(data), *LEXICON]))

    assert in_fork(little_room) == 1
    assert files(data) == before and not (data / SCRATCH).exists()


@pytest.mark.parametrize("moved", [0, 3])
def test_a_killed_run_leaves_no_half_of_a_text_and_the_next_one_mends_it(preprocess, data, text, tmp_path, monkeypatch, moved):
    replace, done = os.replace, []

    def killed(source, target):
        if Path(target).parent == data:  # a name of the folder itself
            if len(done) == moved:
                os._exit(9)
            done.append(target)
        replace(source, target)

    def run():
        monkeypatch.setattr(os, "replace", killed)
        main(["preprocess", "--train", str(text), "--dest", str(data), *LEXICON])

    assert in_fork(run) == 9
    assert not (data / "dict.txt").exists() and not (data / "binarised.json").exists()
    preprocess("--train", text, "--dest", data)
    assert {path.name for path in data.iterdir()} == {"dict.txt", "binarised.json", "lexicon-tables", "train.bin", "train.idx"}


def test_two_runs_do_not_write_the_same_folder(preprocess, data, text):
    before = files(data)
    (data / SCRATCH).mkdir()
    with FileLock(data / SCRATCH / "lock"):
        assert f"another preprocess writes {data}" in preprocess("--train", text, "--dest", data, code=1)
    assert {path: raw for path, raw in files(data).items() if SCRATCH not in path.parts} == before


def test_nothing_is_removed_through_a_link_in_the_place_of_the_scratch_folder(preprocess, text, tmp_path):
    for name in ("mine", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    (tmp_path / "data" / SCRATCH).symlink_to(tmp_path / "mine")
    error = preprocess("--train", text, "--dest", tmp_path / "data", code=1)
    assert f"{tmp_path / 'data' / SCRATCH} is a link: remove it" in error and (tmp_path / "mine" / "letter.txt").exists()


def test_places_that_cannot_be_written_are_refused_before_the_work(preprocess, text, tmp_path, monkeypatch):
    monkeypatch.setattr("fairseq_groc.cli.preprocess.read_lines", None)  # no text is read
    monkeypatch.chdir(tmp_path)
    assert f"--dest {text} is a file" in preprocess("--train", text, "--dest", text, code=1)
    assert "--dest -x: a folder whose name begins with -" in preprocess("--train", text, "--dest=-x", code=1)
    inside = text / "data"
    assert f"{inside}: nothing was written to it" in preprocess("--train", text, "--dest", inside, code=1)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train.bin").write_text("mine")
    assert "has train.bin, which preprocess did not make" in preprocess("--train", text, "--dest", "own", code=1)
    assert {path.name for path in tmp_path.iterdir()} == {"text.txt", "own"}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--threshold", "1000"], "--threshold 1000: no word is left, the most frequent one of the training text is there "),
        (["--threshold", "0"], "--threshold 0: expected a whole number, 1 or more"),
        (["--threshold", "-1"], "--threshold -1: expected a whole number, 1 or more"),
        (["--vocabulary", "{text}"], "text.txt: Incorrect dictionary format"),
        (["--vocabulary", "{text}.none"], "text.txt.none: "),
        (["--vocabulary-from", "{text}.none"], "text.txt.none/dict.txt not found"),
        (["--known", "{text}.none"], "text.txt.none/dict.txt not found"),
        (["--dataset", "ptb"], "--train, --valid and --test do not go with --dataset"),
        (["--valid", "{text}.none"], "text.txt.none: no such file"),
    ],
)
def test_what_cannot_be_meant_is_one_line(preprocess, text, tmp_path, options, message):
    error = preprocess("--train", text, "--dest", tmp_path / "a" / "b", *(part.format(text=text) for part in options), code=1)
    assert message in error and error.splitlines()[-1].startswith("error: ") and "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_byte_order_mark_is_no_part_of_a_word(preprocess, tmp_path, caplog):
    raw, vocabulary = tmp_path / "raw.txt", tmp_path / "words.txt"
    raw.write_bytes(b"\xef\xbb\xbf\xef\xbb\xbfthe dog\nthe\n")  # as of files that were put together, the first of them empty
    vocabulary.write_bytes(b"\xef\xbb\xbfthe 2\ndog 1\n")
    preprocess("--train", raw, "--dest", tmp_path / "data")
    preprocess("--train", raw, "--vocabulary", vocabulary, "--dest", tmp_path / "again")
    assert (tmp_path / "data" / "dict.txt").read_text() == (tmp_path / "again" / "dict.txt").read_text() == "the 2\ndog 1\n"
    assert f"{raw} begins with a byte-order mark" in caplog.text and f"{vocabulary} begins" in caplog.text


def test_symbols_that_lower_casing_makes_are_refused(preprocess, tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("the dog\nthe <PAD> dog\n")
    preprocess("--train", raw, "--dest", tmp_path / "data")
    assert f"{raw}:2: contains <pad>" in preprocess("--train", raw, "--lower", "--dest", tmp_path / "data", code=1)


def test_odd_names_of_folders_and_files(preprocess, tmp_path, monkeypatch):
    folder = tmp_path / "a,b=c \N{SNOWMAN}"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    (folder / "d,e=f.txt").write_text("the cat\n")
    preprocess("--train", folder / "d,e=f.txt", "--dest", folder / "data")
    assert load_dictionary(folder / "data" / "dict.txt").symbols[4:6] == ["the", "cat"]


def test_words_of_earlier_trainings_are_known(preprocess, tmp_path):
    """A folder to finetune in, in the documented way: its vocabulary is another folder's, of which it names the training."""
    texts = {"first": "the cat\n", "new": "the zebra gnu\n", "test": "the cat zebra wug\n", "third": "okapi\n"}
    for name, line in texts.items():
        (tmp_path / f"{name}.txt").write_text(line)

    def made(name, *options):
        printed = preprocess("--dest", tmp_path / name, *options)
        return [float(line.split()[-1].rstrip("%")) for line in printed.splitlines() if line.startswith("test")]

    made("mine", "--train", tmp_path / "first.txt")
    made("old", "--train", tmp_path / "third.txt")
    more = ["--new-words-from", tmp_path / "new.txt", "--new-words-from", tmp_path / "third.txt"]
    made("union", "--vocabulary-from", tmp_path / "mine", "--test", tmp_path / "test.txt", *more)
    own = ["--vocabulary", tmp_path / "union" / "dict.txt", "--train", tmp_path / "new.txt", "--test", tmp_path / "test.txt"]
    assert made("alone", *own) == [40.0]  # cat and wug of five tokens, </s> one of them
    assert made("finetune", *own, "--known", tmp_path / "mine", "--known", tmp_path / "old") == [20.0]
    dictionary = load_dictionary(tmp_path / "union" / "dict.txt")
    mask = trained_words(tmp_path / "finetune", len(dictionary))
    assert {w for w, known in zip(dictionary.symbols, mask, strict=True) if known} == {
        "</s>",
        "the",
        "cat",
        "zebra",
        "gnu",
        "okapi",
    }


def test_a_folder_whose_note_is_another_dictionarys_is_not_built_upon(preprocess, data, text, tmp_path):
    (data / "dict.txt").write_text("the 3\n")
    error = preprocess("--vocabulary-from", data, "--test", text, "--dest", tmp_path / "other", code=1)
    assert "dict.txt is not the dictionary" in error and not (tmp_path / "other").exists()


def test_the_script_is_the_command(commands, text, tmp_path):
    assert "dictionary" in commands.preprocess("--train", text, "--dest", tmp_path / "data", *LEXICON)
    assert json.loads((tmp_path / "data" / "binarised.json").read_text())["trained"]
    script = ROOT / "scripts" / "preprocess.sh"
    assert "required: --dest" in commands.fails(script, "--train", text)
    error = commands.fails(script, "--trian", "x", "--dest", tmp_path / "data")
    assert "unrecognized arguments: --trian x. Did you mean --train? Options: python -m fairseq_groc preprocess --help" in error


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH came with Python 3.11")
def test_the_script_imports_nothing_from_the_folder_of_the_text(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c 'import sacremoses; print(sacremoses.__file__)'\n")
    python.chmod(0o755)
    (tmp_path / "sacremoses.py").write_text("print('ran')")
    variables = {**os.environ, "PYTHON": str(python)}
    script = [ROOT / "scripts" / "preprocess.sh", "--tokenize", "en"]
    imported = subprocess.run(script, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True).stdout
    assert imported.endswith("sacremoses/__init__.py\n") and "ran" not in imported and str(tmp_path) not in imported
