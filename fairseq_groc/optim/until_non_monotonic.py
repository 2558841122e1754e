"""``until_non_monotonic``: fairseq's ``fixed`` schedule, which ends a training as AWD-LSTM's finetuning ends."""

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

    def __init__(self, cfg: FixedLRScheduleConfig, optimizer):
        super().__init__(cfg, optimizer)
        self.averaging = averaging_of(optimizer)
        if self.averaging is None or not self.averaging.from_start:
            raise OptionError("--lr-scheduler until_non_monotonic: needs --optimizer nt_asgd --average-from-start")

    def step_update(self, num_updates):
        """Return the learning rate, or after the last epoch what fairseq ends at."""
        lr = super().step_update(num_updates)
        return END if self.averaging.is_over() else lr
