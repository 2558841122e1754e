"""State that fairseq averages with others of its kind, and that is itself again afterwards."""

import copy
from types import SimpleNamespace

import pytest
import torch
from fairseq.models.ema import EMA
from torch import nn

from fairseq_groc.errors import OptionError
from fairseq_groc.modules.packed_state import pack, unpack

STATE = ["naïve", "\udcff", "日本", "\N{GRINNING FACE}", 'quote"\\', "", 0.1, None, True, {"cutoffs": [1, 2], "word": -3}]


def in_place(tensors):
    """As ``average_checkpoints.py`` does it: summed and divided in place, whole numbers rounded down."""
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    return total.div_(len(tensors)) if total.is_floating_point() else total // len(tensors)


def decayed(tensors, decay=0.99995):
    """As ``--ema-fp32`` does it, from the first on, many times."""
    mean = tensors[0].float()
    for _ in range(20_000):
        mean.mul_(decay).add_(tensors[-1], alpha=1 - decay)
    return mean


def test_a_state_is_itself_again():
    assert unpack(pack(STATE)) == STATE and unpack(STATE) == STATE  # as it was saved once


@pytest.mark.parametrize("mean", [in_place, lambda tensors: sum(tensors) / len(tensors), decayed])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_mean_of_equal_states_is_the_state(mean, count):
    assert unpack(mean([pack(STATE) for _ in range(count)])) == STATE


def test_the_mean_of_unequal_states_is_refused_and_logged(caplog):
    for other in (["a", "c"], ["b", "a"]):
        with pytest.raises(OptionError, match="differ in words or options.*Average checkpoints of one training"):
            unpack((pack(["a", "b"]) + pack(other)) / 2)
    with pytest.raises(OptionError, match="differ in words or options"):
        unpack(torch.zeros(0))
    assert [record.levelname for record in caplog.records] == 3 * ["ERROR"]  # what fairseq-train says last is not why


@pytest.mark.parametrize("fp32", [False, True])
def test_fairseqs_moving_average_takes_it(fp32):
    class Model(nn.Linear):
        def get_extra_state(self):
            return pack(STATE)

        def set_extra_state(self, state):
            assert unpack(state) == STATE

    model = Model(2, 2)
    config = SimpleNamespace(ema_decay=0.9, ema_fp32=fp32, ema_seed_model=None, ema_start_update=0, ema_update_freq=1)
    average, before = EMA(copy.deepcopy(model), config), model.weight.detach().clone()
    nn.init.constant_(model.weight, 1)
    average.step(model)
    torch.testing.assert_close(average.get_model().weight, 0.9 * before + 0.1)
