"""Commands say what their users should know: the log of the work, fairseq's and ours, comes by ``--verbose`` alone."""

import logging
import re
import shutil
import subprocess
import sys

import pytest
from cli_helpers import environment
from fuzz_mutations import copied
from fuzz_recipes import RECIPES, make_world

from fairseq_groc.__main__ import main

# a recipe of each command
OURS = {recipe.command: recipe for recipe in reversed(RECIPES.values()) if not recipe.command.startswith("fairseq-")}
# what fairseq logs of checkpoints, of their settings, of texts, of its own programs, and how it begins a line; and what we do
LOG = re.compile(
    r"loading archive file|loading model\(s\)|loaded \d+ examples|\{'_name'|\| INFO \||INFO:|Namespace\("
    r"|dictionary: \d+ types|: \d+ lines, \d+ tokens$",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory, corpus, models, commands):
    return make_world(tmp_path_factory.mktemp("world"), corpus, models, commands)


@pytest.fixture
def said(world, tmp_path):
    """Return a function that runs a command in a copy of the folder and returns all that it prints."""

    def run(*words, stdin="", program="python"):
        folder = copied(world, tmp_path / "copy")
        with open(folder / stdin if stdin else "/dev/null") as source:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": source, "text": True}
            found = shutil.which(program, path=environment()["PATH"])
            done = subprocess.run([found, "-m", "fairseq_groc", *words], cwd=folder, env=environment(), **streams)
        assert done.returncode == 0, done.stdout[-2000:]
        return done.stdout

    return run


@pytest.mark.parametrize("name", OURS)
def test_nothing_of_the_log_is_shown(said, name):
    shown = said(*OURS[name].words, stdin=OURS[name].stdin)
    assert not LOG.search(shown), shown[:2000]


@pytest.mark.parametrize("name, options", [("evaluate", ["--workers", "2"]), ("preprocess", [])])
def test_nor_where_python_begins_anew(said, name, options):
    assert not LOG.search(said(*OURS[name].words, *options, program=sys.executable))


@pytest.mark.parametrize("place", ["before", "after"])
def test_it_is_shown_where_it_is_asked_for(said, place):
    words = OURS["evaluate"].words
    shown = said(*(["--verbose", *words] if place == "before" else [*words, "--verbose"]))
    assert all(part in shown for part in ("loading archive file", ": 20 lines, ", "dictionary: 27 types"))


def test_a_command_leaves_the_loggers_as_they_were(world, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(world, tmp_path / "copy"))
    loggers = [logging.getLogger(name) for name in ("fairseq", "fairseq_cli", "fairseq_groc", "filelock", "faiss")]
    before = [logger.level for logger in loggers]
    assert main([*OURS["export"].words]) == 0 and main(["explain", "cat", "--lexicon-path", "absent.tsv"]) == 1
    assert [logger.level for logger in loggers] == before
