"""An LSTM layer with coupled gates that a context adapts (Jaech and Ostendorf 2018, sections 2.1 and 2.2, appendix A).

T: time; B: streams; e: size of the inputs; d: units; k: size of a context's vector c; r: rank; C: distinct contexts.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.modules.dropout import mask_like
from fairseq_groc.modules.positions import products_at
from fairseq_groc.modules.recurrence import Factor, coupled_loop, coupled_lstm

EPSILON = 1e-5  # of layer normalisation
STREAMS = 4  # a context: with fewer, a matrix W' for each takes longer to make and to read than it saves


class FactorCell(nn.Module):
    """W' = W + (sum_i c_i Z_L,i) (sum_i c_i Z_R,i) and b' = V c + b, for the gates j, f and o of an LSTM in which i = 1 - f.

    Args:
        size: e
        units: d
        context: k; 0: no context is read
        rank: r; 0: the context changes b alone, as ConcatCell does
        recurrent_dropout: of what enters the memory, a mask a step (Semeniuta et al. 2016)
        layer_norm: of each gate, before the 1 that is added to f
        zero_right: begin with Z_R = 0, where FactorCell is ConcatCell
    """

    def __init__(
        self,
        size: int,
        units: int,
        context: int = 0,
        rank: int = 0,
        recurrent_dropout: float = 0.0,
        layer_norm: bool = False,
        zero_right: bool = False,
    ):
        super().__init__()
        self.units, self.recurrent_dropout, self.zero_right = units, recurrent_dropout, zero_right
        self.weight_ih = nn.Parameter(torch.empty(3 * units, size))
        self.weight_hh = nn.Parameter(torch.empty(3 * units, units))
        self.bias = nn.Parameter(torch.empty(3 * units))
        self.context_bias = nn.Parameter(torch.empty(3 * units, context)) if context else None  # V
        factored = context > 0 and rank > 0
        self.left = nn.Parameter(torch.empty(context, size + units, rank)) if factored else None  # Z_L
        self.right = nn.Parameter(torch.empty(context, rank, 3 * units)) if factored else None  # Z_R
        self.gain = nn.Parameter(torch.empty(3, units)) if layer_norm else None
        self.shift = nn.Parameter(torch.empty(3, units)) if layer_norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set matrices uniformly as Glorot and Bengio (2010) do: W as a whole, Z_L and Z_R as matrices of k rows."""
        with torch.no_grad():
            limit = _glorot(self.weight_ih.size(1) + self.units, 3 * self.units)
            self.weight_ih.uniform_(-limit, limit)
            self.weight_hh.uniform_(-limit, limit)
            self.bias.zero_()
            if self.context_bias is not None:
                nn.init.xavier_uniform_(self.context_bias)
            for basis in (self.left, self.right):
                if basis is not None:
                    limit = _glorot(len(basis), basis[0].numel())
                    basis.uniform_(-limit, limit)
            if self.right is not None and self.zero_right:
                self.right.zero_()
            if self.gain is not None and self.shift is not None:
                self.gain.fill_(1)
                self.shift.zero_()

    def forward(
        self, x: Tensor, h: Tensor, m: Tensor, vectors: Tensor | None = None, index: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return h at all steps, (T, B, d), and m after the last, (B, d).

        Args:
            x: inputs, (T, B, e)
            h: before the first step, (B, d)
            m: the same
            vectors: c of each context, (C, k); None: there is no context
            index: the context of each stream, (B), or of each position, (T, B)
        """
        with torch.autocast(x.device.type, enabled=False):  # W', a sum of products, keeps the parameters' precision
            x, h, m = (value.to(self.weight_ih.dtype) for value in (x, h, m))
            vectors = None if vectors is None else vectors.to(self.weight_ih.dtype)
            kept = self._kept(x)
            if kept is None and self.gain is None:
                if self.left is None or vectors is None or index is None:
                    return self._as_lstm(x, h, m, vectors, index)
                if len(vectors) == 1 or (index.dim() == 1 and STREAMS * len(vectors) <= len(index)):
                    return self._as_lstms(x, h, m, vectors, index)
            return self._adapted(x, h, m, kept, vectors, index)

    def _kept(self, x: Tensor) -> Tensor | None:
        """Return the mask of recurrent dropout, (T, B, d)."""
        if not self.training or self.recurrent_dropout == 0:
            return None
        return mask_like(x, (*x.shape[:2], self.units), self.recurrent_dropout)

    def _as_lstm(self, x: Tensor, h: Tensor, m: Tensor, vectors: Tensor | None, index: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run ``torch.lstm``: the input gate's weights are those of the forget gate times -1, as 1 - sigmoid(z) = sigmoid(-z)."""
        inward: Tensor = self.weight_ih
        if self.context_bias is not None and vectors is not None and index is not None:
            x, inward = _beside(x, vectors, index), torch.cat([inward, self.context_bias], 1)
        return self._lstm(x, h, m, _four(inward), _four(self.weight_hh), _four(self.bias + self._one()))

    def _as_lstms(self, x: Tensor, h: Tensor, m: Tensor, vectors: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Run it with the W' of each context, on the streams of that context."""
        assert self.left is not None and self.right is not None and self.context_bias is not None
        left, right = _combined(vectors, self.left).mT, _four(_combined(vectors, self.right).mT)  # (C, r, e + d), (C, 4d, r)
        weights = (
            torch.baddbmm(_four(plain).unsqueeze(0), right, part).unbind()
            for plain, part in zip((self.weight_ih, self.weight_hh), left.split([x.size(2), self.units], 2), strict=True)
        )
        biases = _four(F.linear(vectors, self.context_bias, self.bias + self._one()).unsqueeze(2)).squeeze(2)
        of = index if index.dim() == 1 else index[0]  # in a running text, one context is that of all positions
        order, counts = of.argsort(stable=True), torch.bincount(of, minlength=len(vectors)).tolist()
        streams = zip(*(part.split(counts, part.dim() - 2) for part in (x[:, order], h[order], m[order])), strict=True)
        lstms = zip(*weights, biases, strict=True)
        found = [self._lstm(*own, *lstm) for own, lstm in zip(streams, lstms, strict=True) if len(own[1])]
        hs, after = zip(*found, strict=True)
        place = order.argsort()
        return torch.cat(hs, 1)[:, place], torch.cat(after)[place]

    def _lstm(self, x: Tensor, h: Tensor, m: Tensor, inward: Tensor, recurrent: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        weights = [inward, recurrent, bias, torch.zeros_like(bias)]
        tracked = self.training or torch.is_grad_enabled()  # cuDNN has no gradient otherwise
        hs, _, m = torch.lstm(x, (h.unsqueeze(0), m.unsqueeze(0)), weights, True, 1, 0.0, tracked, False, False)
        return hs, m.squeeze(0)

    def _adapted(
        self, x: Tensor, h: Tensor, m: Tensor, kept: Tensor | None, vectors: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Run the recurrence with a factor, recurrent dropout or layer normalisation."""
        gates, factor = self._inputs(x, vectors, index)
        recurrent = self.weight_hh.t()
        if self.gain is None:
            return coupled_lstm(gates, recurrent, h, m, factor, kept)
        return coupled_loop(gates, recurrent, h, m, self._normalised, factor, kept)

    def _inputs(self, x: Tensor, vectors: Tensor | None, index: Tensor | None) -> tuple[Tensor, Factor | None]:
        """Return what the inputs give to the gates, (T, B, 3d), and the factor of the recurrence."""
        bias = self.bias if self.gain is not None else self.bias + self._one()
        if self.context_bias is None or vectors is None or index is None:
            return F.linear(x, self.weight_ih, bias), None
        gates = F.linear(_beside(x, vectors, index), torch.cat([self.weight_ih, self.context_bias], 1), bias)
        if self.left is None or self.right is None:
            return gates, None
        inward, left = _combined(vectors, self.left).split([x.size(2), self.units], 1)
        return gates, Factor(products_at(x, inward, index), left, _combined(vectors, self.right), index)

    def _normalised(self, z: Tensor) -> Tensor:
        assert self.gain is not None and self.shift is not None
        z = F.layer_norm(z.unflatten(1, (3, self.units)), (self.units,), eps=EPSILON)
        return (z * self.gain + self.shift).flatten(1) + self._one()

    def _one(self) -> Tensor:
        """Return what is added to the gates: 1 to f, (3d)."""
        one = torch.zeros_like(self.bias)
        one[self.units : 2 * self.units] = 1
        return one

    def extra_repr(self) -> str:
        context, rank = (0, 0) if self.context_bias is None else (self.context_bias.size(1), 0)
        rank = rank if self.left is None else self.left.size(2)
        return f"{self.weight_ih.size(1)}, {self.units}, context={context}, rank={rank}, layer_norm={self.gain is not None}"


def _glorot(inputs: int, outputs: int) -> float:
    return math.sqrt(6 / (inputs + outputs))


def _beside(x: Tensor, vectors: Tensor, index: Tensor) -> Tensor:
    """Return inputs with c beside them, (T, B, e + k): times [W, V] that is W x + V c."""
    return torch.cat([x, vectors[index].expand(*x.shape[:2], -1)], 2)


def _combined(vectors: Tensor, basis: Tensor) -> Tensor:
    """Return sum_i c_i Z_i of each context: (C, k) and (k, a, b) to (C, a, b)."""
    return (vectors @ basis.flatten(1)).unflatten(1, basis.shape[1:])


def _four(weights: Tensor) -> Tensor:
    """Return the rows of the gates j, f and o, (..., 3d, n) or (3d), as those of ``torch.lstm``: i, f, g, o."""
    dim = max(weights.dim() - 2, 0)
    j, f, o = weights.chunk(3, dim)
    return torch.cat([-f, f, j, o], dim)
