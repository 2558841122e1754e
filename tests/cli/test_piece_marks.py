"""Heads over pieces of words: what is stored of the marks, in fairseq's transformer_lm."""

import math

import pytest
import torch
from cli_helpers import ARCHITECTURES, PLUGIN, TRAINING, evaluated, header_of
from fairseq.models import FairseqLanguageModel
from test_bad_checkpoints import one_line

from fairseq_groc.data.fingerprint import piece_mark
from fairseq_groc.lexicon.base import Entry, Relation
from fairseq_groc.lexicon.tables_file import load_tables

LEXICON = ["--lexicon-path", "tests/fixtures/mini.tsv"]
LINES = ["▁the ▁cat ▁s at", "▁a ▁dog ▁sat ▁on ▁the ▁cat s", "▁the ▁dog s ▁r un cat"] * 8
PUPPY = Entry((Relation("▁dog", "mini.tsv:6"), Relation("▁whelp", "mini.tsv:6")), ("▁a", "▁young", "▁dog"), "mini.tsv:6")
OTHER = ["▁the ▁puppy ▁s at", "▁puppy dog"]


@pytest.fixture(scope="module")
def pieces(commands, tmp_path_factory):
    """Folder with ``data``, ``union``, and a transformer_lm in ``save`` that was trained on it."""
    folder = tmp_path_factory.mktemp("pieces")
    train, other = folder / "train.txt", folder / "other.txt"
    train.write_text("\n".join(LINES) + "\n")
    other.write_text("\n".join(OTHER) + "\n")
    options = ["--train", train, "--valid", train, "--dest", folder / "data", *LEXICON]
    commands.preprocess(*options, "--piece-marks", "▁")
    commands.preprocess("--vocabulary-from", folder / "data", "--test", other, "--dest", folder / "union", *LEXICON)
    words = ["--vocabulary", folder / "data" / "dict.txt", "--test", other, "--dest", folder / "unmarked"]
    commands.preprocess(*words, "--known", folder / "data", *LEXICON)
    options = [*TRAINING, "--tokens-per-sample", "20", "--output-head", "compositional_output", "--char-filters", "[4,4]"]
    options += ["--max-update", "3", "--criterion", "chunked_cross_entropy", "--save-dir", folder / "save"]
    commands.ok("fairseq-train", folder / "data", *PLUGIN, "--arch", *ARCHITECTURES["transformer_lm"].split(), *options)
    return folder


def of(folder, data):
    hub = FairseqLanguageModel.from_pretrained(str(folder / "save"), "checkpoint_last.pt", str(folder / data)).eval()
    return hub, hub.models[0].decoder


def test_the_mark_goes_with_the_data_and_the_checkpoint(pieces, commands, ours):
    assert [piece_mark(pieces / data) for data in ("data", "union", "unmarked")] == ["▁", "▁", ""]
    assert header_of(pieces / "union")["piece_mark"] == "▁" and not header_of(pieces / "unmarked")["piece_mark"]
    before = load_tables(pieces / "union", of(pieces, "union")[1].dictionary.symbols)
    ours("tables", pieces / "union", *LEXICON)
    assert header_of(pieces / "union")["piece_mark"] == "▁"
    assert (
        load_tables(pieces / "union", of(pieces, "union")[1].dictionary.symbols).word_digests() == before.word_digests()
    ).all()
    tokens, figure = evaluated(commands.eval_lm(pieces / "union", pieces / "save" / "checkpoint_last.pt"))
    assert tokens == 8 and math.isfinite(figure)
    for any_lexicon in ([], ["--any-lexicon"]):
        command = ["evaluate", "--path", pieces / "save" / "checkpoint_last.pt", "--data", pieces / "unmarked", *any_lexicon]
        message = "the data have whole words, and the checkpoint's had pieces marked ▁"
        assert message in one_line(ours, *command) and "with --piece-marks ▁" in one_line(ours, *command)


@torch.no_grad()
def test_pieces_are_composed_and_told_apart(pieces):
    (_, small), (hub, decoder) = of(pieces, "data"), of(pieces, "union")
    rows, number = decoder.matrices()[0], decoder.dictionary.index
    torch.testing.assert_close(rows[: len(small.dictionary)], small.matrices()[0], rtol=0, atol=1e-6)
    for mine, other in (("▁cat", "cat"), ("▁dog", "dog")):
        assert (rows[number(mine)] - rows[number(other)]).abs().max() > 1e-4
    tables = load_tables(pieces / "union", decoder.dictionary.symbols)
    named = {word: tables.relation_offsets[number(word)] for word in ("▁puppy", "dog")}
    related = {word: tables.relations[begin : tables.relation_offsets[number(word) + 1]] for word, begin in named.items()}
    assert tables.forms()[related["▁puppy"][0]] == "▁dog".encode() and related["▁puppy"][0] == number("▁dog")
    assert len(related["dog"]) == 0
    small.add_words(["▁puppy"], {"▁puppy": PUPPY})  # the same as loading
    torch.testing.assert_close(small.matrices()[0][-1], rows[number("▁puppy")], rtol=0, atol=1e-6)
    assert hub.score("▁the ▁puppy dog")["positional_scores"].isfinite().all()


def test_new_words_of_an_open_vocabulary_are_pieces_too(pieces, ours, tmp_path):
    """They are looked up as the data's were: the same words score the same in whichever vocabulary they come."""
    from fairseq_groc.evaluation.loading import data_lexicon

    _, decoder = of(pieces, "data")
    found = data_lexicon(decoder.origin, None)
    assert found.lookup("▁puppy", 3, 10) == PUPPY and found.lookup("puppy", 3, 10).relations == ()


def test_marks_that_do_not_fit_are_refused(pieces, ours, tmp_path):
    text, dest = tmp_path / "text.txt", ["--dest", tmp_path / "data", *LEXICON]
    text.write_text("the cat sat\n")
    assert "--piece-marks @@: no word has it" in one_line(ours, "preprocess", "--train", text, "--piece-marks", "@@", *dest)
    given = ["preprocess", "--vocabulary-from", pieces / "data", "--test", text, *dest]
    assert f"--piece-marks @@: {pieces / 'data'} has pieces marked ▁. Leave" in one_line(ours, *given, "--piece-marks", "@@")
    given[2] = pieces / "unmarked"
    assert "unmarked has whole words" in one_line(ours, *given, "--piece-marks", "@@")
