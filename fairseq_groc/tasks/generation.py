"""Whole lines, which generation goes on from."""

from typing import Any

import torch

from fairseq_groc.errors import OptionError


def prefix_of(sample: dict[str, Any], given: torch.Tensor | None, dictionary: Any, room: float) -> torch.Tensor:
    """Return the words that generation goes on from, (B, T): those of whole lines, without the ``</s>`` before them.

    Args:
        given: the lines' first words, (B, P); the ``</s>`` that ends short ones is left out: nothing would follow it
        room: positions that the model has

    Raises:
        OptionError: as ``whole_lines``, or no room is left.
    """
    prefix = whole_lines(sample, dictionary)
    if given is not None:
        prefix = given.masked_fill(given.eq(dictionary.eos()), dictionary.pad())
        return prefix[:, : int(prefix.ne(dictionary.pad()).sum(1).max())]
    if prefix.size(1) + 2 > room:
        raise OptionError(f"a line of {prefix.size(1)} words leaves no room to generate in a model of {int(room)} positions")
    return prefix


def whole_lines(sample: dict[str, Any], dictionary: Any) -> torch.Tensor:
    """Return the words of whole lines, (B, T), without the ``</s>`` before them.

    Raises:
        OptionError: a batch that goes over the end of a line, or stops within one.
    """
    eos, pad = dictionary.eos(), dictionary.pad()
    prefix, target = sample["net_input"]["src_tokens"][:, 1:], sample.get("target")  # fairseq-interactive gives none
    if bool(prefix.eq(eos).any()):
        raise OptionError("a hypothesis does not go over the end of its line: give --sample-break-mode eos")
    if target is not None:
        last = target.gather(1, target.ne(pad).sum(1, keepdim=True).sub(1).clamp(min=0))
        if bool((last.ne(eos) & last.ne(pad)).any()):
            raise OptionError(f"a line goes on after {target.size(1)} words: give --tokens-per-sample, above the longest line's")
    return prefix
