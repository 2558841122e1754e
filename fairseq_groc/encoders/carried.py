"""The states of the prefix encoder that are carried from block to block."""

from __future__ import annotations

import logging
from typing import Dict, Optional, Tuple

from fairseq_groc.data.streams import Block
from fairseq_groc.encoders.base import State

logger = logging.getLogger(__name__)
Key = Tuple[str, int, int, int]


class CarriedState:
    """Keep, for every text, the states between its latest blocks.

    An update may be repeated (AMP does that), and then needs every state that its blocks began from: in training all states of
    an update are kept until the next one begins. Texts are apart, so validation cannot touch what training carries.
    """

    def __init__(self) -> None:
        self._states: Dict[str, Dict[Key, State]] = {}
        self._update: Optional[int] = None

    def begin_update(self, number: int) -> None:
        """Say which update is computed; only a new one lets the states of the last go."""
        if number != self._update:
            self._update = number
            for states in self._states.values():
                _keep_newest(states, 1)

    def before(self, block: Block, batch_size: int) -> Optional[State]:
        """Return the state before *block*; None, the zero state, at the beginning of a text."""
        if block.begin == 0:
            return None
        state = self._states.get(block.text, {}).get(_key(block, block.begin))
        if state is None or state[0][0].size(1) != batch_size:
            logger.warning(f"no state is carried into token {block.begin} of the streams of '{block.text}': beginning from zero")
            return None
        return state

    def after(self, block: Block, state: State) -> None:
        """File the state at the end of *block*."""
        states = self._states.setdefault(block.text, {})
        states.pop(_key(block, block.end), None)  # the newest comes last
        states[_key(block, block.end)] = [(h.detach(), c.detach()) for h, c in state]
        if self._update is None:
            _keep_newest(states, 2)

    def state_dict(self) -> dict:
        """Return the newest state of every text as plain types and CPU tensors."""
        newest = {text: list(states.items())[-1:] for text, states in self._states.items()}
        return {
            text: [[list(key), [[h.cpu(), c.cpu()] for h, c in state]] for key, state in states]
            for text, states in newest.items()
        }

    def load_state_dict(self, saved: dict, device, dtype) -> None:
        self._states = {
            text: {tuple(key): [(h.to(device, dtype), c.to(device, dtype)) for h, c in state] for key, state in states}
            for text, states in saved.items()
        }


def _keep_newest(states: Dict[Key, State], count: int) -> None:
    for key in list(states)[:-count]:
        del states[key]


def _key(block: Block, offset: int) -> Key:
    return block.text, block.epoch, block.group, offset
