"""What workers and fairseq's trainer keep: a checkpoint must hold it, and another training in the process must not find it."""

import sys
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import get_global_world_size
from fairseq.logging import progress_bar


def gather(value: Any) -> list[Any]:
    """Return the values of all workers, in their order, to every worker."""
    values: list[Any] = [value] * get_global_world_size()
    if len(values) > 1:
        torch.distributed.all_gather_object(values, value)
    return values


def early_stop() -> dict[str, Any]:
    """Return the counters that fairseq keeps on its function ``should_stop_early`` and forgets on resume, best and num_runs."""
    modules = map(sys.modules.get, ("__main__", "fairseq_cli.train"))  # the first: python -m fairseq_cli.train
    return next((vars(m.should_stop_early) for m in modules if m and hasattr(m, "should_stop_early")), {})


def forget_earlier_training() -> None:
    """Remove what fairseq keeps of a training that this process ran before, as a sweep of Hydra's does.

    Its best loss would keep this one's best checkpoint from being saved, and stop it early; its TensorBoard files would get this
    one's figures.
    """
    early_stop().clear()
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    for writer in progress_bar._tensorboard_writers.values():
        writer.close()
    progress_bar._tensorboard_writers.clear()
