"""``resumable_reduce_lr_on_plateau``: fairseq's schedule, with its counters kept on resume."""

from typing import Any

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule, ReduceLROnPlateauLRScheduleConfig

_COUNTERS = ("num_bad_epochs", "cooldown_counter")


@register_lr_scheduler("resumable_reduce_lr_on_plateau", dataclass=ReduceLROnPlateauLRScheduleConfig)
class ResumableReduceLROnPlateau(ReduceLROnPlateauLRSchedule):
    """Shrink the learning rate when the validation loss stops falling; options as ``reduce_lr_on_plateau``."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **{name: getattr(self.lr_scheduler, name) for name in _COUNTERS}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for name in _COUNTERS:
            setattr(self.lr_scheduler, name, state_dict.get(name, 0))
