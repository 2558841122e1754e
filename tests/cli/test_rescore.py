"""rescore: what users type, and what is printed and written."""

import random
import re

import pytest
from test_open_vocabulary import LEXICON, rows_of


@pytest.fixture(scope="module")
def lists(tmp_path_factory, corpus):
    """A folder with an n-best list by name and by number, and what was said."""
    folder, rng = tmp_path_factory.mktemp("lists"), random.Random(3)
    said = [line for line in (corpus / "valid.txt").read_text(encoding="utf-8").splitlines() if len(line.split()) > 2][:12]
    rows = []
    for number, line in enumerate(said):
        for wrong in range(4):
            words = line.split()
            for place in rng.sample(range(len(words)), min(wrong, len(words))):
                words[place] = rng.choice(["cat", "the", "hound", "sat"])
            rows.append(f"u{number}\t{-wrong + rng.gauss(0, 1.5):.3f}\t{' '.join(words)}")
    (folder / "nbest.tsv").write_text("\n".join(["id\tacoustic\ttext", *rows]) + "\n", encoding="utf-8")
    (folder / "plain.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "said.tsv").write_text("".join(f"u{i}\t{line}\n" for i, line in enumerate(said)), encoding="utf-8")
    return folder


@pytest.fixture
def where(corpus, models):
    return ["--path", models["compositional_output"], "--data", corpus / "union"]


def test_the_scores_are_those_of_score(ours, lists, where, tmp_path):
    expected = rows_of(ours("score", lists / "plain.tsv", "--field", "3", *where))
    ours("rescore", lists / "nbest.tsv", "--scores", tmp_path / "named", *where)
    numbers = ["--id-field", "1", "--text-field", "3", "--score-fields", "2"]
    ours("rescore", lists / "plain.tsv", "--scores", tmp_path / "numbered", "--out", tmp_path / "best", *numbers, *where)
    raw = lists / "raw.tsv"
    raw.write_text((lists / "nbest.tsv").read_text().replace("\tthe ", "\tThe "))
    assert "\tThe " in raw.read_text()
    ours("rescore", raw, "--scores", tmp_path / "raw", "--lower", *where)
    assert "\tThe " in (tmp_path / "raw").read_text()
    for name in ("named", "numbered", "raw"):
        found = rows_of((tmp_path / name).read_text())
        assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
        assert [score for score, _ in found] == pytest.approx([score for score, _ in expected], abs=2e-4)
    totals = {}
    for line in (tmp_path / "numbered").read_text().splitlines():
        score, _, name, acoustic, text = line.split("\t")
        totals.setdefault(name, []).append((float(score) + float(acoustic), text))
    best = dict(line.split("\t") for line in (tmp_path / "best").read_text().splitlines())
    assert best == {name: max(hypotheses)[1] for name, hypotheses in totals.items()}


def test_weights_are_tuned_and_can_be_given(ours, lists, where, tmp_path):
    pytest.importorskip("jiwer")
    output = ours("rescore", lists / "nbest.tsv", "--tune", lists / "said.tsv", "--out", tmp_path / "best", *where)
    rates = {name: float(rate) for name, rate in re.findall(r"^(\S+(?: there is)?) +([\d.]+)%", output, re.MULTILINE)}
    assert rates.keys() == {"lm", "acoustic", "mixture", "best there is"} and rates["best there is"] == 0
    assert rates["mixture"] <= min(rates["lm"], rates["acoustic"]) and rates["lm"] > 0
    assert re.search(r"^utterances +6 +6$", output, re.MULTILINE)
    weights = re.findall(r"--weights (\S+)", output)[0]
    ours("rescore", lists / "nbest.tsv", "--weights", weights, "--out", tmp_path / "again", *where)
    assert (tmp_path / "again").read_text() == (tmp_path / "best").read_text()
    (tmp_path / "ids").write_text("u1\nu2\n\n")
    output = ours("rescore", lists / "nbest.tsv", "--tune", lists / "said.tsv", "--tune-ids", tmp_path / "ids", *where)
    assert re.search(r"^utterances +2 +10$", output, re.MULTILINE)


def test_words_are_added_or_named(ours, lists, corpus, models, tmp_path, caplog):
    data = ["--path", models["compositional_output"], "--data", corpus / "data"]
    plain = ["rescore", lists / "nbest.tsv", *data, "--scores", tmp_path / "scores"]
    ours(*plain)
    assert "'hound' is not in the vocabulary" in caplog.text
    caplog.clear()
    before = (tmp_path / "scores").read_text()
    ours(*plain, "--add-words", *LEXICON)
    assert "hound" not in caplog.text and (tmp_path / "scores").read_text() != before


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "nothing to do: give --out FILE"),
        (["--out", "best", "--weights", "lm=1", "--tune", "said"], "--weights are what --tune finds"),
        (["--out", "best", "--tune-ids", "ids"], "--tune-ids says which utterances --tune uses"),
        (["--out", "best", "--lexicon-path", "none"], "--lexicon-path concerns new words: give --add-words"),
        (["--out", "nowhere/best"], "there is no folder"),
        (["--out", "best", "--weights", "am=1"], "--weights 'am=1': expected NAME=NUMBER, with a name of lm, acoustic, words"),
        (["--out", "best", "--text-field", "txt"], "no column 'txt'"),
        (["--out", "mine"], "--out mine exists and is no earlier result"),
        (["--scores", "mine"], "--scores mine exists and is no earlier result"),
        (["--out", "best", "--scores", "./best"], "--out and --scores best are one file: give two names"),
        (["--out", "said", "--tune", "said"], "--out said exists and is no earlier result"),
    ],
)
def test_bad_input_is_one_line(ours, lists, where, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("a text\n")
    (tmp_path / "said").write_text("u0\ta text\n")
    output = ours("rescore", lists / "nbest.tsv", *where, *options, code=1)
    assert message in output and output.count("\n") == 1


def test_ids_to_tune_on_must_be_known(ours, lists, where, tmp_path):
    pytest.importorskip("jiwer")
    (tmp_path / "ids").write_text("u1\nu99\n")
    output = ours("rescore", lists / "nbest.tsv", "--tune", lists / "said.tsv", "--tune-ids", tmp_path / "ids", *where, code=1)
    assert "'u99' has no reference or is not in the list" in output
