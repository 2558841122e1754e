"""The states of the prefix encoder that are carried from block to block."""

from __future__ import annotations

import logging
from typing import Dict, Optional, Tuple

from fairseq_groc.data.streams import Block
from fairseq_groc.modules.lstm import State

logger = logging.getLogger(__name__)
Key = Tuple[str, int, int, int]


class CarriedState:
    """Keep, for every text, the states at both ends of its latest block.

    Both ends: a step may be repeated (AMP does), and then needs the state that it began from. Texts are apart, so
    validation cannot touch what training carries.
    """

    def __init__(self) -> None:
        self._states: Dict[str, Dict[Key, State]] = {}

    def before(self, block: Block, batch_size: int) -> Optional[State]:
        """Return the state before *block*; None, the zero state, at the beginning of a text."""
        if block.begin == 0:
            return None
        state = self._states.get(block.text, {}).get(_key(block, block.begin))
        if state is None or state[0][0].size(1) != batch_size:
            logger.warning(f"no state is carried into token {block.begin} of the streams of '{block.text}': beginning from zero")
            return None
        return state

    def after(self, block: Block, before: Optional[State], state: State) -> None:
        """File the state at the end of *block*, and forget all but the one it began from."""
        kept = {_key(block, block.end): [(h.detach(), c.detach()) for h, c in state]}
        if before is not None:
            kept[_key(block, block.begin)] = before
        self._states[block.text] = kept

    def state_dict(self) -> dict:
        """Return everything as plain types and CPU tensors."""
        return {
            text: [[list(key), [[h.cpu(), c.cpu()] for h, c in state]] for key, state in states.items()]
            for text, states in self._states.items()
        }

    def load_state_dict(self, saved: dict, device, dtype) -> None:
        self._states = {
            text: {tuple(key): [(h.to(device, dtype), c.to(device, dtype)) for h, c in state] for key, state in states}
            for text, states in saved.items()
        }


def _key(block: Block, offset: int) -> Key:
    return block.text, block.epoch, block.group, offset
