"""Averages of what an optimizer passes through: NT-ASGD (Merity et al. 2018, section 3), over SGD or any other optimizer.

The average is over all iterates since it began, and a step has the learning rate of its own time: ``torch.optim.ASGD`` leaves out
the first iterate and steps at the rate of the step before.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.errors import OptionError

logger = logging.getLogger(__name__)


def non_monotonic(losses: Sequence[float], interval: int) -> bool:
    """Return whether the last of some losses is above the lowest of those that are more than *interval* older."""
    return len(losses) - 1 > interval and losses[-1] > min(losses[: -1 - interval])


class Averaging(torch.optim.Optimizer):
    """Mixed into an optimizer, before it: from some epoch on the mean of the iterates is kept as well.

    ``begin_step`` says in which epoch the next step is, and averaging begins when the losses of earlier epochs are no longer
    monotonic. ``swap_in`` puts the averages in the parameters' place, ``swap_out`` the iterates; both may be called at any time.
    Parameters without a gradient have not moved, and their averages wait for them. All of it is in ``state_dict``.

    Args:
        interval: so many epochs a loss may be above earlier ones
        from_start: average from the first epoch on
        arguments, options: of the optimizer
    """

    base = ""  # what makes the steps, as ``--nt-asgd-base`` names it

    def __init__(self, *arguments: Any, interval: int = 5, from_start: bool = False, **options: Any):
        super().__init__(*arguments, **options)
        self.interval, self.from_start = interval, from_start
        self.epoch: int | None = None
        self._moved: list[Tensor] = []
        self._own.update(base=self.base, averaging=False, swapped=False, losses={})  # plain types, which checkpoints hold

    @property
    def _own(self) -> dict[str, Any]:
        return self.param_groups[0]

    @property
    def losses(self) -> dict[int, float]:
        """Validation losses by epoch."""
        return self._own["losses"]

    @property
    def averaging(self) -> bool:
        """Whether averages are kept."""
        return self._own["averaging"]

    def begin_step(self, epoch: int) -> None:
        """Be ready for a step in an epoch: parameters are iterates, and averages are kept from now on if it is time."""
        self.swap_out()
        self.epoch = epoch
        if not self.averaging and (self.from_start or self.is_over(epoch)):
            self._own["averaging"] = True
            logger.info(f"averaging begins with epoch {epoch}: what is validated and saved is the mean of the iterates")

    def is_over(self, epoch: int) -> bool:
        """Return whether the losses of the epochs before one have ceased to fall."""
        past = [self.losses[e] for e in sorted(self.losses) if e < epoch]
        return non_monotonic(past, self.interval)

    def step(self, closure: Any = None) -> Any:
        """Step as the optimizer does.

        Raises:
            RuntimeError: the parameters are averages.
        """
        if self._own["swapped"]:
            raise RuntimeError("the parameters are averages, which no step goes on from: call swap_out first")
        self._take_in()
        result = super().step(closure)
        if self.averaging:
            self._moved = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        return result

    @torch.no_grad()
    def _take_in(self) -> None:
        """Take the last iterate into the averages: not before it is needed, since the step may be corrected after it."""
        by_count = defaultdict(list)
        for p in self._moved:
            state = self.state[p]
            state["count"] = state.get("count", 0) + 1
            if state["count"] == 1:
                state["average"] = p.detach().clone()
            else:
                by_count[state["count"]].append(p)
        for count, parameters in by_count.items():
            torch._foreach_lerp_([self.state[p]["average"] for p in parameters], parameters, 1 / count)
        self._moved = []

    @torch.no_grad()
    def swap_in(self) -> None:
        """Let the parameters be averages, in place."""
        self._take_in()
        if self.averaging and not self._own["swapped"]:
            for p, state in self.state.items():
                if "average" in state:
                    state["iterate"] = p.detach().clone()
                    p.copy_(state["average"])
            self._own["swapped"] = True

    @torch.no_grad()
    def swap_out(self) -> None:
        """Let the parameters be iterates again, in place."""
        if self._own["swapped"]:
            for p, state in self.state.items():
                if "iterate" in state:
                    p.copy_(state.pop("iterate"))
            self._own["swapped"] = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer and of the averages."""
        self._take_in()
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state; the parameters are those that were saved with it.

        Raises:
            OptionError: it is another optimizer's.
        """
        saved = state_dict["param_groups"][0]["base"]
        if saved != self.base:
            raise OptionError(f"--nt-asgd-base {self.base}: the checkpoint is of {saved}. Give that, or --reset-optimizer")
        super().load_state_dict(state_dict)
        self._moved = []


class AveragedSGD(Averaging, torch.optim.SGD):
    """``torch.optim.SGD`` with averages."""

    base = "sgd"
