"""What is said of options and of the machine before training."""

import math
from types import SimpleNamespace

import pytest
import torch

from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.models.groc_lstm_lm import GrocLSTMLanguageModel, GrocLSTMLanguageModelConfig
from fairseq_groc.options import HeadConfig, head_settings
from fairseq_groc.registry import expect
from fairseq_groc.tasks.checks import check_criterion, check_machine, check_streams, check_updates, check_use
from fairseq_groc.tasks.config import WordnetLexiconConfig


@pytest.mark.parametrize(
    "features, warns",
    [
        ({"avx512_bf16": False, "amx_bf16": False}, True),
        ({"avx512_bf16": True, "amx_bf16": False}, False),
        ({"avx512_bf16": False, "amx_bf16": True}, False),
        ({"bf16": False}, True),
        ({"bf16": True}, False),
        ({}, False),
    ],
    ids=["neither", "AVX512-BF16", "AMX", "ARM without", "ARM with", "unknown"],
)
@pytest.mark.parametrize("asked", [True, False])
def test_emulated_bfloat16_is_warned_of(monkeypatch, caplog, features, warns, asked):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)
    check_machine(SimpleNamespace(autocast_bf16=asked, cpu=True, fp16=False, bf16=False, amp=False, tpu=False))
    assert ("no bfloat16 of its own" in caplog.text) == (warns and asked)


@pytest.mark.parametrize("other", ["fp16", "bf16", "amp"])
def test_one_way_of_rounding(other):
    given = {"autocast_bf16": True, "cpu": False, "fp16": False, "bf16": False, "amp": False, "tpu": False, other: True}
    with pytest.raises(OptionError, match="--autocast-bf16, --fp16, --amp and common.bf16 are four ways to round: give one"):
        check_machine(SimpleNamespace(**given))


@pytest.mark.parametrize("asked, cpu, gpu", [(True, True, True), (True, False, False), (True, False, True), (False, True, False)])
def test_amp_without_a_gpu_is_warned_of(monkeypatch, caplog, asked, cpu, gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    check_machine(SimpleNamespace(autocast_bf16=False, cpu=cpu, fp16=False, bf16=False, amp=asked, tpu=False))
    assert ("--amp does nothing without a GPU" in caplog.text) == (asked and (cpu or not gpu))


def test_an_older_torch_cannot_tell(monkeypatch, caplog):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    check_machine(SimpleNamespace(autocast_bf16=True, cpu=True, fp16=False, bf16=False, amp=False, tpu=False))
    assert not caplog.records


@pytest.mark.parametrize(
    "kind, good, bad, expected",
    [
        ("weight", [0, 0.5], [-0.1, 1, math.nan, math.inf], "a number from 0 to below 1"),
        ("share", [1e-9, 1], [0, 1.5, math.nan], "a number above 0, at most 1"),
        ("factor", [1e-9, 1e9], [0, -1, math.inf, math.nan], "a number above 0"),
        ("count", [1, 99], [0, -math.inf, math.inf], "1 or more"),
        ("natural", [0, 99], [-1, math.inf], "0 or more"),
        ("dropout", [0, 0.5], [-0.1, 1, math.nan, math.inf], "a number from 0 to below 1"),
        ("dropout or -1", [-1, 0, 0.5], [-0.1, 1, math.nan, math.inf], "a number from 0 to below 1, or -1"),
        ("number", [0, -1e300], [math.inf, -math.inf, math.nan], "a number"),
    ],
)
def test_numbers_of_a_kind(kind, good, bad, expected):
    for value in good:
        expect(kind, some_option=value)
    for value in bad:
        with pytest.raises(OptionError) as error:
            expect(kind, some_option=value)
        assert str(error.value) == f"--some-option {value:g}: expected {expected}"


@pytest.mark.parametrize("name", ["full_update_prob", "sampled_update_fraction"])
@pytest.mark.parametrize("value", [-0.5, 1.5, math.nan])
def test_shares_of_training(name, value):
    cfg = WordnetLexiconConfig(fp16=False, bf16=False)
    setattr(cfg, name, value)
    with pytest.raises(OptionError, match=f"--{name.replace('_', '-')} .*: expected a number"):
        check_updates(cfg)


@pytest.mark.parametrize("name, value", [("refresh_interval", 0), ("uniform_weight", 1), ("cache_theta", math.inf)])
def test_numbers_of_use(name, value):
    cfg = WordnetLexiconConfig(seed=1, local_weight=0.5)
    check_use(cfg)
    setattr(cfg, name, value)
    with pytest.raises(OptionError, match=f"--{name.replace('_', '-')} {value:g}: expected"):
        check_use(cfg)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("init_range", math.inf, "--init-range inf: expected a number above 0"),
        ("init_range", math.nan, "--init-range nan: expected a number above 0"),
        ("highway_layers", -1, "--highway-layers -1: expected 0 or more"),
        ("char_embed_dim", 0, "--char-embed-dim 0: expected 1 or more"),
        ("output_query", "square", "--output-query square: expected one of identity, linear"),
        ("output_dropout", 1, "--output-dropout 1: expected a number from 0 to below 1"),
        ("feature_dropout", -0.5, "--feature-dropout -0.5: expected a number from 0 to below 1, or -1"),
        ("embedding_dropout", 1.0, "--embedding-dropout 1: expected a number from 0 to below 1"),
        ("char_filters", [4, -1], r"--char-filters \[4, -1\]: expected a list of counts like \[32,32,64\]"),
        ("char_filters", [0, 0], r"--char-filters \[0, 0\]: expected a list of counts"),
    ],
)
def test_heads_that_cannot_be(name, value, message):
    cfg = HeadConfig()
    setattr(cfg, name, value)
    with pytest.raises(OptionError, match=message):
        head_settings(cfg)


@pytest.mark.parametrize("name", ["decoder_embed_dim", *ENCODERS.taken["awd_lstm"]])
def test_models_that_cannot_be(name):
    cfg = GrocLSTMLanguageModelConfig(prefix_encoder="awd_lstm")
    setattr(cfg, name, -1)
    with pytest.raises(OptionError, match=f"--{name.replace('_', '-')} -1: expected"):
        GrocLSTMLanguageModel.build_model(cfg, SimpleNamespace(adapter_for=None, dictionary=None))


@pytest.mark.parametrize(
    "criterion, message",
    [
        (dict(_name="label_smoothed_cross_entropy", label_smoothing=0.0), "words of probability 0"),
        (dict(_name="label_smoothed_cross_entropy", label_smoothing=0.1), "words of probability 0"),
        (dict(_name="adaptive_loss"), "--criterion adaptive_loss .* --output-head adaptive --adaptive-scoring bins"),
    ],
)
def test_criteria_that_cannot_be(criterion, message):
    with pytest.raises(OptionError, match=message):
        check_criterion(SimpleNamespace(**criterion))


def test_more_streams_than_the_text_has_tokens():
    check_streams(SimpleNamespace(name="train", num_tokens_total=10), 5, 2)
    with pytest.raises(OptionError, match="--batch-size 6: 'train' has 10 tokens, too few for 12 streams.*at most 5"):
        check_streams(SimpleNamespace(name="train", num_tokens_total=10), 6, 2)
