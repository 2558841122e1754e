"""The recurrence of an LSTM with coupled gates whose weights differ from stream to stream by a low rank.

    a_t = i_t + h_t-1 U,  [z_j, z_f, z_o] = x_t + h_t-1 W + a_t V
    f = sigmoid(z_f),  m_t = f m_t-1 + (1 - f) k_t tanh(z_j),  h_t = sigmoid(z_o) tanh(m_t)

(Jaech and Ostendorf 2018, appendix A). x_t is what the inputs give to the gates, 1 for z_f included; i_t what they give to the
rank; U and V are those of a stream's context, or of the position's; k_t is a mask of recurrent dropout (Semeniuta et al. 2016).
W + U V is never made for a stream. The backward passes are written out: autograd would add up the gradient of W at every step,
where one product at the end gives it.

T: time; B: streams; d: units; r: rank; C: distinct contexts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_groc.modules.grouping import grouped
from fairseq_groc.modules.positions import Varying, by_matrix


class Factor(NamedTuple):
    """What changes the weights of the recurrence."""

    inner: Tensor  # i, (T, B, r)
    left: Tensor  # U of each context, (C, d, r)
    right: Tensor  # V of each context, (C, r, 3d)
    context: Tensor  # whose they are: of each stream, (B), or of each position, (T, B)


def coupled_lstm(
    gates: Tensor, weight: Tensor, h: Tensor, m: Tensor, factor: Factor | None = None, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return h at all steps, (T, B, d), and m after the last, (B, d).

    Args:
        gates: x, (T, B, 3d)
        weight: W, (d, 3d)
        h: before the first step, (B, d)
        m: the same
        factor: None: W is that of all
        kept: k, (T, B, d); None: ones
    """
    if factor is None:
        return _PerStream.apply(gates, weight, h, m, kept, None, None, None, None, None, None)
    inner, left, right, index = factor
    if index.dim() == 2:
        return _PerPosition.apply(gates, weight, h, m, kept, inner, left, right, index)
    groups = grouped(index, len(left))
    if groups is None:
        return _PerStream.apply(gates, weight, h, m, kept, inner.unsqueeze(2), left[index], right[index], None, None, None)
    inner = inner.index_select(1, groups.rows.flatten()).unflatten(1, groups.rows.shape)
    factors = inner, left[groups.matrix], right[groups.matrix], groups.rows, groups.place
    return _PerStream.apply(gates, weight, h, m, kept, *factors, groups.real.unsqueeze(2).to(inner))


def coupled_loop(
    gates: Tensor,
    weight: Tensor,
    h: Tensor,
    m: Tensor,
    norm: Callable[[Tensor], Tensor],
    factor: Factor | None = None,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return what ``coupled_lstm`` does where *norm* changes z (B, 3d) at every step; slower, with the gradients of autograd."""
    hs = []
    for t, x in enumerate(gates):
        z = torch.addmm(x, h, weight)
        if factor is not None:
            own = factor.context if factor.context.dim() == 1 else factor.context[t]
            a = torch.baddbmm(factor.inner[t].unsqueeze(1), h.unsqueeze(1), factor.left[own])
            z = z + torch.bmm(a, factor.right[own]).squeeze(1)
        j, f, o = norm(z).chunk(3, 1)
        j, f = j.tanh(), f.sigmoid()
        m = torch.lerp(j if kept is None else j * kept[t], m, f)
        h = m.tanh() * o.sigmoid()
        hs.append(h)
    return torch.stack(hs), m


class _Steps:
    """The steps of a block: what the backward pass needs of each."""

    def __init__(self, gates: Tensor, h: Tensor, m: Tensor, kept: Tensor | None):
        length, (streams, size) = len(gates), h.shape
        self.acts, self.kept = torch.empty_like(gates, memory_format=torch.contiguous_format), kept
        self.h, self.m = (gates.new_empty(length + 1, streams, size) for _ in range(2))  # before the first step, and after each
        self.q = gates.new_empty(length, streams, size)  # tanh(m)
        self.h[0], self.m[0] = h, m

    def take(self, t: int, z: Tensor) -> None:
        """Take step t, whose gates are z (B, 3d) before what bends them."""
        acts, size = self.acts[t], self.h.size(2)
        torch.tanh(z[:, :size], out=acts[:, :size])
        torch.sigmoid(z[:, size:], out=acts[:, size:])
        j, f, o = acts.chunk(3, 1)
        torch.lerp(j if self.kept is None else j * self.kept[t], self.m[t], f, out=self.m[t + 1])
        torch.tanh(self.m[t + 1], out=self.q[t])
        torch.mul(self.q[t], o, out=self.h[t + 1])

    def saved(self) -> tuple[Tensor | None, ...]:
        return self.acts, self.kept, self.h, self.m, self.q

    def result(self) -> tuple[Tensor, Tensor]:
        return self.h[1:], self.m[-1].clone()


class _StepsBack:
    """The same steps, the last first. ``dz``, (T, B, 3d), has for every step not yet taken what its gradient is to be times."""

    def __init__(self, saved: tuple[Tensor, ...], grad_h: Tensor, grad_m: Tensor):
        acts, kept, h, m, q = saved
        j, self._f, o = acts.chunk(3, 2)
        masked = j if kept is None else j * kept
        slopes = 1 - j * j if kept is None else (1 - j * j) * kept
        self.dz = torch.cat([slopes * (1 - self._f), (m[:-1] - masked) * self._f * (1 - self._f), q * o * (1 - o)], 2)
        self._to_m, self._grad_h = (1 - q * q) * o, grad_h
        self.dh, self.dm = torch.zeros_like(h[0]), grad_m.clone()

    def take(self, t: int) -> Tensor:
        """Return dz of step t; ``dh`` is to be made from it."""
        dz, (streams, size) = self.dz[t], self.dh.shape
        dh = self.dh + self._grad_h[t]
        self.dm.addcmul_(dh, self._to_m[t])
        dz[:, : 2 * size].view(streams, 2, size).mul_(self.dm.unsqueeze(1))
        dz[:, 2 * size :].mul_(dh)
        self.dm *= self._f[t]
        return dz


class _PerStream(torch.autograd.Function):
    """With g groups of n streams, each of one context: inner is (T, g, n, r), left (g, d, r), right (g, r, 3d).

    rows None: each stream is a group. inner None: nothing changes the weights.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        weight: Tensor,
        h: Tensor,
        m: Tensor,
        kept: Tensor | None,
        inner: Tensor | None,
        left: Tensor | None,
        right: Tensor | None,
        rows: Tensor | None,
        place: Tensor | None,
        real: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        steps, ranks = _Steps(gates, h, m, kept), None if inner is None else torch.empty_like(inner)
        for t in range(len(gates)):
            z = torch.addmm(gates[t], steps.h[t], weight)
            if ranks is not None and inner is not None and left is not None and right is not None:
                torch.baddbmm(inner[t], _together(steps.h[t], rows), left, out=ranks[t])
                _add(z, ranks[t], right, place)
            steps.take(t, z)
        ctx.save_for_backward(*steps.saved(), weight, left, right, rows, place, real, ranks)
        return steps.result()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor, grad_m: Tensor) -> tuple[Tensor | None, ...]:
        *saved, weight, left, right, rows, place, real, ranks = ctx.saved_tensors
        steps = _StepsBack(tuple(saved), grad_h, grad_m)
        back = weight.t().contiguous()
        s = None if ranks is None else torch.empty_like(ranks)
        for t in reversed(range(len(grad_h))):
            dz = steps.take(t)
            steps.dh = torch.mm(dz, back)
            if s is not None:
                torch.bmm(_together(dz, rows), right.transpose(1, 2), out=s[t])
                _add(steps.dh, s[t], left.transpose(1, 2), place)
        before = saved[2][:-1]
        plain = steps.dz, _product(before, steps.dz), steps.dh, steps.dm, None
        if s is None:
            return *plain, *[None] * 6
        if real is not None:
            s *= real
            ranks = ranks * real
        of_left = _products(_gathered(before, rows), _turned(s))
        of_right = _products(_turned(ranks), _gathered(steps.dz, rows))
        return *plain, s, of_left, of_right, None, None, None


class _PerPosition(torch.autograd.Function):
    """With a context at each position: inner is (T, B, r), left (C, d, r), right (C, r, 3d), index (T, B)."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        weight: Tensor,
        h: Tensor,
        m: Tensor,
        kept: Tensor | None,
        inner: Tensor,
        left: Tensor,
        right: Tensor,
        index: Tensor,
    ) -> tuple[Tensor, Tensor]:
        steps, ranks, own = _Steps(gates, h, m, kept), torch.empty_like(inner), Varying(index, left, right)
        for t in range(len(gates)):
            own.move(t)
            z = torch.addmm(gates[t], steps.h[t], weight)
            torch.baddbmm(inner[t].unsqueeze(1), steps.h[t].unsqueeze(1), own.left, out=ranks[t].unsqueeze(1))
            _add(z, ranks[t].unsqueeze(1), own.right, None)
            steps.take(t, z)
        ctx.save_for_backward(*steps.saved(), weight, left, right, index, ranks)
        return steps.result()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor, grad_m: Tensor) -> tuple[Tensor | None, ...]:
        *saved, weight, left, right, index, ranks = ctx.saved_tensors
        steps, own = _StepsBack(tuple(saved), grad_h, grad_m), Varying(index, left, right)
        back, s = weight.t().contiguous(), torch.empty_like(ranks)
        for t in reversed(range(len(grad_h))):
            own.move(t)
            dz = steps.take(t)
            torch.bmm(dz.unsqueeze(1), own.right.transpose(1, 2), out=s[t].unsqueeze(1))
            steps.dh = torch.mm(dz, back)
            _add(steps.dh, s[t].unsqueeze(1), own.left.transpose(1, 2), None)
        before = saved[2][:-1]
        pairs = by_matrix(index, len(left), before, s, ranks, steps.dz)
        lefts, rights = zip(*((h.t() @ a, b.t() @ z) for h, a, b, z in pairs), strict=True)
        grads = s, torch.stack(lefts), torch.stack(rights)
        return steps.dz, _product(before, steps.dz), steps.dh, steps.dm, None, *grads, None


def _together(x: Tensor, rows: Tensor | None) -> Tensor:
    """Return rows of x (B, size) in their groups, (g, n, size)."""
    return x.unsqueeze(1) if rows is None else x.index_select(0, rows.flatten()).unflatten(0, rows.shape)


def _add(x: Tensor, a: Tensor, b: Tensor, place: Tensor | None) -> None:
    """Add a (g, n, r) times b (g, r, size) to x (B, size)."""
    if place is None:
        x.unsqueeze(1).baddbmm_(a, b)
    else:
        x += torch.bmm(a, b).flatten(0, 1).index_select(0, place)


def _gathered(x: Tensor, rows: Tensor | None) -> Tensor:
    """Return x (T, B, size) by groups, (g, n T, size)."""
    x = x.transpose(0, 1)  # (B, T, size)
    return x if rows is None else x.index_select(0, rows.flatten()).unflatten(0, rows.shape).flatten(1, 2)


def _turned(a: Tensor) -> Tensor:
    """Return a (T, g, n, r) by groups, (g, n T, r)."""
    return a.permute(1, 2, 0, 3).flatten(1, 2)


def _products(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a.transpose(1, 2), b)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return a.flatten(0, 1).t() @ b.flatten(0, 1)
