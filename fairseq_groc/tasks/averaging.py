"""What a task does for an optimizer that averages: it says which epoch it is, and has averages validated and saved."""

from typing import Any

from fairseq.tasks import FairseqTask

from fairseq_groc.optim.averaged_sgd import Averaging
from fairseq_groc.optim.nt_asgd import averaging_of


class AveragingTask(FairseqTask):
    """A task that trains with ``nt_asgd``, or any other optimizer."""

    _averaging: Averaging | None = None
    _epoch = 0  # in training
    _validated: int | None = None  # epoch whose loss is awaited

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Note the epoch."""
        super().begin_epoch(epoch, model)
        self._epoch = epoch

    def prepare_step(self, optimizer: Any) -> None:
        """Let the parameters be what the next step goes on from; to be called before they are used."""
        self._averaging = averaging_of(optimizer)
        if self._averaging is not None:
            self._averaging.begin_step(self._epoch)

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """Let the parameters be averages."""
        super().begin_valid_epoch(epoch, model)
        self._validated = epoch
        if self._averaging is not None:
            self._averaging.swap_in()

    def post_validate(self, model: Any, stats: Any, agg: Any) -> None:
        """Note the loss of the first validation text, unrounded; fairseq calls this before it saves."""
        if self._averaging is not None and self._validated is not None:
            self._averaging.losses[self._validated] = float(agg["loss"].avg)
        self._validated = None

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """Let the model be averages, also where nothing was validated: fairseq calls this before it saves."""
        if self._averaging is not None:
            self._averaging.swap_in()
        return {}
