"""AWD-LSTM's training by fairseq's commands: what is saved is the mean of the iterates, and resuming is bit-equal."""

import itertools
import math
import re
import shutil

import numpy as np
import pytest
import torch
from cli_helpers import PLUGIN, ROOT, TRAINING, small, tokens_of
from test_resume_and_workers import two_workers, weights
from torch.nn.utils import parameters_to_vector

AWD = "--optimizer nt_asgd --non-monotonic-interval 1 --lr 20 --clip-norm 0.25 --weight-decay 1.2e-6".split()
COMPOSED = "--nt-asgd-base adam --lr 0.1 --corrections both".split()
AWD += "--vary-bptt --dropout 0.3 --criterion chunked_cross_entropy --ignore-unused-valid-subsets --seed 3".split()
AWD += "--activation-regularization 2 --temporal-activation-regularization 1".split()
TIED = ["--output-head", "tied"]
TIED_ALONE = pytest.mark.parametrize("trained", ["tied"], indirect=True)  # what words are made of makes no difference
BEGINS = re.compile(r"averaging begins with epoch (\d+)")


def saved(path):
    """Return a checkpoint's parameters in the optimizer's order, its optimizer's state for each, and that of the group."""
    state = torch.load(path, weights_only=True)
    parameters = [value for name, value in state["model"].items() if not name.endswith("_extra_state")]
    optimizer = state["last_optimizer_state"]
    return parameters, [optimizer["state"][i] for i in sorted(optimizer["state"])], optimizer["param_groups"][0]


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return torch.equal(one, other) if torch.is_tensor(one) else one == other


def assert_the_same_end(one, other):
    (first, states, group), (second, others, of_other) = (saved(folder / "checkpoint_last.pt") for folder in (one, other))
    assert len(first) == len(second) and all(map(torch.equal, first, second))
    assert len(states) == len(others) and all(map(same, states, others)) and group == of_other


def by_update(folder, pattern):
    return {int(re.findall(r"_(\d+)\.pt", path.name)[0]): path for path in folder.glob(pattern)}


@pytest.fixture(scope="module", params=["tied", "composed"])
def trained(request, commands, corpus, tmp_path_factory):
    """A training of which every update is saved, the epoch that averaging began with, and the options."""
    folder = tmp_path_factory.mktemp("awd") / "whole"
    options = [*AWD, "--max-epoch", "6", *(TIED if request.param == "tied" else COMPOSED)]
    output = commands.train(corpus / "data", folder, *options, "--save-interval-updates", "1")
    (begun,) = map(int, BEGINS.findall(output))
    assert begun == 4  # the text and the seed are so that both sides have epochs
    return folder, begun, options


def test_what_is_saved_is_the_mean_of_the_iterates(trained):
    folder, begun, _ = trained
    iterates = []
    for epoch in range(1, 7):
        inside = by_update(folder, f"checkpoint_{epoch}_*.pt")
        for path in [inside[update] for update in sorted(inside)] + [folder / f"checkpoint{epoch}.pt"]:
            parameters, states, group = saved(path)
            assert group["averaging"] is group["swapped"] is (epoch >= begun)
            if epoch < begun:
                assert not any("iterate" in state for state in states)
                continue
            iterates.append([state["iterate"] for state in states])
            assert [state["count"] for state in states] == [len(iterates)] * len(parameters)
            for parameter, state, *each in zip(parameters, states, *iterates, strict=True):
                assert torch.equal(parameter, state["average"])
                torch.testing.assert_close(parameter.double(), torch.stack(each).double().mean(0), rtol=1e-5, atol=1e-6)
    assert len(iterates) > 20 and not torch.equal(iterates[-1][0], parameters[0])


def test_the_released_program_s_last_block_keeps_the_rate_of_the_length_that_it_drew(commands, corpus, tmp_path):
    program = ["python", ROOT / "examples" / "papers" / "released_blocks.py", "18", corpus / "data", "--save-dir", tmp_path]
    options = [*AWD, *TIED, "--clip-norm", "0.01", "--weight-decay", "0", "--max-epoch", "3", "--save-interval-updates", "1"]
    assert "give that, or a --scale that has it" in commands.fails(*program, *PLUGIN, *TRAINING, *small(*TIED))
    commands.ok(*program, *PLUGIN, *TRAINING, *small(*options))
    rng, longest, expected, paths = np.random.RandomState(18), math.ceil(tokens_of(corpus / "train.txt") / 4), [], []
    for epoch in range(1, 4):
        begin = 0
        while begin < longest - 3:
            mean = 10 if rng.random_sample() < 0.95 else 5
            expected.append(max(5, int(rng.normal(mean, 5))))
            begin += expected[-1]
        assert begin > longest  # the last block is cut short
        inside = by_update(tmp_path, f"checkpoint_{epoch}_*.pt")
        paths += [inside[update] for update in sorted(inside)] + [tmp_path / f"checkpoint{epoch}.pt"]
    values = [parameters_to_vector(saved(path)[0]).double() for path in paths]
    found = [float((after - before).norm()) / (20 * 0.01) * 10 for before, after in itertools.pairwise(values)]
    assert found == pytest.approx(expected[1:], rel=1e-3)  # every gradient is longer than its clipped norm


@TIED_ALONE
def test_what_is_validated_is_what_is_saved(commands, corpus, trained):
    path = trained[0] / "checkpoint_last.pt"
    scoring = [*PLUGIN, "--path", path, "--batch-size", "4", "--valid-subset", "valid", "--num-workers", "0"]
    loss = re.findall(r"loss ([\d.]+)", commands.ok("fairseq-validate", corpus / "data", *scoring))[-1]
    assert float(loss) == pytest.approx(saved(path)[2]["losses"][6], abs=6e-4)


@TIED_ALONE
def test_how_often_it_is_validated_and_saved_changes_nothing(commands, corpus, trained, tmp_path):
    folder, _, options = trained
    commands.train(corpus / "data", tmp_path, *options, "--save-interval", "2", "--no-epoch-checkpoints")
    assert_the_same_end(folder, tmp_path)


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_resuming_is_bit_equal_on_both_sides(commands, corpus, trained, tmp_path, averaging, inside):
    folder, begun, options = trained
    epoch = begun + 1 if averaging else begun - 1  # the end of this one is where averaging begins
    within = by_update(folder, f"checkpoint_{epoch}_*.pt")
    shutil.copy(within[sorted(within)[3]] if inside else folder / f"checkpoint{epoch}.pt", tmp_path / "checkpoint_last.pt")
    output = commands.train(corpus / "data", tmp_path, *options)
    assert f"(epoch {epoch if inside else epoch + 1} @" in output and bool(BEGINS.findall(output)) is not averaging
    assert_the_same_end(folder, tmp_path)


@TIED_ALONE
def test_finetuning_and_a_reset_go_on_from_the_average(commands, corpus, trained, tmp_path):
    folder, _, options = trained
    best = folder / "checkpoint_best.pt"
    still = [*options, "--lr", "1e-30", "--max-update", "1", "--reset-dataloader"]
    commands.train(corpus / "data", tmp_path / "reset", *still, "--restore-file", best, "--reset-optimizer")
    finetuning = [*options, "--average-from-start", "--finetune-from-model", best]
    commands.train(corpus / "data", tmp_path / "tuned", *finetuning, "--lr", "1e-30", "--max-update", "3")
    expected = saved(best)[0]
    for run, averaging in (("reset", False), ("tuned", True)):
        parameters, _, group = saved(tmp_path / run / "checkpoint_last.pt")
        assert all(map(torch.equal, parameters, expected)) and group["averaging"] is averaging, run
    ends = ["--lr-scheduler", "until_non_monotonic", "--max-epoch", "30"]
    output = commands.train(corpus / "data", tmp_path / "ended", *finetuning, *ends)
    losses = [float(loss) for loss in re.findall(r"valid on 'valid' subset \| loss ([\d.]+)", output)]
    assert "stopping training because current learning rate (-1.0)" in output and 3 <= len(losses) < 30
    assert losses[-1] > min(losses[:-2]) and BEGINS.findall(output) == ["1"]
    again = commands.train(corpus / "data", tmp_path / "ended", *finetuning, *ends)
    assert "stopping training because current learning rate (-1.0)" in again and "valid on" not in again


def test_averages_over_adam_of_composed_words_resume_without_validation(commands, corpus, tmp_path):
    options = "--optimizer nt_asgd --nt-asgd-base adam --average-from-start --lr 0.01 --composed-lr-scale 0.3 --vary-bptt".split()
    options += "--full-update-prob 0.5 --max-epoch 1 --disable-validation --save-interval-updates 3".split()
    commands.train(corpus / "data", tmp_path / "whole", *options)
    (tmp_path / "resumed").mkdir()
    shutil.copy(by_update(tmp_path / "whole", "checkpoint_1_*.pt")[6], tmp_path / "resumed" / "checkpoint_last.pt")
    commands.train(corpus / "data", tmp_path / "resumed", *options)
    assert_the_same_end(tmp_path / "whole", tmp_path / "resumed")
    parameters, states, _ = saved(tmp_path / "whole" / "checkpoint_last.pt")
    assert all(torch.equal(parameter, state["average"]) for parameter, state in zip(parameters, states, strict=True))
    assert len({state["count"] for state in states}) == 2  # words were frozen for some steps


def test_two_workers_are_one(commands, corpus, tmp_path):
    options = [*AWD, "--average-from-start", "--dropout", "0", "--dropout-in", "0", "--lr", "1", "--max-update", "12"]
    commands.train(corpus / "data", tmp_path / "one", *options, "--batch-size", "4")
    output = two_workers(corpus / "data", tmp_path / "two", *options, "--batch-size", "2")
    assert BEGINS.findall(output)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert max((one[name] - two[name]).abs().max() for name in one if not name.endswith("bias.bias")) <= 1e-6
