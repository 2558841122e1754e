"""Checkpoints that cannot be used: one line that names the file, from every command that loads one."""

import pickle
import shutil
import zipfile

import pytest
import torch


def wheres(corpus, path):
    return ["--path", path, "--data", corpus / "data"]


def one_line(ours, *arguments):
    error = ours(*arguments, code=1).splitlines()
    lines = [line for line in error if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in "".join(error), error
    return lines[0]


@pytest.fixture
def saved(models):
    return torch.load(models["tied"], weights_only=True)


def write_broken(kind, path, saved):
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("the cat sat\n")
    elif kind == "not weights-only":
        torch.save({"model": {}, "cfg": pytest.approx(1)}, path, pickle_module=pickle)
    elif kind == "cut":
        torch.save(saved, path)
        path.write_bytes(path.read_bytes()[:5_000])
    else:
        name = next(name for name in saved["model"] if name.endswith("lstm.weight_ih_l0") or name.endswith(".weight"))
        torch.save({"no model": {k: v for k, v in saved.items() if k != "model"}, "a list": [1, 2]}.get(kind, saved), path)
        if kind == "no weight":
            torch.save({**saved, "model": {k: v for k, v in saved["model"].items() if k != name}}, path)


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "not weights-only", "no model", "no weight", "a list"])
def test_a_broken_checkpoint_is_named(ours, corpus, saved, tmp_path, kind):
    path, text = tmp_path / "mine.pt", tmp_path / "text.txt"
    text.write_text("the cat\n")
    write_broken(kind, path, saved)
    error = one_line(ours, "score", text, *wheres(corpus, path))
    assert error.startswith(f"error: {path} cannot be loaded as a language model's checkpoint") and len(error) < 600


@pytest.mark.parametrize("member", ["data/0", "data.pkl"])
def test_a_byte_of_a_weight_or_of_an_option_that_is_other(ours, corpus, models, tmp_path, member):
    """PyTorch does not look at the checksums that it writes."""
    path, text = tmp_path / "mine.pt", tmp_path / "text.txt"
    text.write_text("the cat\n")
    content = bytearray(models["tied"].read_bytes())
    with zipfile.ZipFile(models["tied"]) as archive:
        name = next(name for name in archive.namelist() if name.endswith(f"/{member}"))
        raw = archive.read(name)
    place = content.index(raw) + (raw.index(b"cache_theta") + 2 if member == "data.pkl" else 1)
    content[place] ^= 1
    path.write_bytes(content)
    error = one_line(ours, "score", text, *wheres(corpus, path))
    assert f"{path} cannot be loaded as a language model's checkpoint (BadZipFile: {name} in it is damaged)" in error


def test_what_fairseq_would_take_for_several(ours, corpus, models, tmp_path):
    path, text = tmp_path / "a:b.pt", tmp_path / "text.txt"
    text.write_text("the cat\n")
    path.write_bytes(models["tied"].read_bytes())
    assert "a:b.pt: fairseq takes ':' for the end of a name" in one_line(ours, "score", text, *wheres(corpus, path))
    shutil.copytree(corpus / "data", tmp_path / "c:d")
    command = ["score", text, "--path", models["tied"], "--data", tmp_path / "c:d"]
    assert "c:d: fairseq takes ':'" in one_line(ours, *command)


COMMANDS = {
    "score": ["score", "TEXT"],
    "score --open-vocabulary": ["score", "TEXT", "--open-vocabulary", "--lexicon-path", "none"],
    "evaluate": ["evaluate", "--split", "valid", "--out", "OUT.json"],
    "export": ["export", "OUT.vec"],
    "nearest": ["nearest", "cat", "--out", "OUT.json"],
    "remember": ["remember", "OUT"],
    "coverage": ["coverage", "--split", "valid", "--out", "OUT.json", "--lexicon-path", "none"],
    "frequency-bins": ["frequency-bins", "--split", "valid", "--baselines", "other=MODEL", "--out", "OUT.json"],
}


@pytest.mark.parametrize("command, value", [("score", float("inf")), *((command, float("nan")) for command in COMMANDS)])
def test_a_model_of_nans_prints_no_figure(ours, corpus, models, tmp_path, command, value):
    saved = torch.load(models["compositional_output"], weights_only=True)
    name = next(name for name, tensor in saved["model"].items() if tensor.is_floating_point() and "_extra_state" not in name)
    saved["model"][name].view(-1)[0] = value
    path, text = tmp_path / "nan.pt", tmp_path / "text.txt"
    torch.save(saved, path)
    text.write_text("the cat\n")
    names = {"TEXT": text, "MODEL": models["compositional_output"]}
    arguments = [names.get(a, tmp_path / a if a.startswith("OUT") else a) for a in COMMANDS[command]]
    arguments = [f"other={models['tied']}" if a == "other=MODEL" else a for a in arguments]
    error = one_line(ours, *arguments, *wheres(corpus, path))
    assert f"{path}: " in error and "are no finite numbers" in error and name in error
    assert not list(tmp_path.glob("OUT*.json")) and not (tmp_path / "OUT.vec").exists()
    assert not list(tmp_path.glob("OUT/*.pt"))


@pytest.mark.parametrize("command", ["score", "score --open-vocabulary", "nearest", "export", "remember"])
def test_finite_weights_that_give_no_numbers(ours, corpus, models, tmp_path, command):
    saved = torch.load(models["compositional_output"], weights_only=True)
    for name, tensor in saved["model"].items():
        if tensor.is_floating_point() and "_extra_state" not in name:
            tensor.fill_(3e38)
    path, text = tmp_path / "large.pt", tmp_path / "text.txt"
    torch.save(saved, path)
    text.write_text("the cat\n")
    arguments = [{"TEXT": text}.get(a, tmp_path / a if a.startswith("OUT") else a) for a in COMMANDS[command]]
    error = one_line(ours, *arguments, *wheres(corpus, path))
    assert f"{path}: its word embeddings are no numbers (NaN): the checkpoint is broken" in error
