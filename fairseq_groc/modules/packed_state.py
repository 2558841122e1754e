"""What a module saves besides its parameters, as a tensor: fairseq averages all that a checkpoint's model holds.

``scripts/average_checkpoints.py`` sums and divides, ``--store-ema`` multiplies and adds; both expect floating-point tensors.
What is the same in all that is averaged comes out as it was.
"""

import json
import zlib
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.errors import refuse

CENTRE = 79  # of printable ASCII: the smaller the numbers, the less --ema-fp32 rounds away; it may not come to a half


def pack(state: Any) -> Tensor:
    """Return plain types as small numbers, (n): one for each character of a checksum and of their JSON."""
    text = json.dumps(state)  # ASCII, whatever the words
    return torch.frombuffer(bytearray(f"{zlib.crc32(text.encode()):08x}{text}".encode()), dtype=torch.uint8).float() - CENTRE


def unpack(saved: Any) -> Any:
    """Return what was packed, also from a mean of such tensors; older checkpoints hold the types themselves.

    Raises:
        OptionError: a mean of different states.
    """
    if not torch.is_tensor(saved):
        return saved
    content = (saved.detach().cpu().double() + CENTRE).round().clamp(0, 255).to(torch.uint8).numpy().tobytes()
    if content[:8] != f"{zlib.crc32(content[8:]):08x}".encode():
        refuse("the checkpoints that were averaged differ in words or options. Average checkpoints of one training.")
    return json.loads(content[8:])
