"""``nt_asgd``: SGD, or Adam, and from the epoch on in which the validation loss ceases to fall the average of its iterates."""

import ast
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import Adam
from omegaconf import II

from fairseq_groc.errors import OptionError, shown
from fairseq_groc.optim.averaged_sgd import AveragedSGD, Averaging
from fairseq_groc.options import described
from fairseq_groc.registry import Option, expect, flag

BETAS, EPS = (0.9, 0.999), 1e-8
BETA = Option(BETAS[0], "a beta of Adam's", "weight")
COPIES = "the averages would be those of the parameters' copies. Leave it out"
OTHER_AVERAGE = "what is saved is an average already. Leave it out"
SHARED_OUT = "it does not give the optimizer whole parameters. Leave it out"
REFUSED = {
    "fp16": COPIES,
    "bf16": COPIES,
    "store_ema": OTHER_AVERAGE,
    "use_bmuf": OTHER_AVERAGE,
    "zero_sharding": SHARED_OUT,
    "ddp_backend": SHARED_OUT,
}
HARMLESS = {"zero_sharding": ["none"], "ddp_backend": ["c10d", "legacy_ddp", "no_c10d", "pytorch_ddp"]}


class AveragedAdam(Averaging, Adam):
    """The Adam of fairseq's ``--optimizer adam`` with averages."""

    base = "adam"


@dataclass
class NTASGDConfig(FairseqDataclass):
    """Options of the optimizer."""

    nt_asgd_base: ChoiceEnum(["sgd", "adam"]) = described("sgd", "what makes the steps")
    non_monotonic_interval: int = described(
        5, "averaging begins when the validation loss is above one that is older by more epochs than this"
    )
    average_from_start: bool = described(
        False, "average from the first update on: AWD-LSTM's finetuning, with --finetune-from-model"
    )
    weight_decay: float = described(0.0, "weight decay: in the gradient, with adam decoupled from it")
    adam_betas: Any = described(BETAS, "--nt-asgd-base adam: its betas")
    adam_eps: float = described(EPS, "--nt-asgd-base adam: its epsilon")
    lr: Any = field(default=II("optimization.lr"))
    fp16: bool = II("common.fp16")
    bf16: bool = II("common.bf16")
    amp: bool = II("common.amp")
    store_ema: bool = II("ema.store_ema")
    use_bmuf: bool = II("optimization.use_bmuf")
    zero_sharding: str = II("distributed_training.zero_sharding")
    ddp_backend: str = II("distributed_training.ddp_backend")
    disable_validation: bool = II("dataset.disable_validation")


@register_optimizer("nt_asgd", dataclass=NTASGDConfig)
class FairseqNTASGD(FairseqOptimizer):
    """Non-monotonically triggered averaged SGD (Merity et al. 2018, Algorithm 1).

    The task says which epoch it is and what the losses are, and has the averages swapped in.

    Raises:
        OptionError: options that do not go together, or a task that says nothing.
    """

    def __init__(self, cfg: NTASGDConfig, params: Any):
        super().__init__(cfg)
        check(cfg)
        kind = AveragedAdam if cfg.nt_asgd_base == "adam" else AveragedSGD
        interval, from_start = cfg.non_monotonic_interval, cfg.average_from_start
        self._optimizer = kind(params, interval=interval, from_start=from_start, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """What the command says of the optimizer."""
        given = {"lr": self.cfg.lr[0], "weight_decay": self.cfg.weight_decay}
        if self.cfg.nt_asgd_base == "adam":
            given.update(betas=betas(self.cfg.adam_betas), eps=self.cfg.adam_eps)
        return given

    def step(self, *arguments: Any, **options: Any) -> None:
        """Step, in an epoch that the task has named."""
        if self._optimizer.epoch is None:
            raise OptionError("--optimizer nt_asgd: this task does not tell it the validation losses. Use --task wordnet_lexicon")
        super().step(*arguments, **options)


def averaging_of(optimizer: Any) -> Averaging | None:
    """Return what averages in one of fairseq's optimizers, also within that of ``--amp``; None: nothing does."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if isinstance(inner, Averaging) else None


def betas(given: Any) -> tuple[float, ...]:
    """Return Adam's betas from what was typed.

    Raises:
        OptionError: they are not two numbers from 0 to below 1.
    """
    try:
        found = tuple(ast.literal_eval(given) if isinstance(given, str) else given)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        found = ()
    if len(found) != 2 or any(BETA.refusal(one) for one in found):
        raise OptionError(f"--adam-betas {shown(str(given))}: expected two numbers from 0 to below 1, like '{BETAS}'")
    return found


def check(cfg: Any) -> None:
    """Refuse options that do not go together.

    Raises:
        OptionError: with the first of them.
    """
    for name, why in REFUSED.items():
        value = getattr(cfg, name)
        if value and str(value) not in HARMLESS.get(name, []):
            raise OptionError(f"--optimizer nt_asgd with {flag(name)}{'' if value is True else f' {value}'}: {why}.")
    if cfg.amp and cfg.nt_asgd_base == "sgd":
        raise OptionError("--optimizer nt_asgd with --amp: fairseq would divide SGD's steps by the loss's scale. Leave it out.")
    if cfg.disable_validation and not cfg.average_from_start:
        raise OptionError(
            "--optimizer nt_asgd with --disable-validation: it would never begin to average. Leave that out, or give "
            "--average-from-start"
        )
    expect("natural", non_monotonic_interval=cfg.non_monotonic_interval)
    if cfg.nt_asgd_base == "sgd" and (betas(cfg.adam_betas) != BETAS or cfg.adam_eps != EPS):
        raise OptionError("--adam-betas and --adam-eps do nothing without --nt-asgd-base adam: give it, or leave them out")
