"""What workers and fairseq's trainer keep: a checkpoint must hold it, and another training in the process must not find it."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar


def rank_and_world() -> tuple[int, int]:
    """Return the number of this worker and how many there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def gather(value: Any) -> list[Any]:
    """Return the values of all workers, in their order, to every worker."""
    _, world = rank_and_world()
    if world == 1:
        return [value]
    values: list[Any] = [None] * world
    torch.distributed.all_gather_object(values, value)
    return values


def early_stop_function() -> Callable[..., Any]:
    """Return fairseq's ``should_stop_early``, wherever it was imported."""
    modules = map(sys.modules.get, ("__main__", "fairseq_cli.train"))  # the first: python -m fairseq_cli.train
    return next((m.should_stop_early for m in modules if m and hasattr(m, "should_stop_early")), early_stop)


def early_stop() -> dict[str, Any]:
    """Return the counters that fairseq keeps on its function ``should_stop_early`` and forgets on resume."""
    function = early_stop_function()
    return {name: getattr(function, name) for name in ("best", "num_runs") if hasattr(function, name)}


def forget_earlier_training() -> None:
    """Remove what fairseq keeps of a training that this process ran before, as a sweep of Hydra's does.

    Its best loss would keep this one's best checkpoint from being saved, and stop it early; its TensorBoard files would get this
    one's figures.
    """
    for function in (early_stop_function(), checkpoint_utils.save_checkpoint):
        for name in ("best", "num_runs"):
            function.__dict__.pop(name, None)
    for writer in progress_bar._tensorboard_writers.values():
        writer.close()
    progress_bar._tensorboard_writers.clear()
