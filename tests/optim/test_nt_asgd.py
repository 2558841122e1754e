"""The optimizer that fairseq is given: its options, what it refuses, and what the task does for it."""

import re
from argparse import Namespace

import pytest
import torch
from fairseq import optim
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.logging.meters import AverageMeter
from fairseq.optim import lr_scheduler
from omegaconf import OmegaConf

from fairseq_groc.errors import OptionError
from fairseq_groc.optim.averaged_sgd import AveragedSGD
from fairseq_groc.optim.nt_asgd import AveragedAdam, averaging_of
from fairseq_groc.tasks.averaging import AveragingTask
from fairseq_groc.tasks.wordnet_lexicon import WordnetLexiconTask


def config(optimizer=(), schedule="fixed", **sections):
    """Return fairseq's configuration as of a YAML file."""
    chosen = {"optimizer": {"_name": "nt_asgd", **dict(optimizer)}, "lr_scheduler": {"_name": schedule}}
    given = {"optimization": {"lr": [10.0]}, **{name: dict(values) for name, values in sections.items()}}
    cfg = OmegaConf.merge(OmegaConf.structured(FairseqConfig()), OmegaConf.create({**chosen, **given}))
    add_defaults(cfg)
    return cfg


def built(optimizer=(), **sections):
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    return parameter, optim.build_optimizer(config(optimizer, **sections).optimizer, [parameter])


@pytest.fixture
def task(dictionary):
    return WordnetLexiconTask(Namespace(vary_bptt=True, tokens_per_sample=10), dictionary)


def test_options_arrive():
    _, optimizer = built({"weight_decay": 0.25, "non_monotonic_interval": 3, "average_from_start": True})
    inner = averaging_of(optimizer)
    assert type(inner) is AveragedSGD and (inner.interval, inner.from_start) == (3, True)
    assert optimizer.get_lr() == 10 and inner.param_groups[0]["weight_decay"] == 0.25
    assert (averaging_of(built()[1]).interval, averaging_of(built()[1]).from_start) == (5, False)


@pytest.mark.parametrize("typed", ["(0.5, 0.75)", [0.5, 0.75]])
def test_options_of_adam_arrive(typed):
    inner = averaging_of(built({"nt_asgd_base": "adam", "adam_betas": typed, "adam_eps": 0.5})[1])
    assert type(inner) is AveragedAdam
    assert (tuple(inner.param_groups[0]["betas"]), inner.param_groups[0]["eps"]) == ((0.5, 0.75), 0.5)


def test_it_is_found_within_amps_and_no_other_is():
    parameter = torch.nn.Parameter(torch.zeros(1))
    with pytest.warns(Warning, match="GradScaler"):  # there is no GPU, and it is an old name
        amp = optim.AMPOptimizer.build_optimizer(config(), [parameter])
    assert averaging_of(amp) is amp.optimizer
    assert averaging_of(optim.build_optimizer(config({"_name": "adam"}).optimizer, [parameter])) is None


@pytest.mark.parametrize(
    "optimizer, sections, expected",
    [
        ({}, {"common": {"amp": True}}, "nt_asgd with --amp: fairseq would divide SGD's steps by the loss's scale"),
        ({}, {"common": {"fp16": True}}, "nt_asgd with --fp16: the averages would be those of the parameters' copies"),
        ({}, {"common": {"bf16": True}}, "nt_asgd with --bf16: the averages would be those of the parameters' copies"),
        ({}, {"ema": {"store_ema": True}}, "nt_asgd with --store-ema: what is saved is an average already"),
        ({}, {"optimization": {"use_bmuf": True, "lr": [1.0]}}, "nt_asgd with --use-bmuf: what is saved"),
        ({}, {"distributed_training": {"zero_sharding": "os"}}, "nt_asgd with --zero-sharding os: it does not give"),
        ({}, {"distributed_training": {"ddp_backend": "slowmo"}}, "nt_asgd with --ddp-backend slowmo: it does not give"),
        ({}, {"distributed_training": {"ddp_backend": "fully_sharded"}}, "nt_asgd with --ddp-backend fully_sharded: it does"),
        ({}, {"dataset": {"disable_validation": True}}, "it would never begin to average"),
        ({"non_monotonic_interval": -1}, {}, "--non-monotonic-interval -1: expected 0 or more"),
        *(
            ({"nt_asgd_base": base, "adam_betas": typed}, {}, f"--adam-betas '{re.escape(str(typed))}': expected two")
            for base in ("adam", "sgd")
            for typed in ("(0.9", "0.9", "(0.9, 1)", "(0.9, 0.99, 0.999)", "(None, 0.9)", "[[0.9], 0.9]", "all", [0.9])
        ),
        ({"adam_eps": 0.1}, {}, "--adam-betas and --adam-eps do nothing without --nt-asgd-base adam"),
        ({"adam_betas": "(0.5, 0.9)"}, {}, "--adam-betas and --adam-eps do nothing without --nt-asgd-base adam"),
    ],
)
def test_what_does_not_go_together_is_refused(optimizer, sections, expected):
    with pytest.raises(OptionError, match=expected) as refusal:
        built(optimizer, **sections)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("backend", ["c10d", "legacy_ddp", "no_c10d", "pytorch_ddp"])
def test_workers_that_hold_whole_parameters_are_not(backend):
    assert built(distributed_training={"ddp_backend": backend})[1].get_lr() == 10


def test_averaging_from_the_start_needs_no_validation():
    assert built({"average_from_start": True}, dataset={"disable_validation": True})[1].get_lr() == 10


@pytest.mark.filterwarnings("ignore:.*GradScaler")  # there is no GPU, and it is an old name
@pytest.mark.parametrize("base, other, amp", [("sgd", "adam", False), ("adam", "sgd", False), ("adam", "sgd", True)])
def test_a_checkpoint_of_the_other_base_is_refused(base, other, amp):
    state = built({"nt_asgd_base": other})[1].state_dict()
    parameter, optimizer = built({"nt_asgd_base": base})
    if amp:
        optimizer = optim.AMPOptimizer.build_optimizer(config({"nt_asgd_base": base}), [parameter])
    optimizer.load_state_dict(optimizer.state_dict())
    with pytest.raises(OptionError, match=f"--nt-asgd-base {base}: the checkpoint is of {other}. Give that, or --reset-opt"):
        optimizer.load_state_dict(state)


def test_a_task_that_does_not_tell_the_epoch_is_refused():
    parameter, optimizer = built()
    parameter.grad = torch.ones_like(parameter)
    with pytest.raises(OptionError, match="Use --task wordnet_lexicon"):
        optimizer.step()


@pytest.mark.parametrize("from_start", [False, True])
def test_the_learning_rate_of_a_block_is_for_its_own_length(task, from_start):
    parameter, optimizer = built({"average_from_start": from_start})
    task.begin_epoch(1, None)
    steps = []
    for lengths in ([1], [10], [100], [5, 25]):  # the last: with --update-freq 2
        task.prepare_step(optimizer)
        parameter.grad, before = torch.ones_like(parameter), parameter.item()
        task._block_lengths = lengths
        task._step(optimizer, None, 0)
        steps.append(before - parameter.item())
        assert optimizer.get_lr() == 10
    assert steps == pytest.approx([1, 10, 100, 15], rel=1e-13)


def meters(loss):
    meter = AverageMeter(round=3)
    meter.update(loss)
    return {"loss": meter}


def test_the_task_notes_the_last_unrounded_loss_of_the_first_text(task):
    optimizer = built()[1]
    for epoch, losses in ((1, [1.00049]), (2, [5.0, 1.5])):  # epoch 2 is validated twice
        task.begin_epoch(epoch, None)
        task.prepare_step(optimizer)
        for loss in losses:
            AveragingTask.begin_valid_epoch(task, epoch, None)
            task.post_validate(None, {"loss": round(loss, 3)}, meters(loss))
            task.post_validate(None, {"loss": 99.0}, meters(99.0))  # of the second text
    assert averaging_of(optimizer).losses == {1: 1.00049, 2: 1.5}


def test_without_averages_the_task_takes_any_optimizer(task):
    parameter = torch.nn.Parameter(torch.zeros(1))
    task.begin_epoch(1, None)
    task.prepare_step(optim.build_optimizer(config({"_name": "adam"}).optimizer, [parameter]))
    AveragingTask.begin_valid_epoch(task, 1, None)
    task.post_validate(None, {"loss": 1.0}, meters(1.0))


def test_the_schedule_ends_a_training_by_the_rule():
    cfg = config({"average_from_start": True, "non_monotonic_interval": 1}, "until_non_monotonic")
    optimizer = optim.build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
    schedule = lr_scheduler.build_lr_scheduler(cfg.lr_scheduler, optimizer)
    rates = []
    for epoch, loss in enumerate((1.0, 2.0, 0.9, 1.0, 0.95), start=1):
        averaging_of(optimizer).losses[epoch] = loss
        assert schedule.step_update(epoch) == optimizer.get_lr() == 10  # whatever is validated within an epoch
        schedule.step(epoch, loss)
        rates.append(schedule.step_update(epoch))
        schedule.step(epoch + 1)  # where the training is resumed after it
        assert schedule.step_update(epoch) == rates[-1]
    assert rates == [10, 10, 10, 10, cfg.optimization.stop_min_lr]
    assert optimizer.get_lr() == cfg.optimization.stop_min_lr  # which fairseq asks where a training is resumed


@pytest.mark.parametrize("optimizer", [{}, {"_name": "adam"}])
def test_the_schedule_is_for_averages_alone(optimizer):
    cfg = config(optimizer, "until_non_monotonic")
    made = optim.build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
    with pytest.raises(OptionError, match="until_non_monotonic: needs --optimizer nt_asgd --average-from-start"):
        lr_scheduler.build_lr_scheduler(cfg.lr_scheduler, made)
