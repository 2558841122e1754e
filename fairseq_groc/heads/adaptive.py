"""Heads over frequency bins: every word scored, or a true adaptive softmax."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.embeddings.growth import PerWord
from fairseq_groc.heads.base import register_head
from fairseq_groc.heads.table import BiasedOutput, TiedOutput
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK, chunked_cross_entropy
from fairseq_groc.modules.packed_state import pack, unpack
from fairseq_groc.registry import Option


@register_head(
    "adaptive",
    embedding="adaptive",
    adaptive_scoring=Option(
        "words", "score all words, or the bins, then the words of one (an adaptive softmax)", ("words", "bins")
    ),
)
class HierarchicalOutput(PerWord, BiasedOutput):
    """p(x) = p(x | first bin and the other bins), times p(x | its bin) for a word of another bin (Grave et al. 2017).

    A bin's words meet h in their own softmax, so a training step computes the scores of the first bin, and those of another bin
    for the positions whose word is in it. Words belong to the bin that they had in training; words that came later to the
    last. Parameters: V + (bins - 1) (d + 1).

    Args:
        words: of the vocabulary, in the order of the bins
        dim: d
        cutoffs: where each bin but the last ends
    """

    number: Tensor  # (V): of each word's bin
    place: Tensor  # (V): of each word in its bin
    order: Tensor  # (V): words, bin after bin

    plain_softmax = False

    def __init__(self, words: Sequence[str], dim: int, cutoffs: Sequence[int]):
        super().__init__(words)
        self.words = list(words)
        self.clusters = nn.Linear(dim, len(cutoffs))
        for name in ("number", "place", "order"):
            self.register_buffer(name, torch.zeros(len(words), dtype=torch.long), persistent=False)
        self._assign(torch.bucketize(torch.arange(len(words)), torch.tensor(list(cutoffs)), right=True))

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> BiasedOutput:
        """Return this head, or where all words are to be scored ``TiedOutput``: the bins are the word embedding's then."""
        bins = settings["adaptive_scoring"] == "bins"
        return cls(words, dim, settings["output_cutoffs"]) if bins else TiedOutput(words)

    def _assign(self, number: Tensor) -> None:
        """Put every word into its bin, by the bins' numbers (V)."""
        order, self._sizes = number.argsort(stable=True), number.bincount(minlength=self.clusters.out_features + 1).tolist()
        self.number.copy_(number)
        self.order.copy_(order)
        self.place[order] = torch.cat([torch.arange(size) for size in self._sizes]).to(self.place.device)

    def get_extra_state(self) -> Tensor:
        return pack({"bins": dict(zip(self.words, self.number.tolist(), strict=True))})

    def set_extra_state(self, state: Any) -> None:
        """The bins were taken over in ``upgrade_state_dict_named``."""

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Give every word the bin that it had in training (fairseq calls it before loading)."""
        key = f"{name}._extra_state" if name else "_extra_state"
        saved = unpack(state_dict.setdefault(key, self.get_extra_state()))["bins"]
        self._assign(torch.tensor([saved.get(word, self.clusters.out_features) for word in self.words]))

    def add_words(self, words: Sequence[str]) -> None:
        """Put words that came after training into the last bin."""
        self.bias.add_words(words)
        last, count, before = self.clusters.out_features, len(words), len(self.number)
        new = torch.arange(count, device=self.number.device)
        self.number = torch.cat([self.number, new.new_full((count,), last)])
        self.place = torch.cat([self.place, self._sizes[last] + new])
        self.order = torch.cat([self.order, before + new])
        self._sizes[last] += count
        self.words.extend(words)

    def _first(self, outputs: Tensor, bias: Tensor, members: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return embeddings and biases of the first bin's words and of the other bins; a bin without a word is impossible."""
        empty = torch.stack([~bias[m].isfinite().any() for m in members[1:]])
        rows = torch.cat([outputs[members[0]], self.clusters.weight.to(outputs.dtype)])
        return rows, torch.cat([bias[members[0]], self.clusters.bias.masked_fill(empty, float("-inf"))])

    def log_scores(self, h: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return log-probabilities, (..., V)."""
        members = self.order.split(self._sizes)
        top = F.linear(h, *self._first(outputs, bias, members)).float().log_softmax(-1)
        first = len(members[0])
        scores = top.new_full((*h.shape[:-1], len(outputs)), float("-inf"))
        scores = scores.index_copy(-1, members[0], top[..., :first])
        for i, entries in enumerate(members[1:]):
            if bool(bias[entries].isfinite().any()):
                inside = F.linear(h, outputs[entries], bias[entries]).float().log_softmax(-1)
                scores = scores.index_copy(-1, entries, inside + top[..., first + i : first + i + 1])
        return scores

    def losses(
        self, h: Tensor, outputs: Tensor, bias: Tensor, targets: Tensor, ignore_index: int, chunk: int = DEFAULT_CHUNK
    ) -> Tensor:
        members = self.order.split(self._sizes)
        real = targets != ignore_index
        safe = targets.masked_fill(~real, int(members[0][0]))
        which, ignored = self.number[safe], -1  # ignore_index may be a place in a bin
        top = torch.where(which == 0, self.place[safe], len(members[0]) + which - 1).masked_fill(~real, ignored)
        rows, offsets = self._first(outputs, bias, members)
        losses = chunked_cross_entropy(h, rows, offsets, top, ignored, chunk)
        for i, entries in enumerate(members[1:], start=1):
            here = (which == i) & real
            if bool(here.any()) and bool(bias[entries].isfinite().any()):  # else the bin has probability 0 already
                inside = chunked_cross_entropy(h[here], outputs[entries], bias[entries], self.place[safe[here]], ignored, chunk)
                losses = losses.index_add(0, here.nonzero().squeeze(1), inside)
        return losses
