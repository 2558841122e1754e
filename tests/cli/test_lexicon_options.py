"""The options that say which lexicon is read, as users type them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fairseq_groc.lexicon.tables_file import load_tables

MINI = ["--lexicon-path", "tests/fixtures/mini.tsv"]


@pytest.fixture
def folder(tmp_path):
    """A dictionary, and no text."""
    (tmp_path / "dict.txt").write_text("cat 3\nnasa 2\nlion 1\n")
    return tmp_path


@pytest.fixture
def glossary(tmp_path):
    path = tmp_path / "glossary.tsv"
    path.write_text("NASA\tagency\tspace people\nhot dog\tsausage\t\nhot rod\tcar\t\nzebra\thorse\t\n")
    return path


def test_the_first_lexicon_wins_and_entries_in_vain_are_named(ours, folder, glossary, caplog):
    output = ours("tables", folder, "--lexicon-path", glossary, *MINI)
    assert output.endswith("forms; 3 with relations, 2 with a definition\n")
    said = [record.getMessage() for record in caplog.records]
    several = "2 of 4 entries are several words, which no text has as one: 'hot dog' (line 2), 'hot rod' (line 3)"
    assert f"{glossary}: {several}" in said
    assert f"{glossary}: 1 of 4 entries are of words that dict.txt lacks: 'zebra' (line 4)" in said
    lacking = r"mini.tsv: 10 of 12 entries are of words .*'puppy' \(line 6\), 'bank' \(line 7\), \.\.\.$"
    assert re.search(lacking, "\n".join(said), re.MULTILINE)


@pytest.mark.parametrize("option, name", [("--max-relations", "max_relations"), ("--max-definition", "max_definition")])
def test_negative_limits_are_refused(ours, folder, option, name):
    preprocess = ["preprocess", "--train", folder / "dict.txt", "--dest", folder / "data"]
    for command in (["tables", folder], ["explain", "cat"], preprocess):
        assert ours(*command, *MINI, option, "-1", code=1).startswith(f"error: {option} -1: expected a whole number, 0 or more. ")
    ours("tables", folder, *MINI, option, "0")


def test_explain_asks_several_lexicons(ours, glossary):
    output = ours("explain", "nasa", "cat", "gnu", "--lexicon-path", glossary, *MINI)
    assert "relation     agency  (glossary.tsv:1)" in output and "relation     feline  (mini.tsv:1)" in output
    assert "nothing of the lexicon (glossary.tsv, then mini.tsv)" in output


def test_explain_shows_letters_and_escapes_what_a_terminal_obeys(ours, tmp_path):
    lexicon = tmp_path / "odd.jsonl"
    lexicon.write_text(json.dumps({"word": "naïve", "relations": ["\x1b[2Jred", "\u202elrt"], "definition": ""}))
    shown = ours("explain", "naïve", "\x1b[0mx", "שלום", "d\udcffg", "a b", "--lexicon-path", lexicon)
    assert "\n  characters   ^ n a ï v e $\n" in shown and "\n  characters   ^ ש ל ו ם $\n" in shown
    assert "\n  characters   ^ d <ff> g $\n" in shown and "\n  characters   ^ a <U+0020> b $\n" in shown
    assert "\n  relation     <U+001B>[2Jred  (odd.jsonl:1)\n  relation     <U+202E>lrt  " in shown
    assert not set("\x1b\u202e\udcff") & set(shown) and "\n<U+001B>[0mx\n" in shown


def commands_of(data, model, tmp_path):
    """Return the commands that load a checkpoint."""
    where, short = ["--path", model, "--data", data], ["--weights", "0.1", "--thetas", "0.5", "--sizes", "20", "--no-store"]
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n")
    return {
        "evaluate": ["evaluate", *where, "--split", "valid"],
        "tune": ["tune", *where, *short],
        "score": ["score", text, *where],
        "remember": ["remember", tmp_path / "remembered", *where, "--split", "valid"],
        "frequency-bins": ["frequency-bins", *where, "--split", "valid", "--baselines", f"same={model}"],
        "export": ["export", tmp_path / "words.txt", *where],
        "nearest": ["nearest", "cat", *where],
    }


def test_a_glossary_that_was_edited(ours, corpus, models, tmp_path, caplog):
    data, glossary, model = tmp_path / "data", tmp_path / "edited.tsv", models["compositional_output"]
    shutil.copytree(corpus / "data", data)
    mini = Path("tests/fixtures/mini.tsv").read_text(encoding="utf-8")
    glossary.write_text(f"{mini}zebra\thorse\ta striped horse\n", encoding="utf-8")
    ours("tables", data, "--lexicon-path", glossary)
    for command in commands_of(data, model, tmp_path).values():
        caplog.clear()
        ours(*command)
        assert "which has the same on all words of training" in caplog.text
    shutil.rmtree(tmp_path / "remembered")
    glossary.write_text(mini.replace("a small domesticated animal with fur", "a pet"), encoding="utf-8")
    ours("tables", data, "--lexicon-path", glossary)
    for name, command in commands_of(data, model, tmp_path).items():
        caplog.clear()
        error = ours(*command, code=1).splitlines()[-1]
        assert "come from another lexicon" not in caplog.text  # it is said once
        assert error.startswith("error: the lexicon tables come from another lexicon (file-") and str(glossary) in error, name
        assert error.endswith("or, if that is meant, give --any-lexicon.")
        ours(*command, "--any-lexicon")


def test_tables_remember_where_the_lexicon_is(ours, corpus, models, tmp_path):
    """New words are looked up there, as long as it is what it was."""
    data, glossary, model = tmp_path / "data", tmp_path / "mine.tsv", models["compositional_output"]
    shutil.copytree(corpus / "data", data)
    shutil.copy("tests/fixtures/mini.tsv", glossary)
    ours("tables", data, "--lexicon-path", glossary, "--max-relations", "2")
    words = (data / "dict.txt").read_text(encoding="utf-8").split()[::2]
    origin = load_tables(data, ["<s>", "<pad>", "</s>", "<unk>", *words]).origin
    assert origin.limits == (2, 10) and origin.sources == (str(glossary),)
    nearest = ["nearest", "hound", "--path", model, "--data", data, "--any-lexicon"]
    found = ours(*nearest)
    assert found == ours(*nearest, "--lexicon-path", glossary)
    with glossary.open("a") as file:
        file.write("gnu\t\ta beast\n")
    changed = ours(*nearest, code=1)
    assert re.search(
        rf"come from a lexicon \(file-.*: {glossary}\) that is needed again: what is there is file-.* Give --lexicon", changed
    )
    glossary.unlink()
    assert f"{glossary}: no such file or folder" in ours(*nearest, code=1)
