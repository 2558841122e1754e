"""Checkpoints and stores of before load, and score as they did: to the bit on the machine that made the figures."""

import json

import pytest
from golden_scores import GOLDEN, scores_of, this_machine

EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["scores"])
def test_a_model_of_before_scores_as_it_did(name, tmp_path):
    found, expected = scores_of(name, tmp_path), EXPECTED["scores"][name]
    if this_machine() == EXPECTED["machine"]:
        assert found == expected
    for now, before in zip(found, expected, strict=True):
        assert [float.fromhex(score) for score in now] == pytest.approx([float.fromhex(score) for score in before], rel=1e-5)


def test_every_head_is_among_them():
    from fairseq_groc.heads import HEADS

    assert HEADS.keys() <= EXPECTED["scores"].keys()
