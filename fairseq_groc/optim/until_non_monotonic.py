"""``until_non_monotonic``: fairseq's ``fixed`` schedule, which ends a training as AWD-LSTM's finetuning ends."""

from typing import Any

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRSchedule, FixedLRScheduleConfig

from fairseq_groc.errors import OptionError
from fairseq_groc.optim.nt_asgd import averaging_of

END = -1.0  # fairseq's default of --stop-min-lr, at which it ends


@register_lr_scheduler("until_non_monotonic", dataclass=FixedLRScheduleConfig)
class UntilNonMonotonic(FixedLRSchedule):
    """The averages' validation loss ends the training by the rule that otherwise begins to average.

    Raises:
        OptionError: the optimizer does not average from the start.
    """

    def __init__(self, cfg: FixedLRScheduleConfig, optimizer: Any):
        super().__init__(cfg, optimizer)
        averaging = averaging_of(optimizer)
        if averaging is None or not averaging.from_start:
            raise OptionError("--lr-scheduler until_non_monotonic: needs --optimizer nt_asgd --average-from-start")
        self.averaging, self.over = averaging, False

    def step(self, epoch: int, val_loss: Any = None) -> Any:
        """Look whether the losses of the epochs that are over end the training: fairseq gives a loss with an epoch's end."""
        self.over = self.averaging.is_over(epoch + (val_loss is not None))
        return super().step(epoch, val_loss)

    def step_update(self, num_updates: int) -> Any:
        """Set the learning rate, or after the last epoch what fairseq ends at; on resuming it asks the optimizer."""
        lr = super().step_update(num_updates)
        if self.over:
            self.optimizer.set_lr(END)
        return END if self.over else lr
