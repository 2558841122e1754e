"""Several texts by name in one ``evaluate`` and one ``tune``: what each gives by itself, with words encoded once."""

import json
import shutil

import pytest
from test_bad_checkpoints import one_line, wheres

from fairseq_groc.embeddings.compositional import CompositionalEmbedding

OTHER, VALID = "test", "test1"  # of the union vocabulary
SPARE = ("seconds_of_scoring",)


def evaluate(ours, out, model, data, *options):
    printed = ours("evaluate", "--path", model, "--data", data, "--out", out, *options)
    return json.loads(out.read_text()), printed


def plain(report):
    return {key: value for key, value in report.items() if key not in SPARE}


@pytest.mark.parametrize(
    "options",
    [
        ["--verify-normalization", "2", "--uniform-weight", "0.05", "--unigram-weight", "0.1", "--unbounded-weight", "0.1"],
        ["--dynamic-rate", "0.01", "--dynamic-statistics", "GRADIENTS"],
        ["--sample-break-mode", "eos"],
    ],
    ids=["caches", "dynamic", "lines"],
)
def test_texts_have_the_figures_that_each_has_alone(ours, corpus, models, tmp_path, options):
    model, data = models["compositional_output"], corpus / "union"
    if "GRADIENTS" in options:
        (tmp_path / "gradients").mkdir()
        ours("gradient-statistics", *wheres(corpus, model), "--streams", "3", "--dest", tmp_path / "gradients")
        options = [*options[:-1], tmp_path / "gradients"]
    names = {"first": VALID, "other": OTHER}
    several = ["--split", *(f"{name}={split}" for name, split in names.items()), "--losses", tmp_path / "l.tsv", *options]
    found, printed = evaluate(ours, tmp_path / "r.json", model, data, *several)
    assert list(found) == ["texts"] and list(found["texts"]) == list(names)
    table = printed.splitlines()[:3]
    for line, (name, split) in zip(table[1:], names.items(), strict=True):
        alone, _ = evaluate(ours, tmp_path / "a.json", model, data, "--split", split, "--losses", tmp_path / "a.tsv", *options)
        assert plain(found["texts"][name]) == plain(alone) and alone["settings"]["split"] == split
        assert (tmp_path / f"l.{name}.tsv").read_bytes() == (tmp_path / "a.tsv").read_bytes()
        assert line.split()[0] == name and f"{alone['all']['perplexity']:,.2f}" in line.split()
        if "--verify-normalization" in options:
            assert f"{name}: largest |1 - sum| of {alone['verified_positions']:,} positions" in printed
    assert not (tmp_path / "l.tsv").exists()


def test_words_are_encoded_once_for_all_texts(ours, corpus, models, tmp_path, monkeypatch):
    encoded, forward = [], CompositionalEmbedding.forward
    monkeypatch.setattr(CompositionalEmbedding, "forward", lambda self, *given: (encoded.append(self), forward(self, *given))[1])
    texts = {1: [VALID], 3: ["a=test1", "b=test", "c=test1"]}
    counts = {}
    for number, splits in texts.items():
        encoded.clear()
        evaluate(ours, tmp_path / "r.json", models["compositional_output"], corpus / "union", "--split", *splits)
        counts[number] = len(encoded)
    assert counts[1] == counts[3] == 1


def test_a_split_without_a_name_has_its_own_and_one_alone_has_none(ours, corpus, models, tmp_path):
    where = tmp_path / "r.json", models["compositional_output"], corpus / "union"
    two, printed = evaluate(ours, *where, "--split", OTHER, VALID)
    assert list(two["texts"]) == [OTHER, VALID] and printed.splitlines()[1].split()[0] == OTHER
    one, _ = evaluate(ours, *where, "--split", OTHER)
    named, _ = evaluate(ours, *where, "--split", f"only={OTHER}")
    assert plain(one) == plain(named["texts"]["only"]) == plain(two["texts"][OTHER])


def test_tune_finds_for_texts_what_it_finds_for_each_alone(ours, corpus, models, tmp_path):
    data, grid = tmp_path / "union", ["--weights", "0.1", "0.3", "--thetas", "0", "1", "--uniform", "0.1", "--no-extend"]
    shutil.copytree(corpus / "union", data)
    tune = ["tune", "--path", models["tied"], "--data", data, *grid, "--no-store"]
    printed = ours(*tune, "--split", f"first={VALID}", f"other={OTHER}", "--out", tmp_path / "g.json")
    found = json.loads((tmp_path / "g.json").read_text())["texts"]
    rows = {line.split()[0]: line for line in printed.splitlines()[-2:]}
    for name, split in (("first", VALID), ("other", OTHER)):
        ours(*tune, "--split", split, "--out", tmp_path / "a.json")
        assert found[name] == json.loads((tmp_path / "a.json").read_text())
        assert f"{found[name]['best']['perplexity']:,.2f}  --uniform-weight 0.1" in rows[name]
        assert (tmp_path / f"g.{name}.png").read_bytes().startswith(b"\x89PNG")
    assert found["first"]["grid"] != found["other"]["grid"]
    assert not (data / "adapters.json").exists() and not (tmp_path / "g.png").exists()
    error = one_line(ours, *tune[:-1], "--split", OTHER, VALID)
    assert "--split names 2 texts, and the best of one becomes the default: give --no-store, or one text" in error


def test_names_and_splits_that_will_not_do_are_one_line(ours, corpus, models, tmp_path):
    where = ["--path", models["tied"], "--data", corpus / "union"]
    for splits, message in [
        (["a=test", "a=test1"], "--split a=test1: 'a' is the name of two"),
        (["test", "test"], "--split test: 'test' is the name of two"),
        (["a="], "--split a=: expected SPLIT or NAME=SPLIT, as news=test1"),
        (["=test"], "--split =test: expected SPLIT or NAME=SPLIT"),
        (["a/b=test"], "--split a/b=test: expected SPLIT or NAME=SPLIT"),
        (["test,test1"], "--split test,test1=test,test1: expected SPLIT or NAME=SPLIT, as news=test1, and a blank between two"),
        (["test", "absent"], "absent.idx not found. Preprocess the split (scripts/preprocess.sh) or name another one."),
    ]:
        assert message in one_line(ours, "evaluate", *where, "--split", *splits)
        assert message in one_line(ours, "tune", *where, "--no-store", "--split", *splits)
    raw = ["--raw", corpus / "other.txt", "--split", OTHER, VALID]
    assert "is one text, and --split names 2: give one, or --remove-bpe" in one_line(ours, "evaluate", *where, *raw)
    assert "there is no folder" in one_line(ours, "evaluate", *where, "--losses", tmp_path / "absent" / "l.tsv")
