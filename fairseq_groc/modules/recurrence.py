"""The recurrence of an LSTM with coupled gates whose weights differ from stream to stream by a low rank.

    a_t = i_t + h_t-1 U,  [z_j, z_f, z_o] = x_t + h_t-1 W + a_t V
    f = sigmoid(z_f),  m_t = f m_t-1 + (1 - f) k_t tanh(z_j),  h_t = sigmoid(z_o) tanh(m_t)

(Jaech and Ostendorf 2018, appendix A). x_t is what the inputs give to the gates, 1 for z_f included; i_t what they give to the
rank; U and V are those of a stream's context, or of the position's; k_t is a mask of recurrent dropout (Semeniuta et al. 2016).
W + U V is never made for a stream. The backward passes are written out: autograd would add up the gradient of W at every step,
where one product at the end gives it.

T: time; B: streams; d: units; r: rank; C: distinct contexts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairseq_groc.modules.positions import factors_of, sums_at


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
    return _Coupled.apply(gates, weight, h, m, kept, *(factor or [None] * 4))


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
    """The steps of a block: what the backward pass needs of each. ``z``, (B, 3d) at each step, is for the gates."""

    def __init__(self, gates: Tensor, h: Tensor, m: Tensor, kept: Tensor | None):
        length, (streams, size) = len(gates), h.shape
        self._acts, self._kept = gates.new_empty(gates.shape), kept
        self._h, self._m = (gates.new_empty(length + 1, streams, size) for _ in range(2))  # before the first step, after each
        self._q = gates.new_empty(length, streams, size)  # tanh(m)
        self._h[0], self._m[0] = h, m
        # views of every step, made at once: one by one they take as long as what is done with them
        self.z, self.h, self._ms, self._qs = (x.unbind() for x in (self._acts, self._h, self._m, self._q))
        self._j, self._f, self._o = (x.unbind() for x in self._acts.chunk(3, 2))
        self._fo = self._acts[..., size:].unbind()

    def take(self, t: int) -> None:
        """Take step t from its gates, which become what they let through."""
        j = self._j[t].tanh_()
        self._fo[t].sigmoid_()
        torch.lerp(j if self._kept is None else j * self._kept[t], self._ms[t], self._f[t], out=self._ms[t + 1])
        torch.tanh(self._ms[t + 1], out=self._qs[t])
        torch.mul(self._qs[t], self._o[t], out=self.h[t + 1])

    def saved(self) -> tuple[Tensor | None, ...]:
        return self._acts, self._kept, self._h, self._m, self._q

    def result(self) -> tuple[Tensor, Tensor]:
        return self._h[1:], self._m[-1].clone()


class _StepsBack:
    """The same steps, the last first. ``dz``, (T, B, 3d), has for every step not yet taken what its gradient is to be times."""

    def __init__(self, saved: tuple[Tensor, ...], grad_h: Tensor, grad_m: Tensor):
        acts, kept, h, m, q = saved
        j, f, o = acts.chunk(3, 2)
        self.dz, closed = torch.empty_like(acts), 1 - f
        of_j, of_f, of_o = self.dz.chunk(3, 2)
        slopes = closed - closed * j * j
        torch.mul(closed.mul_(f), m[:-1] - (j if kept is None else j * kept), out=of_f)
        of_j.copy_(slopes if kept is None else slopes.mul_(kept))
        torch.mul(q * o, 1 - o, out=of_o)
        self.dh, self.dm = torch.zeros_like(h[0]), grad_m.clone()
        to_m = (1 - q * q).mul_(o)
        self._z, self._o, self._f, self._to_m, self._grad_h = (x.unbind() for x in (self.dz, of_o, f, to_m, grad_h))
        self._jf = self.dz[..., : 2 * h.size(2)].unflatten(2, (2, -1)).unbind()  # (B, 2, d)

    def take(self, t: int) -> Tensor:
        """Return dz of step t; ``dh`` is to be made from it."""
        dh = self.dh + self._grad_h[t]
        self.dm.addcmul_(dh, self._to_m[t])
        self._jf[t].mul_(self.dm.unsqueeze(1))
        self._o[t].mul_(dh)
        self.dm *= self._f[t]
        return self._z[t]


class _Coupled(torch.autograd.Function):
    """inner is (T, B, r), left (C, d, r), right (C, r, 3d), index (B) or (T, B); all None: W is that of all."""

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        weight: Tensor,
        h: Tensor,
        m: Tensor,
        kept: Tensor | None,
        inner: Tensor | None = None,
        left: Tensor | None = None,
        right: Tensor | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        steps, own, ranks = _Steps(gates, h, m, kept), None, None
        if inner is not None and left is not None and right is not None and index is not None:
            own, ranks = factors_of(index, left, right), inner.unsqueeze(2).clone(memory_format=torch.contiguous_format)
        for t, (x, before, z) in enumerate(zip(gates.unbind(), steps.h, steps.z, strict=False)):
            torch.addmm(x, before, weight, out=z)
            if own is not None and ranks is not None:
                own.move(t)
                z.unsqueeze(1).baddbmm_(ranks[t].baddbmm_(before.unsqueeze(1), own.left.mT), own.right)
            steps.take(t)
        ctx.save_for_backward(*steps.saved(), weight, left, right, index, ranks)
        return steps.result()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_h: Tensor, grad_m: Tensor) -> tuple[Tensor | None, ...]:
        *saved, weight, left, right, index, ranks = ctx.saved_tensors
        steps, own, back = _StepsBack(tuple(saved), grad_h, grad_m), None, weight.t().contiguous()
        if ranks is not None:
            s, own = torch.empty_like(ranks), factors_of(index, left, right)
        for t in reversed(range(len(grad_h))):
            dz = steps.take(t)
            steps.dh = torch.mm(dz, back)
            if own is not None:
                own.move(t)
                steps.dh.unsqueeze(1).baddbmm_(torch.bmm(dz.unsqueeze(1), own.right.mT, out=s[t]), own.left)
        before = saved[2][:-1]
        plain = steps.dz, before.flatten(0, 1).t() @ steps.dz.flatten(0, 1), steps.dh, steps.dm, None
        if own is None:
            return *plain, *[None] * 4
        s, ranks = s.squeeze(2), ranks.squeeze(2)
        of_left, of_right = sums_at(before, s, index, len(left)), sums_at(ranks, steps.dz, index, len(left))
        return *plain, s, of_left, of_right, None
