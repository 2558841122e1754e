"""``preprocess`` with contexts: arrays beside the texts, and tables that do not fit refused with nothing written."""

import numpy as np
import pytest
from cli_helpers import PLUGIN, TRAINING, WORDS, small, write
from fairseq.data import Dictionary

from fairseq_groc.contexts.arrays import open_contexts
from fairseq_groc.contexts.schema import Schema
from fairseq_groc.data.stream_dataset import StreamDataset, open_text

TOPICS = ["sports", "business", "world"]
KINDS = ["--context-numeric", "year", "--context-cyclic", "hour:24"]


CELLS = {
    "topic": lambda line: TOPICS[line % 7 % 3],
    "year": lambda line: str(1990 + line) if line % 4 else "",
    "hour": lambda line: str(line % 24),
}
COLUMNS = {"train": ("topic", "year", "hour"), "valid": ("hour", "topic", "year"), "other": ("year", "topic", "hour")}
LINES = {"train": 30, "valid": 12, "other": 8}


@pytest.fixture
def texts(tmp_path):
    """A folder with texts, and a table for each."""
    for name, columns in COLUMNS.items():
        write(tmp_path / f"{name}.txt", WORDS, LINES[name], len(name))
        rows = [[CELLS[column](line) for column in columns] for line in range(LINES[name])]
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in (columns, *rows)))
    return tmp_path


@pytest.fixture
def options(texts):
    """The options of a train, two valid and a test set with contexts for all but the second valid one."""
    given = ["--dest", texts / "data", "--lexicon-path", "none"]
    for split, name in {"train": "train", "valid": "valid", "test": "other"}.items():
        given += [f"--{split}", texts / f"{name}.txt", f"--context-{split}", texts / f"{name}.tsv"]
    return [*given, "--valid", texts / "train.txt"]


@pytest.fixture
def refused(ours, texts):
    """Return a function that expects one line of error, and an untouched folder."""

    def run(*typed):
        before = {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()}
        error = ours("preprocess", *typed, code=1)
        assert error.splitlines()[-1].startswith("error: ") and "Traceback" not in error
        assert {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()} == before
        return error.splitlines()[-1]

    return run


def test_arrays_are_made_beside_the_texts(commands, options, texts):
    printed = commands.preprocess(*options, *KINDS)
    said = "contexts of train, valid, test: topic (3 values; 0.00% missing), year (a number; 26.00% missing)"
    assert said in printed
    data, dictionary = texts / "data", Dictionary.load(str(texts / "data" / "dict.txt"))
    lines = {split: open_text(data / split) for split in ("train", "valid", "valid1", "test")}
    arrays = {split: open_contexts(data / split, text.sizes) for split, text in lines.items()}
    assert arrays.pop("valid1") is None
    schema = Schema.of_training(arrays["train"], 1)
    for split, found in arrays.items():
        count, contexts = len(lines[split]), schema.rows(found)
        topics = [schema.variables[0].values[i - 1] for i in contexts.categories[contexts.index, 0]]
        assert topics == [CELLS["topic"](line) for line in range(count)]
        np.testing.assert_array_equal(found.column("year"), [1990 + i if i % 4 else np.nan for i in range(count)])
        assert found.column("hour").tolist() == [i % 24 for i in range(count)]
        dataset = StreamDataset(lines[split], split, dictionary, True, contexts)
        batch = dataset[dataset.plan(1, 3, 1, 35)[0]]
        context = batch["net_input"]["context"]
        assert context["numbers"][context["index"], 1].tolist() == [line % 24 for line in batch["id"].tolist()]


def test_contexts_go_with_their_texts(ours, options, texts, caplog):
    ours("preprocess", *options, *KINDS)
    data = texts / "data"
    (data / "train.context.txt").write_text("mine")
    ours("preprocess", "--train", texts / "train.txt", "--dest", data, "--lexicon-path", "none")
    left = {path.name for path in data.iterdir() if "context" in path.name}
    assert left == {"train.context.txt"} and "has no longer test.bin, test.contexts, test.idx" in caplog.text
    assert open_contexts(data / "train", np.array([1])) is None


def test_contexts_of_several_texts_are_not_combined(commands, options, texts):
    commands.preprocess(*options, *KINDS)
    given = ["--context-dim", "2", "--combine-valid-subsets", "--save-dir", texts / "save"]
    output = commands.fails("fairseq-train", texts / "data", *PLUGIN, *TRAINING, *small(*given))
    assert "data/valid has further parts, and contexts are of one text each: name the texts (--valid-subset)" in output


def test_a_test_text_alone_has_contexts(ours, options, texts):
    ours("preprocess", *options, *KINDS)
    union = ["--vocabulary-from", texts / "data", "--test", texts / "train.txt", "--context-test", texts / "train.tsv"]
    printed = ours("preprocess", *union, *KINDS, "--dest", texts / "union", "--lexicon-path", "none")
    assert "contexts of test: topic (3 values; 0.00% missing)" in printed


def test_a_table_of_other_lines_is_refused(ours, options, refused, texts):
    ours("preprocess", *options, *KINDS)
    table = texts / "other.tsv"
    table.write_text(table.read_text() + "1990\tsports\t3\n")
    said = refused(*options, *KINDS)
    assert said.endswith(
        f"{table} has 9 rows for the 8 lines of {texts / 'other.txt'}: expected a row a line, below names of columns"
    )


@pytest.mark.parametrize(
    "more, message",
    [
        (
            ["--context-numeric", "yaer"],
            "--context-numeric yaer: {texts}/train.tsv has no such column. It has topic, year, hour.",
        ),
        (["--context-numeric", "topic"], "{texts}/train.tsv:2: column topic: 'sports': expected a finite number, or nothing"),
        (["--context-numeric", "year,"], "--context-numeric year,: expected names of columns, as in year,latitude"),
        (["--context-cyclic", "day:7"], "--context-cyclic day: {texts}/train.tsv has no such column"),
        (["--context-cyclic", "hour"], "--context-cyclic hour: expected names of columns with their periods, above 0"),
        (["--context-cyclic", "hour:0"], "--context-cyclic hour:0: expected names of columns with their periods, above 0"),
        (["--context-cyclic", "hour:nan"], "--context-cyclic hour:nan: expected"),
        (["--context-cyclic", "hour:24,hour:12"], "--context-cyclic hour:24,hour:12: expected"),
        (
            ["--context-cyclic", "year:24", "--context-numeric", "year"],
            "--context-numeric year and --context-cyclic year: give one",
        ),
        (
            ["--context-test", "{texts}/none.tsv"],
            "--context-test {texts}/none.tsv: no text is left for it: expected a --test for each",
        ),
        (["--context-valid", "{texts}/none.tsv"], "{texts}/none.tsv: no such file"),
        (["--context-valid", "{texts}/train.txt"], "cannot be the name of a column"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, refused, texts, more, message):
    said = refused(*options, *(part.format(texts=texts) for part in more))
    assert message.format(texts=texts) in said and not (texts / "data").exists()


@pytest.mark.parametrize(
    "typed, message",
    [
        (
            "--valid valid.txt --context-valid valid.tsv",
            "the training text has no contexts, and others have: give --context-train FILE",
        ),
        (
            "--context-numeric year",
            "--context-numeric and --context-cyclic go with --context-train, --context-valid and --context-test",
        ),
        ("--context-valid valid.tsv", "--context-valid valid.tsv: no text is left for it"),
    ],
)
def test_contexts_that_have_no_text_or_training(refused, texts, monkeypatch, typed, message):
    monkeypatch.chdir(texts)
    assert message in refused("--train", "train.txt", "--dest", "data", "--lexicon-path", "none", *typed.split())


def test_contexts_without_a_training_text(refused, texts, monkeypatch):
    monkeypatch.chdir(texts)
    (texts / "words.txt").write_text("the 1\n")
    given = ["--vocabulary", "words.txt", "--test", "other.txt", "--dest", "data"]
    assert "--context-train train.tsv: no text is left for it" in refused(*given, "--context-train", "train.tsv")
