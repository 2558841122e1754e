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
        self.averaging = averaging

    def step_update(self, num_updates: int) -> Any:
        """Return the learning rate, or after the last epoch what fairseq ends at."""
        lr = super().step_update(num_updates)
        return END if self.averaging.is_over() else lr
