"""AWD-LSTM as fairseq-train trains it, on the released program's blocks, is plain PyTorch's; dropout has tests of its own."""

import importlib
import json

import numpy as np
import pytest
import torch
from cli_helpers import PLUGIN, ROOT, TRAINING, WORDS, small, tokens_of, write
from fairseq.data import Dictionary
from test_train_averages import AWD, TIED, saved

PAPERS = ROOT / "examples" / "papers"
SEED = "14"  # cuts the last blocks of both epochs short, and ends none where one of the programs would draw one more


@pytest.fixture
def plain(monkeypatch):
    """The example's module at the size of a test: without dropout, with a weight decay that shows."""
    monkeypatch.syspath_prepend(PAPERS)
    module = importlib.import_module("plain_awd_lstm")
    for name in ("WORDS", "INPUT", "BETWEEN", "LAST", "WEIGHTS"):
        monkeypatch.setattr(module, name, 0.0)
    for name, value in {"BLOCK": 10, "RATE": 20, "DECAY": 1e-3}.items():
        monkeypatch.setattr(module, name, value)
    return module


def as_plain(path, names):
    """Return a checkpoint's parameters under the names of the example's model, without the rows of <s> and <pad>."""
    *layers, rows, bias = (value.double() for value in saved(path)[0])
    return dict(zip(names, (rows[2:], bias[2:, 0], *layers), strict=True))


def test_two_epochs_are_those_of_plain_pytorch(commands, tmp_path, plain):
    text, data = write(tmp_path / "train.txt", WORDS, 60, 4), tmp_path / "data"
    assert tokens_of(text) % 4 == 0  # the released program leaves out what makes no row
    commands.preprocess("--train", text, "--valid", text, "--dest", data, "--lexicon-path", "none")
    options = [*AWD, *TIED, "--prefix-encoder", "awd_lstm", "--weight-dropout", "0", "--dropout", "0", "--dropout-in", "0"]
    program = ["python", PAPERS / "released_blocks.py", SEED, data, *PLUGIN, *TRAINING, *small(*options)]
    for name, how in (("begin", ["--lr", "1e-30", "--max-update", "1"]), ("end", ["--max-epoch", "2"])):
        commands.ok(*program, "--weight-decay", "1e-3", "--save-dir", tmp_path / name, *how)

    words = (text.read_text(encoding="utf-8").replace("\n", " </s> ")).split()
    dictionary = Dictionary.load(str(data / "dict.txt"))
    numbers = torch.tensor([dictionary.index(word) - 2 for word in words])
    streams = torch.cat([torch.full((1, 4), dictionary.eos() - 2), numbers.view(4, -1).t()])
    model = plain.Model(len(dictionary) - 2, (8, 12, 8)).double()
    begin, end = (as_plain(tmp_path / name / "checkpoint_last.pt", model.state_dict()) for name in ("begin", "end"))
    model.load_state_dict(begin)
    np.random.seed(int(SEED))
    for _ in range(2):
        plain.train(model, streams, plain.optimizer_of(model))
    for name, found in model.state_dict().items():
        torch.testing.assert_close(found, end[name], rtol=0, atol=5e-5)
        assert (found - begin[name]).abs().max() > 0.05


def test_plain_pytorch_drops_the_same_numbers_of_a_stream_throughout_a_block(plain):
    torch.manual_seed(1)
    dropped = plain.Model(4, (8, 8)).locked(torch.ones(5, 100, 80), 0.4)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.6]) and bool((dropped == dropped[0]).all())
    assert float(dropped.mean()) == pytest.approx(1, abs=0.05)


def test_plain_pytorch_prints_what_it_writes(commands, tmp_path):
    for split in ("train", "valid"):
        write(tmp_path / f"{split}.txt", WORDS, 100, 4)
    program = ["python", PAPERS / "plain_awd_lstm.py", "--text", tmp_path, "--sizes", "8", "12", "8", "--epochs", "2"]
    printed = commands.ok(*program, "--out", tmp_path / "plain.json")
    (found,) = json.loads((tmp_path / "plain.json").read_text()).values()
    assert printed.split("\n")[:-1] == [f"epoch {epoch}: {value:.1f}" for epoch, value in enumerate(found, 1)]
    assert len(found) == 2
