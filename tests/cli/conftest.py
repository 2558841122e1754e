"""A tiny corpus and models trained on it, made once with the commands that users type."""

import re
from pathlib import Path

import pytest
from cli_helpers import WORDS, Commands, tokens_of, write

from fairseq_groc.__main__ import main  # with the package fairseq's checkpoints load safely


@pytest.fixture(scope="session")
def commands():
    return Commands()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, commands):
    """Folder with train, valid, other texts, ``data`` (source) and ``union`` (with the words of other)."""
    folder = tmp_path_factory.mktemp("corpus")
    train, valid = write(folder / "train.txt", WORDS, 60, 1), write(folder / "valid.txt", WORDS, 20, 2)
    other = write(folder / "other.txt", WORDS + ["hound", "zebra", "\N{GRINNING FACE}", "x" * 10_000], 20, 3)
    lexicon = ["--lexicon-path", Path(__file__).parents[1] / "fixtures" / "mini.tsv"]
    commands.preprocess("--train", train, "--valid", valid, "--valid", train, "--dest", folder / "data", *lexicon)
    tests = ["--test", other, "--test", valid]
    report = commands.preprocess("--vocabulary-from", folder / "data", *tests, "--dest", folder / "union", *lexicon)
    assert re.search(rf"test +20 +{tokens_of(other)} ", report), report
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory, corpus, commands):
    """Checkpoints by head."""
    found = {}
    for head in ("compositional_output", "tied", "lookup"):
        save = tmp_path_factory.mktemp(head)
        options = ["--output-head", head, "--max-update", "12", "--valid-subset", "valid,valid1", "--batch-size-valid", "8"]
        (save / "train.log").write_text(commands.train(corpus / "data", save, *options))
        found[head] = save / "checkpoint_best.pt"
    return found


@pytest.fixture
def ours(capsys):
    """Return a function that runs a command of ours in this process and returns what it printed."""

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(part) for part in arguments]) == code
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return run
