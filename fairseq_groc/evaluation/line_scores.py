"""Log-probabilities of lines, each by itself or in a running text. T: tokens; V: vocabulary."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.streams import Block
from fairseq_groc.modules.probabilities import numbers_of, total_of

BLOCK = 512  # tokens of a text that are read at a time


def score_lines(
    hub: Any, texts: list[str], running: bool = False, block: int | None = None, contexts: Contexts | None = None
) -> Iterator[tuple[float, int]]:
    """Yield the log-probability (natural logarithm) and the number of tokens of every line, its ``</s>`` included.

    A line with an impossible word scores -inf.

    Args:
        hub: what ``from_pretrained`` returns
        running: carry the state from line to line; otherwise every line begins from the zero state
        block: tokens at a time; None: what an adapter wants, or ``block_of``
        contexts: one a line; None: nothing is known, or what the model was told of all lines
    """
    model, dictionary = hub.models[0], hub.task.dictionary
    wanted, length = block_lengths(hub, running, block)
    numbers = ([*map(dictionary.index, text.split()), dictionary.eos()] for text in texts)
    lines = [torch.tensor(line, device=hub.device) for line in numbers]
    owners = [torch.full((len(line),), number) for number, line in enumerate(lines)]
    pieces = list(zip(lines, owners, strict=True))
    if wanted is not None:  # blocks of such a length do not end where lines do
        pieces = [(torch.cat(lines), torch.cat(owners))]
    scores = _scores(model, pieces, running, int(min(length, model.decoder.max_positions())), contexts)
    for line in lines:
        yield total_of(itertools.islice(scores, len(line))), len(line)


def block_of(hub: Any) -> int:
    """Return how many tokens of a text are read at a time: a model that carries no state knows no more, so its training's."""
    return BLOCK if hub.models[0].decoder.carried is not None else hub.task.block_length()


def block_lengths(hub: Any, running: bool, given: int | None) -> tuple[int | None, int]:
    """Return how many tokens of a running text must be read at a time, None for any, and how many are read.

    Raises:
        OptionError: an adapter does not go with lines by themselves, or its blocks are of another length.
    """
    decoder = hub.models[0].decoder
    if decoder.adapter is not None and not running:
        decoder.adapter.settings.refuse("lines")
    wanted = decoder.adapter_block(given)
    if running and decoder.carried is None:
        wanted = given or block_of(hub)
    return wanted, given or wanted or block_of(hub)


@torch.no_grad()
def _scores(
    model: Any, pieces: Iterable[tuple[Tensor, Tensor]], running: bool, block: int, contexts: Contexts | None
) -> Iterator[float]:
    """Yield the log-probability of each token of some pieces of a text, or of texts by themselves.

    Args:
        pieces: tokens, (T), and the number of the line that each is of, (T)
        contexts: one a line, by which its tokens are predicted
    """
    eos = model.decoder.dictionary.eos()
    previous, begin = eos, 0
    for number, (piece, owners) in enumerate(pieces):
        if not running:
            previous, begin = eos, 0
        for target, own in zip(piece.split(block), owners.split(block), strict=True):
            source = torch.cat([target.new_tensor([previous]), target[:-1]]).unsqueeze(0)  # (1, T)
            place = Block("scored", 0 if running else number, 0, begin, begin + len(target))
            of = own[:1] if own[0] == own[-1] else own.unsqueeze(0)  # (1), or (1, T)
            output = model(source, block=place, context=None if contexts is None else contexts.of_lines(of.numpy()))
            lprobs = model.get_normalized_probs(output, log_probs=True)[0]  # (T, V)
            yield from numbers_of("model", lprobs.gather(1, target.unsqueeze(1))).double().flatten().tolist()
            previous, begin = int(target[-1]), place.end
