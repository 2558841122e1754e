"""Bits per character of text in pieces are over the raw text; <unk> is neither a known word nor a new one."""

import json
import math
import shutil

import pytest
from cli_helpers import ROOT
from test_bad_checkpoints import one_line

RAW = ["the cat sat", "", "the cats naïvely sat"]
PIECES = {
    "sentencepiece": ["▁the ▁cat ▁sat", "", "▁the ▁cat s ▁na ïve ly ▁sat"],
    "@@ ": ["the cat sat", "", "the cat@@ s na@@ ïve@@ ly sat"],
}
CHARACTERS = sum(len(line) + 1 for line in RAW)
BYTES = sum(len(line.encode()) + 1 for line in RAW)


@pytest.fixture
def pieces(commands, models, tmp_path):
    """Return a function from lines to a folder with them as its test text."""

    def build(lines, train=None):
        texts = {"test": lines, "train": train or lines}
        for name, text in texts.items():
            (tmp_path / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
        data = tmp_path / "data"
        shutil.rmtree(data, ignore_errors=True)
        given = ["--train", tmp_path / "train.txt", "--test", tmp_path / "test.txt", "--lexicon-path", "none"]
        commands.ok(ROOT / "scripts" / "preprocess.sh", *given, "--dest", data)
        return data

    return build


@pytest.fixture
def evaluated(ours, models, tmp_path):
    """Return a function that evaluates a folder's test text, and returns the report and what is printed, or the error."""

    def run(data, *options, code=0):
        command = ["evaluate", "--path", models["lookup"], "--data", data, "--uniform-weight", "0.5"]
        printed = ours(*command, "--out", tmp_path / "r.json", *options, code=code)
        return (json.loads((tmp_path / "r.json").read_text()), printed) if code == 0 else printed

    return run


@pytest.mark.parametrize("marks", PIECES)
def test_bits_are_over_the_characters_of_the_raw_text(pieces, evaluated, tmp_path, marks):
    data, raw = pieces(PIECES[marks]), tmp_path / "raw.txt"
    raw.write_text("\n".join(RAW) + "\n", encoding="utf-8")
    for options in (["--remove-bpe", marks], ["--raw", raw]):
        report, printed = evaluated(data, *options)
        tokens = sum(len(line.split()) + 1 for line in PIECES[marks])
        bits = tokens * math.log2(report["all"]["perplexity"])
        assert (report["characters"], report["bytes"]) == (CHARACTERS, BYTES) == (34, 35)
        assert report["bits_per_character"] == pytest.approx(bits / 34) and report["bits_per_byte"] == pytest.approx(bits / 35)
        assert f"bits per character {bits / 34:.4f}, per byte {bits / 35:.4f}" in printed
    report, printed = evaluated(data)
    assert report["bits_per_character"] is report["bits_per_byte"] is None and "bits per character: " in printed
    assert f"give --remove-bpe '{marks}', or --raw FILE" in printed and "per byte" not in printed


def test_workers_count_the_characters_once(pieces, evaluated):
    several, _ = evaluated(pieces(PIECES["@@ "]), "--remove-bpe", "@@ ", "--streams", "4", "--workers", "2")
    assert several["characters"] == CHARACTERS


def test_the_bits_are_known_by_arithmetic(pieces, evaluated, monkeypatch):
    """Every token has probability 1/32, 5 bits: 13 tokens are 65 bits over 34 characters."""
    from fairseq_groc.evaluation import scoring

    data = pieces(PIECES["sentencepiece"])
    score = scoring.score

    def certain(*args, **options):
        found = score(*args, **options)
        for column in (found.adapted, found.own):
            column.fill_(-5 * math.log(2))
        return found

    monkeypatch.setattr("fairseq_groc.cli.evaluate.score", certain)
    report, printed = evaluated(data, "--remove-bpe", "sentencepiece")
    assert report["tokens_scored"] == 13 and report["bits_per_character"] == pytest.approx(65 / 34)
    assert f"bits per character {65 / 34:.4f}, per byte {65 / 35:.4f}" in printed


def test_what_does_not_fit_the_pieces_is_refused(pieces, evaluated, tmp_path):
    data, short = pieces(PIECES["sentencepiece"]), tmp_path / "short.txt"
    short.write_text("the cat sat\n")
    other = tmp_path / "other.txt"
    other.write_text("another text\n" * 3)
    for options, message in [
        (["--remove-bpe", "@@ "], "'@@ ': the vocabulary has no pieces marked so; the vocabulary has pieces of words, as '▁the'"),
        (["--raw", short], f"--raw {short}: 1 lines, and the text of 'test' has 3"),
        (["--raw", other], f"--raw {other}: 33 characters besides blanks, and the pieces have "),
        (["--raw", tmp_path / "none.txt"], "none.txt: no such file"),
        (["--raw", short, "--remove-bpe", "sentencepiece"], "not allowed with argument"),
        (["--remove-bpe", "@@"], "invalid choice: '@@'"),
    ]:
        errors = [line for line in evaluated(data, *options, code=1).splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and message in errors[0], errors
    words = pieces(RAW)
    error = evaluated(words, "--remove-bpe", "sentencepiece", code=1)
    assert "--remove-bpe 'sentencepiece': the vocabulary has no pieces marked so" in error
    report, _ = evaluated(words)
    assert (report["characters"], report["bytes"]) == (34, 35)
    data = pieces(["▁the <0xE2> <0x96> ▁cat"])
    assert "pieces of bytes" in evaluated(data, "--remove-bpe", "sentencepiece", code=1)
    data = pieces(["▁the <0xE2> <0x96> ▁cat", "▁the ▁cat"])
    short.write_text("the\N{BLACK SQUARE} cat <s>\nthe cat\n")
    assert evaluated(data, "--raw", short)[0]["characters"] == 21  # bytes are not compared, and symbols are letters there
    short.write_text("the\N{BLACK SQUARE} cat\nthe cat and much else\n")
    assert "17 characters besides blanks, and the pieces have 6:" in evaluated(data, "--raw", short, code=1)
    data = pieces(["the <unk> sat", "the cat"])
    short.write_text("the extraordinarily unlikely sat\nthe cat\n")
    assert evaluated(data, "--raw", short)[0]["characters"] == 41  # letters that are not known are not compared
    data = pieces(["the cat ##s", "##s the"])
    assert "give --raw FILE" in evaluated(data)[1] and evaluated(data, "--remove-bpe", "none")[0]["characters"] == 20


def test_an_open_vocabulary_of_pieces_has_no_bits_per_character(pieces, ours, models, tmp_path, caplog):
    for lines, given in ((RAW, True), (PIECES["@@ "], False)):
        command = ["score", tmp_path / "test.txt", "--open-vocabulary", "--data", pieces(lines), "--path", models["lookup"]]
        caplog.clear()
        caplog.set_level("INFO")
        ours(*command, "--uniform-weight", "0.5")
        (told,) = [record.message for record in caplog.records if "new words met" in record.message]
        assert "perplexity " in told and ("bits per character" in told) == given


def test_unk_has_a_row_of_its_own(pieces, evaluated):
    """Whether the training text has it or not."""
    for train in (["the cat <unk> sat"], ["the cat sat"]):
        report, printed = evaluated(pieces(["the <unk> cat <unk>", "<unk>"], train))
        assert [report[part]["tokens"] for part in ("all", "known", "new", "unk")] == [7, 4, 0, 3]
        assert report["unk"]["share"] == 3 / 7 and any(line.startswith("<unk> ") for line in printed.splitlines())
    report, printed = evaluated(pieces(RAW))
    assert report["unk"]["tokens"] == 0 and "<unk>" not in printed


def test_bins_have_unk_apart_and_count_another_folder_s_text(ours, corpus, models, tmp_path):
    data, out = tmp_path / "union", tmp_path / "bins.json"
    shutil.copytree(corpus / "union", data)
    command = ["frequency-bins", "--path", models["compositional_output"], "--data", data, "--split", "valid", "--out", out]
    command[command.index("valid")] = "test1"
    command += ["--baselines", f"same={models['compositional_output']}"]
    assert "train.bin not found: the training text says how frequent a word is: give --train FOLDER" in one_line(ours, *command)
    ours(*command, "--train", corpus / "data")
    found = json.loads(out.read_text())
    words = (corpus / "train.txt").read_text().split()
    valid = [*(corpus / "valid.txt").read_text().split(), *["</s>"] * len((corpus / "valid.txt").read_text().splitlines())]
    counts = {word: words.count(word) for word in set(valid)} | {"</s>": len((corpus / "train.txt").read_text().splitlines())}
    for row in found["bins"]["same"]:
        inside = [w for w in valid if row["least"] < counts[w] <= (row["most"] if row["most"] is not None else 10**9)]
        assert row["tokens"] == len(inside) and row["words"] == len(set(inside))
    assert found["tokens"] == len(valid) and found["train"] == str(corpus / "data")
    wrong = tmp_path / "nowhere"
    assert f"{wrong}/train.bin not found" in one_line(ours, *command, "--train", wrong)
