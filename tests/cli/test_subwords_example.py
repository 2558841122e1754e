"""examples/subwords: texts in pieces and back, bits that are known by arithmetic, and the experiment at a tiny size."""

import importlib
import json
import math
import sys
from argparse import Namespace

import pytest
import torch
from cli_helpers import PLUGIN, ROOT, WORDS, environment, write
from fairseq import options

pytest.importorskip("sentencepiece")
NAMES = ("run", "models", "pieces", "bits", "subword_tables", "rows", "texts")
HARD = "naïve \N{GRINNING FACE} \N{SKULL} x's"


@pytest.fixture
def example(monkeypatch):
    """Return a function that imports a module of the example."""
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)  # other examples have such names
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples" / "subwords"), *sys.path])
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def cut(example, tmp_path):
    """Return the modules, the dictionary's words, and the lines of a training text and of another one in pieces."""
    pieces, model = example("pieces"), tmp_path / "bpe.model"
    write(tmp_path / "train.txt", WORDS, 100, 1)
    (tmp_path / "other.txt").write_text(f"{HARD}\n\nzebras and the cat\n")
    pieces.learn(tmp_path / "train.txt", model, 320)
    pieces.cut(model, [(tmp_path / f"{name}.txt", tmp_path / f"{name}.pieces") for name in ("train", "other")])
    pieces.write_dictionary(model, tmp_path / "train.pieces", tmp_path / "dict.txt")
    words = [line.split(" ")[0] for line in (tmp_path / "dict.txt").read_text().splitlines()]
    return (
        (pieces, example("bits")),
        words,
        *((tmp_path / f"{name}.pieces").read_text().splitlines() for name in ("train", "other")),
    )


def test_every_text_is_in_pieces_of_the_dictionary(cut, tmp_path):
    (pieces, bits), words, train, other = cut
    assert {piece for line in (*train, *other) for piece in line.split()} <= set(words) and len(set(words)) == len(words) == 317
    for line, whole in zip(other, (HARD, "", "zebras and the cat"), strict=True):
        places = list(bits.words_of(line.split()))
        assert len(places) == len(whole.split()) and [p for word in places for p in word] == list(range(len(line.split())))
    joined = ["".join(line.split()[p] for p in word) for line in train for word in bits.words_of(line.split())]
    assert joined == [f"▁{word}" for word in (tmp_path / "train.txt").read_text().split()]
    counts = dict(line.split() for line in (tmp_path / "dict.txt").read_text().splitlines())
    assert int(counts["▁the"]) == " ".join(train).split().count("▁the") > 0 and counts["<0xF0>"] == "0"
    (tmp_path / "marked.txt").write_text("a ▁ b\n")
    with pytest.raises(ValueError, match="does not come back from its pieces"):
        pieces.cut(tmp_path / "bpe.model", [(tmp_path / "marked.txt", tmp_path / "marked.pieces")])


def test_bits_are_sums_over_the_bytes_of_the_lines(example):
    bits, ln2 = example("bits"), math.log(2)
    lines = ["the naïve cat", "", "cat"]
    costs = [([ln2, 8 * ln2, 2 * ln2], ln2), ([], 4 * ln2), ([3 * ln2], ln2)]
    report = bits.summed(lines, costs, {"the", "cat"})
    assert report["bytes"] == len("the naïve cat\n\ncat\n".encode()) == 20 and report["events"] == 7
    assert report["bits_per_byte"] == pytest.approx(20 / 20)
    assert report["known"] == {"count": 3, "bits": pytest.approx(2)} and report["new"] == {"count": 1, "bits": pytest.approx(8)}
    assert report["line end"] == {"count": 3, "bits": pytest.approx(2)}
    assert list(bits.by_lines([7, 2, 2, 8, 9, 2], [1.0, 2, 3, 4, 5, 6])) == [([7], [1, 2]), ([], [3]), ([8, 9], [4, 5, 6])]


def test_the_experiment_makes_its_tables_and_skips_what_is_done(example, monkeypatch, tmp_path):
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    run, models, tables = example("run"), example("models"), example("subword_tables")
    small = "--arch groc_lstm_lm --decoder-embed-dim 8 --decoder-hidden-size 12 --batch-size 4 --batch-size-valid 4"
    two = [models.Model("words", "tied", f"{small} --output-head tied", ("0.01",))]
    two += [models.Model("320", "GroC", f"{small} --output-head compositional_output --char-filters [4,4]", ("0.01",))]
    monkeypatch.setattr(run, "models", lambda sizes, transformer: two)
    program = run.run

    def run_here(*command):
        """Score in this process: another one takes seconds to begin."""
        if command[0] != sys.executable:
            return program(*command)
        assert command[1] == ROOT / "examples" / "subwords" / "bits.py"
        example("bits").main([str(part) for part in command[2:]])
        return 0.5

    monkeypatch.setattr(run, "run", run_here)
    texts = tmp_path / "texts"
    texts.mkdir()
    for split, count in (("train", 80), ("valid", 10), ("test", 10)):
        write(texts / f"{split}.txt", WORDS, count, count)
    with open(texts / "test.txt", "a") as file:
        file.write(f"the {HARD}\n")
    given = dict(texts=texts, domain=[], workdir=tmp_path / "work", seconds=3.0, pieces=[320], transformer=False)
    args = Namespace(**given, measured_updates=2, learning_rates=None, train_tokens=0, valid_tokens=0, test_tokens=0)
    for model in two:
        work = args.workdir / "models" / run.slug(model.label)
        work.mkdir(parents=True)
        (work / "measured.json").write_text('{"seconds": 1.0}')
    results = run.experiment(args)
    labels = ["tied, words, union vocabulary", "tied, words, open vocabulary", "GroC, 320 pieces"]
    assert list(results["rows"]) == labels and all(of["updates"] == 3 for of in results["models"].values())
    found = [results["rows"][label]["in-domain"] for label in labels]
    raw = (texts / "test.txt").read_bytes()
    assert all(of["bytes"] == len(raw) and of["new"]["count"] == 4 and of["bits_per_byte"] > 0 for of in found)
    assert len({of["known"]["count"] for of in found}) == 1 and found[2]["tokens"] > found[2]["events"] == found[0]["events"]
    assert (
        results["models"]["GroC, 320 pieces"]["tokens in a block"] > 35 == results["models"]["tied, words"]["tokens in a block"]
    )
    for of in found:
        total = sum(of[part]["count"] * of[part]["bits"] for part in ("known", "new", "line end"))
        assert total / len(raw) == pytest.approx(of["bits_per_byte"])
    page = tables.markdown(results)
    assert f"{labels[2]} | " in page and f"{found[0]['bits_per_byte']:.3f}" in page and str(tmp_path) not in json.dumps(results)
    monkeypatch.setattr(run, "run", None)
    monkeypatch.setattr(run, "in_process", None)
    assert run.experiment(args) == results


def test_options_of_every_model_are_taken(example):
    models = example("models")
    made = models.models([320], transformer=True)
    assert len(made) == 3 + 2 + 2
    for model in made:
        words = ["data", *PLUGIN, *models.TRAINING.split(), *model.options.split(), "--lr", model.rates[0]]
        options.parse_args_and_arch(options.get_training_parser(), input_args=words)


def test_uncertain_words_are_paid_in_full(example, monkeypatch):
    """Every piece has 1/32: a word of three pieces pays 15 bits, and with its line's end 20."""
    bits = example("bits")
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "▁z", "e", "b"]
    task = Namespace(dictionary=Namespace(symbols=symbols, unk=lambda: 3))
    monkeypatch.setattr(bits, "open_split", lambda args: (Namespace(task=task, models=[None]), None))
    scores = Namespace(targets=torch.tensor([4, 5, 6, 2]), adapted=torch.full((4,), -5 * math.log(2)))
    monkeypatch.setattr(bits, "score", lambda *args: scores)
    args = Namespace(tokens_per_sample=10, pieces=True, raw="raw.txt", data="data")
    ((words, end),), tokens, _ = bits.of_data(args, ["zeb"])
    assert words == [pytest.approx(15 * math.log(2), rel=1e-6)] and end == pytest.approx(5 * math.log(2)) and tokens == 4
    with pytest.raises(SystemExit, match="'zeb x' is not the line"):
        bits.of_data(args, ["zeb x"])
