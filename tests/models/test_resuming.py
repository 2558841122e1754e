"""What a kill leaves of checkpoints, and what takes its place."""

import os

import pytest
import torch

from fairseq_groc.errors import DataError
from fairseq_groc.tasks.resuming import mend_checkpoints


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves a checkpoint, cut or not, each newer than those before."""

    def save(name, val_loss=None, best=None, whole=True):
        path = tmp_path / name
        torch.save({"model": {"weight": torch.rand(1000)}, "extra_state": {"val_loss": val_loss, "best": best}}, path)
        if not whole:
            path.write_bytes(path.read_bytes()[:2000])
        moment = len(list(tmp_path.iterdir()))
        os.utime(path, (moment, moment))
        return path

    return save


def test_what_can_be_read_stays(saved, tmp_path):
    kept = {path: path.read_bytes() for path in (saved(f"checkpoint_{name}.pt", 1, 1) for name in ("best", "last"))}
    saved("checkpoint_1_4.pt", whole=False)  # which nothing reads
    mend_checkpoints(tmp_path)
    assert {path: path.read_bytes() for path in kept} == kept and not list(tmp_path.glob("*.damaged"))
    mend_checkpoints(tmp_path / "none")


def test_the_newest_is_the_last_one_and_only_the_best_is_the_best_one(saved, tmp_path):
    saved("checkpoint1.pt", 3, 3)
    best = saved("checkpoint2.pt", 1, 1).read_bytes()
    newest = saved("checkpoint_3_9.pt", 2, 1).read_bytes()
    saved("checkpoint_3_10.pt", 2, 1, whole=False)
    cut = [saved(f"checkpoint_{name}.pt", 2, 1, whole=False) for name in ("best", "last")]
    was = [path.read_bytes() for path in cut]
    mend_checkpoints(tmp_path)
    assert [path.read_bytes() for path in cut] == [best, newest]
    assert [path.with_name(f"{path.name}.damaged").read_bytes() for path in cut] == was


def test_no_other_is_taken_for_the_best_one(saved, tmp_path, caplog):
    last, best = saved("checkpoint_last.pt", 2, 1), saved("checkpoint_best.pt", 1, 1, whole=False)
    before = last.read_bytes()
    mend_checkpoints(tmp_path)
    assert not best.exists() and last.read_bytes() == before
    assert f"{best} cannot be read: it is set aside as checkpoint_best.pt.damaged, and no other has the best loss" in caplog.text


def test_nothing_begins_anew_by_itself(saved, tmp_path):
    last = saved("checkpoint_last.pt", 1, 1, whole=False)
    with pytest.raises(DataError, match="cannot be read, nor can another checkpoint beside it: remove it to begin anew"):
        mend_checkpoints(tmp_path)
    assert last.exists()
