"""What training may add to the loss, so that encodings stay small and change slowly. B: streams; T: time; d: embedding size."""

from torch import Tensor


def activation_penalty(h: Tensor, last: Tensor, real: Tensor, size: float, change: float) -> Tensor:
    """Return *size* times the mean of h^2 and *change* times that of (last_t+1 - last_t)^2 (Merity et al. 2017, AR and TAR).

    A row counts by its tokens in both means. So that of several blocks, or workers, by their tokens is that of all in one block.

    Args:
        h: encodings (B, T, d), after their dropout
        last: the same before it
        real: which are no padding, (B, T); padding is on the right
        size: alpha
        change: beta; differences to padding do not count, and a row of one token has none
    """
    h, last = h.float(), last.float()
    squares, changes = h.square().mean(2), (last[:, 1:] - last[:, :-1]).square().mean(2)  # (B, T), (B, T - 1)
    rows = size * _mean(squares, real) + change * _mean(changes, real[:, 1:])  # (B)
    tokens = real.sum(1)
    return (rows * tokens).sum() / tokens.sum().clamp(min=1)


def _mean(values: Tensor, real: Tensor) -> Tensor:
    return (values * real).sum(1) / real.sum(1).clamp(min=1)
