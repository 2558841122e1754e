"""What the task says of the machine before training."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_groc.tasks.checks import check_machine


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
    check_machine(SimpleNamespace(encode_in_bf16=asked, cpu=True, fp16=False, tpu=False))
    assert ("no bfloat16 of its own" in caplog.text) == (warns and asked)


def test_an_older_torch_cannot_tell(monkeypatch, caplog):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    check_machine(SimpleNamespace(encode_in_bf16=True, cpu=True, fp16=False, tpu=False))
    assert not caplog.records
