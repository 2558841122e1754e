"""Dynamic evaluation: the model goes on learning from the text that it scores (Krause et al. 2018), as in DRILL's section 4.1.

B: streams; T: positions of a block; d: size of h.
"""

from __future__ import annotations

import copy
import logging
import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.adapters.base import AdapterSettings, TextAdapter, Use, register_adapter
from fairseq_groc.adapters.statistics import Statistics, load_statistics
from fairseq_groc.errors import OptionError
from fairseq_groc.registry import Option

logger = logging.getLogger(__name__)

ALL, ENCODER, HEAD, FEATURES, CONTEXT = CHOICES = ("all", "encoder", "head", "features", "context")
OF_STREAMS = (FEATURES, CONTEXT)  # of which each stream has its own
LOST = 5  # times the loss of a uniform guess: no model that was trained has so much over a block
WITHOUT = "leave it out (--no-tuned-adapters, if tune has stored it)"
LINES = (
    "--dynamic-rate: every line begins anew, lines by themselves leave nothing to learn from. Read a running text "
    f"(score --running; no --sample-break-mode eos), or {WITHOUT}."
)


class Leaves(ABC):
    """Copies of what changes of a model, which it reads with in place of its own: its parameters are left as they are.

    Args:
        tensors: by name
        origin: what they begin as and decay to, by name
        rows: names of those that have a row a word
        learns: whether gradients go through the model
    """

    tensors: dict[str, Tensor]
    origin: dict[str, Tensor]
    rows: set[str]
    learns = True

    @abstractmethod
    def acting(self) -> AbstractContextManager[Any]:
        """Let the model read with them."""

    def read(self, h: Tensor) -> Tensor:
        """Return what ``loss`` needs of a block, from the h that the model has made of it, (B, T, d): h, which remembers how."""
        return h

    @abstractmethod
    def loss(self, read: Tensor, targets: Tensor) -> Tensor:
        """Return the model's own mean loss over the possible targets, (B, T), while they act, or that of each stream."""

    @abstractmethod
    def reorder(self, order: Tensor) -> None:
        """Let stream i go on with those of stream order[i]."""


class UpdateRule:
    """theta <- theta + min(decay RMS / mean, 1) (theta_0 - theta) - rate g / (RMS + epsilon), number by number.

    That is Krause et al. 2018, section 4; ``mean`` is over all that changes, each tensor counting the same.

    Args:
        rate, decay, epsilon: eta, lambda, epsilon
        statistics: RMS and mean
    """

    def __init__(self, rate: float, decay: float, epsilon: float, statistics: Statistics):
        self._steps = {name: rate / (rms + epsilon) for name, rms in statistics.rms.items()}
        self._decays = {name: (decay * rms / statistics.mean).clamp_(max=1) for name, rms in statistics.rms.items()}

    @torch.no_grad()
    def update(self, name: str, theta: Tensor, origin: Tensor, gradient: Tensor | None) -> None:
        """Change a tensor in place; without a gradient it decays alone."""
        theta.lerp_(origin, self._decays[name].to(theta).expand_as(theta))
        if gradient is not None:
            theta.addcmul_(gradient, self._steps[name].to(theta).expand_as(theta), value=-1)


@register_adapter(
    "dynamic",
    dynamic_rate=Option(0.0, "learning rate eta of dynamic evaluation (Krause et al.: 5e-5); 0: off", "natural", "dynamic_rates"),
    dynamic_decay=Option(2e-3, "decay lambda to what was trained, where gradients are of mean size", "natural", "dynamic_decays"),
    dynamic_epsilon=Option(2e-5, "added to the size of gradients before they are divided by it", "factor"),
    dynamic_block=Option(5, "tokens that are scored before the model learns from them", "count"),
    dynamic_parameters=Option(
        ALL,
        "what learns: all; encoder, not words; head, encoder and head; for each stream by itself: features, M of h + M h; "
        "context, the vector of its context",
        CHOICES,
    ),
    dynamic_statistics=Option(
        None, "folder that python -m fairseq_groc gradient-statistics has written to; default: the data folder", "folder"
    ),
)
class DynamicEvaluation(TextAdapter):
    """Score a block, then take a step down the gradient of its mean loss, and back towards what was trained.

    What is learned from is the model's own loss, whatever caches and the uniform distribution make of it. Gradients go back to
    the beginning of the block.

    Args:
        rule: how a step is made
        block: tokens of a stream before it learns
        parameters: which: of ``CHOICES``
    """

    def __init__(self, rule: UpdateRule, block: int, parameters: str):
        self._rule, self._block, self._parameters = rule, block, parameters
        self.learns = parameters != FEATURES
        self._leaves: Leaves | None = None
        self._diverged = False
        self._pending: list[tuple[Tensor, Tensor]] = []  # what was read, and what came next

    @classmethod
    def from_settings(cls, settings: AdapterSettings, opened: Statistics | None = None) -> DynamicEvaluation:
        if opened is None:
            raise OptionError(
                "--dynamic-rate: there are no gradient statistics. Make them: python -m fairseq_groc gradient-statistics "
                f"--path CHECKPOINT --data DATA --dynamic-parameters {settings.dynamic_parameters}"
            )
        rule = UpdateRule(settings.dynamic_rate, settings.dynamic_decay, settings.dynamic_epsilon, opened)
        return cls(rule, settings.dynamic_block, settings.dynamic_parameters)

    @classmethod
    def open(cls, settings: AdapterSettings, model: Any, data: Path) -> Statistics:
        return load_statistics(Path(settings.dynamic_statistics or data), model, settings.dynamic_parameters)

    @classmethod
    def refusals(cls, settings: AdapterSettings) -> dict[Use, str]:
        chosen = settings.dynamic_parameters
        growing = (
            f"--dynamic-parameters {chosen} changes what each word has, so no word can be added (--open-vocabulary): "
            f"give --dynamic-parameters {ENCODER} or {FEATURES}"
        )
        return {
            "training": "--dynamic-rate is for scoring, and would adapt what is being trained: leave it out of training",
            "lines": LINES,
            **({"new_words": growing} if chosen in (ALL, HEAD) else {}),
        }

    @classmethod
    def block_length(cls, settings: AdapterSettings) -> int:
        return settings.dynamic_block

    def follows(self, running: bool, generating: bool) -> bool:
        """Say that it is told of running text, and of generated words if every hypothesis can have its own.

        Raises:
            OptionError: nothing precedes what is read, or hypotheses would learn from each other.
        """
        if generating and self.learns:
            raise OptionError(
                f"--dynamic-parameters {self._parameters}: the hypotheses of generation would learn from each other. "
                f"Give --dynamic-parameters {FEATURES} and --dynamic-rate, or {WITHOUT}."
            )
        if not (running or generating):
            raise OptionError(LINES)
        return True

    def before_block(self, model: Any, tokens: Tensor) -> None:
        """Begin from the model as it was trained where the text begins.

        Raises:
            OptionError: several streams where they have one model, or numbers that are too coarse.
        """
        if self._parameters not in OF_STREAMS and len(tokens) > 1:
            raise OptionError(
                f"{len(tokens)} streams side by side: dynamic evaluation learns from a text in its order, and a word would be "
                f"predicted from what comes after it. Give --batch-size 1 (--streams: as many as --workers), or "
                f"--dynamic-parameters {FEATURES}."
            )
        if torch.is_inference_mode_enabled():
            raise OptionError("--dynamic-rate: torch.inference_mode() permits no gradients. Use torch.no_grad().")
        if self._leaves is None:
            self._leaves = model.leaves(self._parameters, len(tokens))
            coarse = [str(one.dtype) for one in self._leaves.tensors.values() if one.dtype in (torch.float16, torch.bfloat16)]
            if coarse:
                raise OptionError(f"--dynamic-rate: its small steps are lost in {coarse[0]}. Leave out --fp16 or bf16.")

    def after_block(self, model: Any, tokens: Tensor, h: Tensor, targets: Tensor) -> None:
        """Learn from what was read, once it is enough."""
        assert self._leaves is not None
        self._pending.append((self._leaves.read(h), targets))
        if sum(one.size(1) for _, one in self._pending) < self._block:
            return
        names, leaves = list(self._leaves.tensors), list(self._leaves.tensors.values())
        with torch.enable_grad(), self._leaves.acting():
            read, following = (torch.cat(parts, dim=1) for parts in zip(*self._pending, strict=True))
            loss = self._leaves.loss(read, following)
            gradients = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
        self._pending = []
        self._check(loss.max(), math.log(len(model.dictionary)))
        for name, theta, gradient in zip(names, leaves, gradients, strict=True):
            self._rule.update(name, theta, self._leaves.origin[name], gradient)

    def _check(self, loss: Tensor, guess: float) -> None:
        """Warn once a text if the loss is far above that of a uniform guess, both in nats a word."""
        if not (self._diverged or loss < LOST * guess):
            self._diverged = True
            logger.warning(f"--dynamic-rate diverges: {loss:,.0f} nats a word, a uniform guess has {guess:.0f}. Lower it.")

    def acting(self, model: Any) -> AbstractContextManager[Any]:
        assert self._leaves is not None, "no block has begun"
        return self._leaves.acting()

    def forked(self, order: Tensor) -> DynamicEvaluation:
        twin = copy.copy(self)
        twin._leaves = copy.copy(self._leaves)  # which ``reorder`` gives tensors of its own
        twin.reorder(order)
        return twin

    def reorder(self, order: Tensor) -> None:
        if self._leaves is not None:
            self._leaves.reorder(order)
        self._pending = [(read.index_select(0, order), targets.index_select(0, order)) for read, targets in self._pending]
