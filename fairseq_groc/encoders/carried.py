"""The states of the prefix encoder that are carried from block to block."""

import logging
from typing import Any

import torch
from fairseq.utils import apply_to_sample
from torch import Tensor

from fairseq_groc.data.streams import Block
from fairseq_groc.encoders.base import State

logger = logging.getLogger(__name__)
Key = tuple[str, int, int, int]


class CarriedState:
    """Keep, for every text, the states between its latest blocks.

    An update may be repeated (AMP does that), and then needs every state that its blocks began from: in training all states of
    an update are kept until the next one begins. Texts are apart, so validation cannot touch what training carries.
    """

    def __init__(self) -> None:
        self._states: dict[str, dict[Key, State]] = {}
        self._update: int | None = None

    def begin_update(self, number: int) -> None:
        """Say which update is computed; only a new one lets the states of the last go."""
        if number != self._update:
            self._update = number
            for states in self._states.values():
                _keep_newest(states, 1)

    def before(self, block: Block, batch_size: int) -> State | None:
        """Return the state before *block*; None, the zero state, at the beginning of a text."""
        if block.begin == 0:
            return None
        states, key = self._states.get(block.text, {}), _key(block, block.begin)
        if key not in states or streams_of(states[key]) - {(batch_size,)}:
            logger.warning(f"no state is carried into token {block.begin} of the streams of '{block.text}': beginning from zero")
            return None
        return states[key]

    def after(self, block: Block, state: State) -> None:
        """File the state at the end of *block*."""
        states = self._states.setdefault(block.text, {})
        states.pop(_key(block, block.end), None)  # the newest comes last
        states[_key(block, block.end)] = apply_to_sample(Tensor.detach, state)
        if self._update is None:
            _keep_newest(states, 2)

    def forget(self, text: str) -> None:
        """Let go of what is kept of a text that is over."""
        self._states.pop(text, None)

    def state_dict(self) -> dict[str, Any]:
        """Return the newest state of every text as plain types and CPU tensors."""
        newest = {text: list(states.items())[-1:] for text, states in self._states.items()}
        return {
            text: [[list(key), apply_to_sample(Tensor.cpu, state)] for key, state in states] for text, states in newest.items()
        }

    def load_state_dict(self, saved: dict[str, Any], device: torch.device, dtype: torch.dtype) -> None:
        """Take what ``state_dict`` returned, numbers with a point as *dtype*."""

        def moved(state: State) -> State:
            return apply_to_sample(lambda tensor: tensor.to(device), in_type(state, dtype))

        self._states = {text: {tuple(key): moved(state) for key, state in states} for text, states in saved.items()}


def in_type(state: State, dtype: torch.dtype) -> State:
    """Return the state with its numbers with a point as *dtype*."""
    return apply_to_sample(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, state)


def reordered(state: State, order: Tensor) -> State:
    """Return the state in which stream i goes on from stream order[i]."""
    return apply_to_sample(lambda tensor: tensor.index_select(1, order), state)


def streams_of(state: State) -> set[tuple[int, ...]]:
    """Return of how many streams the tensors of a state are; (): one has no such dimension."""
    sizes: set[tuple[int, ...]] = set()
    apply_to_sample(lambda tensor: sizes.add(tensor.shape[1:2]), state)
    return sizes


def _keep_newest(states: dict[Key, State], count: int) -> None:
    for key in list(states)[:-count]:
        del states[key]


def _key(block: Block, offset: int) -> Key:
    return block.text, block.epoch, block.group, offset
