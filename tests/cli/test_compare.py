"""What lines lose, and models compared by it: ``evaluate --losses`` and ``compare``."""

import json
import math

import pytest
from test_bad_checkpoints import one_line

from fairseq_groc.evaluation.line_losses import COLUMNS


@pytest.fixture(scope="module")
def losses(commands, corpus, models, tmp_path_factory):
    """Files by head, of the other text in the union vocabulary."""
    folder = tmp_path_factory.mktemp("losses")
    for head, weight in (("compositional_output", "0"), ("tied", "0.05"), ("lookup", "0.05")):
        where = ["--path", models[head], "--data", corpus / "union", "--uniform-weight", weight]
        commands.ok("python", "-m", "fairseq_groc", "evaluate", *where, "--losses", folder / f"{head}.tsv")
    return {path.stem: path for path in folder.iterdir()}


def rows(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_lines_lose_what_the_text_loses_and_have_its_words(ours, corpus, models, losses, tmp_path):
    where = ["--path", models["tied"], "--data", corpus / "union", "--uniform-weight", "0.05", "--out", tmp_path / "r.json"]
    ours("evaluate", *where)
    report = json.loads((tmp_path / "r.json").read_text())
    head, *lines = rows(losses["tied"])
    assert head == list(COLUMNS) == "line all_tokens all_nats known_tokens known_nats new_tokens new_nats words".split()
    assert [line[-1].split() for line in lines] == [line.split() for line in open(corpus / "other.txt")]
    assert [int(line[0]) for line in lines] == [*range(1, len(lines) + 1)]
    assert [int(line[1]) for line in lines] == [len(line[-1].split()) + 1 for line in lines]
    for number, part in ((1, "all"), (3, "known"), (5, "new")):
        tokens, nats = (math.fsum(float(line[place]) for line in lines) for place in (number, number + 1))
        assert tokens == report[part]["tokens"] > 0
        assert math.exp(nats / tokens) == pytest.approx(report[part]["perplexity"], rel=1e-9)


def test_lines_lose_what_score_says_of_them(ours, corpus, models, tmp_path):
    where = ["--path", models["compositional_output"], "--data", corpus / "union"]
    ours("evaluate", *where, "--sample-break-mode", "eos", "--streams", "3", "--losses", tmp_path / "l.tsv")
    scored = [line.split("\t") for line in ours("score", corpus / "other.txt", *where).splitlines()]
    for line, (score, tokens, _) in zip(rows(tmp_path / "l.tsv")[1:], scored, strict=True):
        assert line[1] == tokens and float(line[2]) == pytest.approx(-float(score), abs=1e-3)


def test_what_is_impossible_is_infinite_and_not_compared(ours, corpus, models, losses, tmp_path):
    ours("evaluate", "--path", models["tied"], "--data", corpus / "union", "--losses", tmp_path / "l.tsv")
    infinite = [line for line in rows(tmp_path / "l.tsv") if line[2] == "inf"]
    assert infinite and all(line[4] != "inf" and line[6] == "inf" for line in infinite)
    error = one_line(ours, "compare", tmp_path / "l.tsv", losses["tied"])
    assert f"l.tsv: {len(infinite)} lines are impossible (inf)" in error and "--uniform-weight" in error


def test_two_models_are_compared(commands, losses, tmp_path):
    compare = ["python", "-m", "fairseq_groc", "compare"]
    out = ["--resamples", "500", "--out", tmp_path / "c.json"]
    printed = commands.ok(*compare, losses["compositional_output"], losses["tied"], *out)
    found = json.loads((tmp_path / "c.json").read_text())
    for part, name in (("all", "overall"), ("known", "known words"), ("new", "new words")):
        of = found[part]
        assert of["ratio"] == pytest.approx(of["a"]["mean"] / of["b"]["mean"]) and of["low"] < of["ratio"] < of["high"]
        line = next(line for line in printed.splitlines() if line.startswith(f"{name} "))
        assert f"{of['ratio']:.4f}" in line and f"{of['a']['mean']:,.2f}" in line
    assert found["all"]["tokens"] == found["known"]["tokens"] + found["new"]["tokens"] and found["unit"] == "nats"
    again = commands.ok(*compare, losses["compositional_output"], "--against", losses["tied"], *out)
    assert again == printed and json.loads((tmp_path / "c.json").read_text()) == found  # a seed draws the same lines
    assert commands.ok(*compare, losses["compositional_output"], losses["tied"], *out, "--seed", "2") != printed


def test_seeds_have_their_mean_and_spread(ours, losses, tmp_path):
    files = ["compare", losses["compositional_output"], "--against", losses["tied"], losses["lookup"]]
    printed = ours(*files, "--resamples", "500", "--out", tmp_path / "c.json")
    found = json.loads((tmp_path / "c.json").read_text())["all"]
    one, two = found["b"]["perplexities"]
    assert found["b"]["mean"] == pytest.approx((one + two) / 2) and found["a"]["deviation"] is None
    assert found["b"]["deviation"] == pytest.approx(abs(one - two) / math.sqrt(2))
    assert f"{found['b']['mean']:,.2f} ± {found['b']['deviation']:.2f} (n = 2)" in printed
    assert found["ratio"] == pytest.approx(found["a"]["mean"] / math.sqrt(one * two))  # of the means of the losses


def edited(path, out, line, column, value):
    lines = rows(path)
    lines[line][column] = value
    out.write_text("".join("\t".join(line) + "\n" for line in lines))
    return out


def test_files_that_disagree_on_what_is_new_are_compared_as_a_whole(ours, losses, tmp_path):
    number = next(i for i, line in enumerate(rows(losses["tied"])) if i and line[5] != "0")
    other = edited(edited(losses["tied"], tmp_path / "o.tsv", number, 5, "0"), tmp_path / "o.tsv", number, 6, "0.0")
    printed = ours("compare", losses["tied"], other, "--resamples", "100")
    assert "overall" in printed and "known words" in printed.splitlines()[2] and not printed.splitlines()[3].startswith("new")
    assert "not compared: new words: the files do not agree" in printed


def test_bad_files_are_one_line(ours, losses, tmp_path):
    good, other = losses["tied"], tmp_path / "o.tsv"
    number = next(i for i, line in enumerate(rows(good)) if i and line[-1])
    for column, value, message in [
        (0, "99", f"o.tsv:{number + 1}: the line's number is '99', expected {number}"),
        (1, "1.5", "all_tokens is '1.5', expected a whole number"),
        (1, "77", "77 tokens"),
        (2, "x", "all_nats is 'x', expected 0 or more, or inf"),
        (2, "nan", "all_nats is 'nan', expected 0 or more, or inf"),
        (2, "0", "known and new words have lost"),
        (1, "0", "0 tokens"),
        (4, "-3", "known_nats is '-3', expected 0 or more, or inf"),
        (7, "the the the the", "tokens"),
        (7, "a\tb", "9 columns, expected 8"),
    ]:
        error = one_line(ours, "compare", good, edited(good, other, number, column, value))
        assert message in error and "o.tsv" in error, error
    nothing = edited(good, other, number, 3, "0")
    assert "known_tokens is 0 and known_nats is above" in one_line(ours, "compare", good, nothing)
    words = " ".join("zzz" for _ in rows(good)[number][-1].split())
    assert f"line {number} is '{words}'" in one_line(ours, "compare", good, edited(good, other, number, 7, words))
    text = good.read_text()
    for content, message in [
        ("", "the first line is ''"),
        (text[:-1], "is cut in the last one"),
        (text.split("\n")[0] + "\n", "has no lines"),
        ("\n".join(text.split("\n")[:2]) + "\n", "has 1 lines"),
        (text.replace("\n", "\r\n"), "the first line is"),
    ]:
        other.write_text(content, newline="")
        assert message in one_line(ours, "compare", good, other)
    other.write_text("\n".join(text.split("\n")[:2]) + "\n")
    assert "a text of one line: expected 2 or more" in one_line(ours, "compare", other, other)


def test_bad_options_are_one_line(ours, losses, tmp_path):
    a, b, c = losses.values()
    for arguments, message in [
        ([a, tmp_path / "absent.tsv"], "absent.tsv: no such file"),
        ([a], "1 files: expected those of A and of B"),
        ([a, b, c], "3 files: expected those of A and of B, or A's files and --against B's files"),
        ([a, a, "--against", b], "is given twice for one model"),
        ([a, b, "--confidence", "1"], "--confidence 1: expected a number between 0 and 1"),
        ([a, b, "--resamples", "9"], "--resamples 9: expected a whole number, 100 or more"),
        ([a, b, "--out", tmp_path / "c.txt"], "expected a name that ends in .json"),
    ]:
        assert message in one_line(ours, "compare", *arguments)
