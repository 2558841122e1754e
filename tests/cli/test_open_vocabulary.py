"""score over a vocabulary that grows or is limited: what users type and what is printed."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import ROOT, tokens_of

from fairseq_groc.cli import score
from fairseq_groc.data.word_list import listed_dictionary
from fairseq_groc.dictionary import load_dictionary
from fairseq_groc.errors import DataError
from fairseq_groc.evaluation.loading import load
from fairseq_groc.lexicon import FileLexicon

SCORE = ["python", "-m", "fairseq_groc", "score"]
LEXICON = ["--lexicon-path", Path(__file__).parents[1] / "fixtures" / "mini.tsv"]


def rows_of(output):
    """Return (log-probability, tokens) line by line."""
    found = re.findall(r"^(-\d\S*|-inf|0.0000)\t(\d+)\t", output, re.MULTILINE)
    return [(float(score), int(tokens)) for score, tokens in found]


@pytest.fixture
def where(corpus, models):
    """What says which model, over the vocabulary of the training text alone."""
    return ["--path", models["compositional_output"], "--data", corpus / "data"]


def test_a_text_with_new_words_is_scored_and_reported(commands, corpus, models, where):
    output = commands.ok(*SCORE, corpus / "other.txt", "--open-vocabulary", *where, *LEXICON)
    rows, total = rows_of(output), tokens_of(corpus / "other.txt")
    assert sum(tokens for _, tokens in rows) == total and all(math.isfinite(score) for score, _ in rows)
    tokens, new, perplexity = re.findall(r"([\d,]+) tokens, (\d+) new words met; perplexity ([\d.,]+)", output)[0]
    words = set((corpus / "other.txt").read_text(encoding="utf-8").split())
    known = set((corpus / "train.txt").read_text(encoding="utf-8").split())
    assert int(tokens.replace(",", "")) == total and int(new) == len(words - known) == 4
    expected = math.exp(-sum(score for score, _ in rows) / total)
    assert float(perplexity.replace(",", "")) == pytest.approx(expected, rel=1e-3)
    assert re.search(r"[\d.]+ bits per character; [\d.]+% of the bits for first occurrences", output)
    adapted = ["--local-weight", "0.2", "--uniform-weight", "0.1", "--running", "--new-word-mass", "0.01"]
    output = commands.ok(*SCORE, corpus / "other.txt", "--open-vocabulary", *where, *LEXICON, *adapted)
    assert len(rows_of(output)) == len(rows) and rows_of(output) != rows and "carries no state" not in output
    tied = ["--path", models["tied"], "--data", corpus / "data"]
    output = commands.ok(*SCORE, corpus / "other.txt", "--open-vocabulary", *tied)
    assert "tokens have probability 0: the model has no row for a word that is met again" in output


def test_lines_are_answered_as_they_come(where):
    """The standard input stays open while the answers are read."""
    command = [str(part) for part in [sys.executable, *SCORE[1:], "-", "--open-vocabulary", *where, *LEXICON]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        answers = []
        for line in ("the cat sat", "the gnu sat", "the gnu sat"):
            print(line, file=process.stdin, flush=True)
            answers.append(process.stdout.readline().rstrip("\n").split("\t"))
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0 and answers[0][1:] == ["4", "the cat sat"]
    first, again = float(answers[1][0]), float(answers[2][0])
    assert first < again - 5  # a spelling of three letters is paid for once


def test_a_terminal_is_shown_nothing_to_obey(capsys, monkeypatch):
    line = "the \x1b[31mcat\t\u202etac"
    for terminal, shown in ((False, line), (True, "the <U+001B>[31mcat\t<U+202E>tac")):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        score.write_score(-1.5, 3, line)
        assert capsys.readouterr().out == f"-1.5000\t3\t{shown}\n"


def test_raw_lines_over_a_list_of_words(commands, corpus, models, tmp_path):
    """A visitor's way: a word list and a text as it was written, to one figure."""
    raw, listed, data = tmp_path / "my texts" / "raw.txt", tmp_path / "words.txt", tmp_path / "data"
    raw.parent.mkdir()
    raw.write_text("The cat sat.\n\n'Sat, the hound!'\n")
    listed.write_text("the\ncat\n\nsat\nhound\nthe\n.\n")
    made = ["scripts/preprocess.sh", "--vocabulary", listed, "--known", corpus / "data", "--test", raw, "--dest", data, *LEXICON]
    assert "67% of the lines end in a word with a mark, as in 'end.'. If words have none, give --tokenize LANG" in commands.ok(
        *made
    )
    assert "end in a word" not in commands.ok(*made, "--tokenize", "en", "--lower")
    assert load_dictionary(data / "dict.txt").symbols[4:] == ["the", "cat", "sat", "hound", "."]
    where = ["--path", models["compositional_output"], "--data", data]
    careless = commands.ok(*SCORE, raw, *where)
    assert "end in a word with a mark" in careless
    assert f"raw.txt: {data} was made with --tokenize en --lower, this text is read without. Give" in careless
    assert commands.fails(*SCORE, tmp_path / "none.txt", *where).splitlines() == [f"error: {tmp_path / 'none.txt'}: no such file"]
    union = ["scripts/preprocess.sh", "--vocabulary-from", data, "--test", raw, "--dest", tmp_path / "union", *LEXICON]
    assert f"raw.txt: {data} was made with --lower, this text" in commands.ok(*union, "--tokenize", "en")
    output = commands.ok(*SCORE, raw, *where, "--tokenize", "en", "--lower")
    rows = rows_of(output)
    assert [tokens for _, tokens in rows] == [5, 1, 7] and "\t'Sat, the hound!'\n" in output and "was made with" not in output
    expected = math.exp(-sum(score for score, _ in rows) / 13)
    assert f"3 lines, 13 tokens with their ends; perplexity {expected:.1f}" in output
    evaluated = commands.ok("python", "-m", "fairseq_groc", "evaluate", *where, "--sample-break-mode", "eos")
    assert re.search(rf"\b{expected:.1f}", evaluated)
    listed.write_text("The\nCAT\nsat\n")  # as it was written, too
    assert listed_dictionary(listed, lower=True).symbols[4:] == ["the", "cat", "sat"]
    known = ["--path", models["compositional_output"], "--data", corpus / "data"]
    careless = commands.ok(*SCORE, raw, *known, "--limit-vocabulary", listed, "--tokenize", "en", "--lower")
    assert "limited to 3 words" in careless and "0 of them new" in careless
    union = f"--vocabulary-from {corpus / 'data'} --test '{raw}' --tokenize en --lower --dest DIR"
    assert f"Give --open-vocabulary, or add them: scripts/preprocess.sh {union}, then --data DIR" in careless


@pytest.mark.parametrize(
    "content, message",
    [
        ("the\nnew york\n", "words.txt: 'new york' is no word (word 2 of the list): expected one a line"),
        ("the 3\ncat\n", "words.txt: Incorrect dictionary format"),
        ("the\n<pad>\n", "words.txt:2: contains <pad>, which fairseq reserves"),
        ("The\n<PAD>\n", "words.txt:2: contains <pad>, which fairseq reserves"),
        ("\n\n<unk>\n", "words.txt: no words: expected one a line"),
    ],
)
def test_a_list_that_has_something_else(tmp_path, content, message):
    (tmp_path / "words.txt").write_text(content)
    with pytest.raises(DataError, match=re.escape(message)):
        listed_dictionary(tmp_path / "words.txt", lower="<PAD>" in content)


def test_a_limit_is_a_renormalised_vocabulary(commands, corpus, where, tmp_path):
    text, limit = tmp_path / "text.txt", tmp_path / "limit.txt"
    text.write_text("the cat sat\nthe dog sat\nthe hound\n")
    limit.write_text("the 12\ncat 3\nsat 1\nhound 1\nmadeupword0000 0\n")  # a dict.txt, with a word that DATA lacks
    output = commands.ok(*SCORE, text, "--limit-vocabulary", limit, *where, *LEXICON)
    limited, whole = rows_of(output), rows_of(commands.ok(*SCORE, text, *where))
    assert "vocabulary limited to 4 words" in output and "1 of them new" in output
    assert limited[0][0] > whole[0][0] and limited[1][0] == -math.inf and math.isfinite(limited[2][0])
    assert "1 of 3 lines have words beyond --limit-vocabulary" in output
    hub = load(where[1], str(where[3]))
    model = hub.models[0]
    model.add_words(["hound"], FileLexicon(LEXICON[1]))
    model.limit_vocabulary(["the", "cat", "sat", "hound"])
    figures = [hub.score(line)["positional_scores"].sum().item() for line in ("the cat sat", "the hound")]
    assert figures == pytest.approx([limited[0][0], limited[2][0]], abs=1e-3)
    assert set(hub.sample("the", beam=2, max_len_b=6).split()) <= {"the", "cat", "sat", "hound", "<unk>"}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--new-word-mass", "0.1"], "--new-word-mass concerns words that are met: give --open-vocabulary"),
        (["--open-vocabulary", "--new-word-mass", "2"], "--new-word-mass 2: expected adaptive, unk or a number between 0 and 1"),
        (["--lexicon-path", "none"], "--lexicon-path concerns new words"),
        (["--open-vocabulary", "--lexicon-path", "none", "--new-word-mass", "unk"], "text.txt:2: <unk> is a word of the text"),
        (["--limit-vocabulary", "nowhere.txt"], "nowhere.txt: no such file"),
    ],
)
def test_bad_input_is_one_line(ours, where, tmp_path, options, message):
    text = tmp_path / "text.txt"
    text.write_text("the cat\nthe <unk>\n")
    output = ours("score", text, *where, *options, code=1)
    assert message in output and "Traceback" not in output
