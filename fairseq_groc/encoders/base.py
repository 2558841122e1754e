"""What a prefix encoder is. T: time; B: streams; d: embedding size."""

from __future__ import annotations

from typing import List, Optional, Tuple

from torch import Tensor, nn

State = List[Tuple[Tensor, Tensor]]  # per layer (h, c), each (1, B, size)


class PrefixEncoder(nn.Module):
    """From the embeddings of what was read to h, which meets the output embeddings; it knows no word."""

    def forward(self, x: Tensor, state: Optional[State] = None) -> Tuple[Tensor, State]:
        """Return the encodings (T, B, d) of *x* (T, B, d) and the state after it; ``None`` is the zero state."""
        raise NotImplementedError
