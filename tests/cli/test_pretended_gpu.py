"""Programs on a GPU, which ``pretended_gpu.py`` pretends, do what they do on the CPU: nothing is made on the wrong device."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import HEADS, PLUGIN, TRAINING, Commands, small
from test_context_commands import KNOWS
from test_context_commands import data as contexts
from test_train_averages import AWD, COMPOSED, saved
from torch.nn.utils import parameters_to_vector

from fairseq_groc.__main__ import _parser
from fairseq_groc.cli import evaluate

GPU = ["python", Path(__file__).with_name("pretended_gpu.py")]
CACHES = "--unigram-weight 0.1 --local-weight 0.1 --unbounded-weight 0.1 --uniform-weight 0.05 --new-word-discount 0.9".split()
DYNAMIC = ["--dynamic-rate", "1e-3", "--dynamic-parameters"]
LINES = "--sample-break-mode eos --streams 4".split()
SAMPLED = "--corrections both --sampled-update-fraction 0.3 --refresh-interval 2 --composed-lr-scale 0.3".split()
MODELS = {  # what is trained, and how it is scored
    "composed": (SAMPLED, CACHES),
    "AWD-LSTM": ([*AWD, *COMPOSED, "--prefix-encoder", "awd_lstm", "--weight-dropout", "0.3"], [*DYNAMIC, "all"]),
    "FactorCell": (["--output-head", "tied", "--context-bias", "rows", *KNOWS], LINES),
    "adaptive": (["--output-head", "adaptive", *HEADS["adaptive"]], [*DYNAMIC, "features"]),
    "convolutional": (["--output-head", "convolutional", *HEADS["convolutional"]], []),
    "mixture": (["--output-head", "mixture_of_softmaxes"], CACHES),
}
COMMANDS = [  # {run}: a folder of each run, whose files are compared, too
    "score {folder}/lines.txt --open-vocabulary",
    "score {folder}/lines.txt --running",
    "rescore {folder}/list.tsv --out {run}/best.tsv --scores {run}/scores.tsv --weights lm=1",
    "tune --cache local --split test1 --uniform 0 0.1 --discounts 1 0.5 --no-extend --no-store",
    "evaluate --split test1 --verify-normalization 9 --local-weight 0.2",
    "remember {run}/memory --split test1",
    "export {run}/words.vec",
]
NUMBER = re.compile(r"(-?\d+\.\d+(?:e-\d+)?)")
SPEED = re.compile(r"[\d,.]+ seconds")
STREAM = """
import subprocess, sys, fairseq_groc, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
learned = dict(dynamic_rate=0.1, dynamic_parameters="features", dynamic_statistics="{folder}")
make = "gradient-statistics --path {path} --data {data} --dynamic-parameters features --dest {folder} --cpu"
if device == "cpu":
    subprocess.run([sys.executable, "-m", "fairseq_groc", *make.split()], check=True)
stream = fairseq_groc.load("{path}", "{data}", device=device, **learned).stream()
stream.score("the cat ran the dog sat".split())
copies = [stream, stream.copy()]
assert torch.backends.cudnn.allow_tf32 == (device == "cpu")
print(*[float(one.score([word])[0]) for word in "a lion sat on the mat a cat ran on".split() for one in copies])
"""
assert contexts  # a fixture


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_trained_and_scored_on_a_gpu_as_on_the_cpu(commands, corpus, contexts, tmp_path, name):
    training, scoring = MODELS[name]
    data = (contexts if name == "FactorCell" else corpus) / "data"
    weights = []
    for device in ([], GPU):
        options = [*PLUGIN, *TRAINING, *small(*training), "--max-update", "6", "--ignore-unused-valid-subsets"]
        save = tmp_path / f"save{len(device)}"
        output = commands.ok(*device, "fairseq-train", data, *options, "--save-dir", save)
        assert ("name = pretended" in output) == bool(device)
        weights.append(parameters_to_vector(saved(save / "checkpoint_last.pt")[0]).double())
    assert (weights[1] - weights[0]).norm() < 1e-3 * weights[0].norm()
    found = [figure(commands.ok, data, tmp_path, scoring, device) for device in ([], GPU)]
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def program_of(device):
    return [*device, "fairseq_groc"] if device else ["python", "-m", "fairseq_groc"]


def figure(run, data, folder, scoring, device):
    """Return the perplexity of the model in a folder."""
    program = program_of(device)
    model = ["--path", folder / "save2" / "checkpoint_last.pt", "--data", data]
    if DYNAMIC[0] in scoring:
        statistics = folder / f"statistics{len(device)}"
        run(*program, "gradient-statistics", *model, "--dynamic-parameters", scoring[-1], "--dest", statistics)
        scoring = [*scoring, "--dynamic-statistics", statistics]
    run(*program, "evaluate", *model, "--split", "valid", *scoring, "--out", folder / "report.json")
    report = json.loads((folder / "report.json").read_text())
    assert report["settings"]["device"] == ("pretended" if device else "cpu")
    return report["all"]["perplexity"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_commands_print_on_a_gpu_what_they_print_on_the_cpu(commands, corpus, models, tmp_path, command):
    (tmp_path / "lines.txt").write_text("the cat ran\na zebra sat\n")
    (tmp_path / "list.tsv").write_text("id\ttext\nu1\tthe cat ran\nu1\ta zebra sat\n")
    found, counts = [], []
    for name, device, more in (("cpu", [], []), ("gpu", GPU, []), ("kept", GPU, ["--cpu"])):
        (tmp_path / name).mkdir()
        given = command.format(folder=tmp_path, run=tmp_path / name).split()
        model = ["--data", corpus / "union", "--path", models["compositional_output"], *more]
        printed, *count = commands.ok(*program_of(device), *given, *model).split("operations on the device: ")
        found.append((printed.replace(f"/{name}/", "/"), made_in(tmp_path / name)))
        counts += map(int, count)
    assert counts[0] > counts[1] == 0
    for printed, (keys, text) in found[1:]:
        on_cpu, here = (NUMBER.split(SPEED.sub("", one)) for one in (found[0][0] + found[0][1][1], printed + text))
        assert here[::2] == on_cpu[::2] and len(here) + keys.size > 2
        assert [*map(float, here[1::2])] == pytest.approx([*map(float, on_cpu[1::2])], rel=1e-4, abs=2e-4)
        np.testing.assert_allclose(keys, found[0][1][0], rtol=1e-4, atol=1e-6)


def made_in(folder):
    """Return the numbers of the binary files, and the others as one text."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    numbers = [np.fromfile(path, np.float32) for path in paths if path.suffix == ".f32"]
    text = "".join(path.read_text() for path in paths if path.suffix in (".tsv", ".vec"))
    return np.concatenate([*numbers, []]), text


def test_a_stream_and_its_copy_learn_on_a_gpu_as_on_the_cpu(corpus, models, tmp_path):
    (tmp_path / "program.py").write_text(STREAM.format(path=models["tied"], data=corpus / "data", folder=tmp_path))
    on_cpu, on_gpu = (
        [float(one) for one in Commands(tmp_path, tmp_path).ok(*program, "program").split() if NUMBER.fullmatch(one)][-20:]
        for program in (["python", "-m"], GPU)
    )
    assert len(on_cpu) == 20 and on_gpu == pytest.approx(on_cpu, rel=1e-5)


def test_workers_do_not_share_a_gpu(monkeypatch):
    args = _parser().parse_args("evaluate --path checkpoint.pt --data DATA --workers 2 --streams 2".split())
    monkeypatch.setattr(evaluate.multiprocessing, "get_context", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate.run(args)
    assert args.cpu


@pytest.mark.parametrize(
    "wrong, message",
    [
        ("x + torch.ones(2)", "aten::add: expected tensors of one device, the CPU has one of (2,)"),
        ("torch.rand(2, device=x.device, generator=torch.Generator())", "aten::uniform_: expected a generator of the device"),
        ("torch.zeros(2)[x.long()]", "aten::index: expected tensors of one device"),
        ("x.numpy()", "can't convert a tensor of the device to numpy"),
    ],
)
def test_what_a_gpu_refuses_is_refused(tmp_path, wrong, message):
    right = "import torch\nx = torch.ones(2).cuda()\nprint((x + 1)[torch.tensor([1])].tolist())\n"
    (tmp_path / "program.py").write_text(right + wrong)
    output = Commands(tmp_path, tmp_path).fails(*GPU, "program")
    assert "[2.0]\n" in output and f"Error: {message}" in output
