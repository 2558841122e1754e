"""What dynamic evaluation changes of a decoder: copies that stand in for its parameters, or for what it makes of them.

The parameters themselves are never changed, so whoever reads them between two blocks sees the model as it was trained.
B: streams; T: positions; V: vocabulary; d: size of h.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.adapters.dynamic import ALL, CONTEXT, ENCODER, FEATURES, HEAD, Leaves
from fairseq_groc.errors import OptionError
from fairseq_groc.models.word_matrices import Matrices, WordMatrices
from fairseq_groc.modules.per_thread import having
from fairseq_groc.modules.probabilities import masked_bias

E_IN, E_OUT, BIAS = "E_in", "E_out", "bias"


def leaves_of(decoder: Any, choice: str, streams: int) -> Leaves:
    """Return what ``--dynamic-parameters`` says, as it was trained.

    Args:
        decoder: a ``WordDecoder``
        choice: one of ``dynamic.CHOICES``
        streams: how many of them have their own, where they can

    Raises:
        OptionError: the head cannot change by itself.
    """
    of_streams = {FEATURES: FeatureLeaves, CONTEXT: ContextLeaves}
    return of_streams[choice](decoder, streams) if choice in of_streams else ParameterLeaves(decoder, choice)


class ParameterLeaves(Leaves):
    """Stand-ins for parameters, and for E_in, E_out and b where these are computed from spellings.

    Word matrices that do not change are constants, whose gradients nobody needs. Composed words change as if each had a row:
    encoding all of them again for every block would take hours.

    Args:
        decoder: whose parameters
        choice: all; encoder, what is no part of the word matrices; head, that and what predicts from E_in
    """

    def __init__(self, decoder: Any, choice: str):
        self._decoder, matrices = decoder, decoder.matrices
        composed = matrices.embedding.computes or matrices.head.needs_spellings
        if choice == HEAD and matrices.head.needs_spellings:
            raise OptionError(
                "--dynamic-parameters head: this head encodes the spellings of all words, for every block again. "
                f"Give --dynamic-parameters {ALL} or {ENCODER}."
            )
        changing = set(decoder.parameters()) - set(matrices.parameters())
        if choice == HEAD:
            changing |= {one for part in (matrices.head, matrices.context_rows) if part is not None for one in part.parameters()}
        elif choice == ALL and not composed:
            changing |= set(matrices.parameters())
        self.origin = {name: one.detach() for name, one in decoder.named_parameters() if one in changing}
        stand_ins = {name: nn.Parameter(one.clone()) for name, one in self.origin.items()}
        self.tensors: dict[str, Tensor] = dict(stand_ins)
        self._places = _places(decoder, {decoder.get_parameter(name): one for name, one in stand_ins.items()})
        self.rows = {f"{name}.weight" for name in decoder.tables_of_words()} & self.tensors.keys()
        self._source = None
        if choice == ENCODER:
            self._source = lambda: _constant(matrices)
        elif choice == HEAD:
            embeddings = _embeddings(matrices)
            self._source = lambda: matrices.of_embeddings(embeddings)
        elif composed:
            self._hold()
            self._source = self._held

    def _hold(self) -> None:
        """Give every word rows of its own."""
        inputs, outputs, bias = _constant(self._decoder.matrices)
        self._impossible = bias.isinf()
        held = {E_IN: inputs, E_OUT: outputs, BIAS: bias.masked_fill(self._impossible, 0)}
        if outputs.data_ptr() == inputs.data_ptr() and outputs.shape == inputs.shape:
            del held[E_OUT]
        self.origin.update(held)
        self.tensors.update({name: one.clone().requires_grad_() for name, one in held.items()})
        self.rows |= held.keys()

    def _held(self) -> Matrices:
        inputs = self.tensors[E_IN]
        return inputs, self.tensors.get(E_OUT, inputs), masked_bias(self.tensors[BIAS], self._impossible)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let the decoder use them in place of its own."""
        matrices: WordMatrices = self._decoder.matrices
        with ExitStack() as after:
            for module, name, other in self._places:
                after.enter_context(having(module, name, other))
            after.enter_context(having(matrices, "source", self._source))
            after.enter_context(_differentiable(matrices))
            yield

    def loss(self, read: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the possible targets, (B, T), while these act."""
        losses, counted = _losses(self._decoder, read, targets, self._decoder.matrices()[1:])
        return losses.sum() / counted.sum().clamp(min=1)

    def reorder(self, order: Tensor) -> None:
        raise OptionError("streams that share one model do not go on from one another")


class StreamLeaves(Leaves):
    """Numbers of which each stream has its own, all from 0.

    Args:
        decoder: whose word matrices meet what is read
        name: of the numbers
        zeros: of every stream; with one for all of them they share it
    """

    learns = False

    def __init__(self, decoder: Any, name: str, zeros: Tensor):
        self._decoder, self._name = decoder, name
        self.rows: set[str] = set()
        self._set(zeros)

    def _set(self, own: Tensor) -> None:
        self.tensors = {self._name: own.detach().requires_grad_()}
        self.origin = {self._name: torch.zeros_like(own)}

    def _met(self, read: Tensor) -> Tensor:
        return read

    def loss(self, read: Tensor, targets: Tensor) -> Tensor:
        """Return the mean losses over the possible targets, (B, T): one of all streams, (1), or of each, (B)."""
        with torch.no_grad():
            _, outputs, bias = self._decoder.matrices()
        losses, counted = _losses(self._decoder, self._met(read), targets, (outputs.detach(), bias.detach()))
        own = len(self.tensors[self._name])
        return losses.reshape(own, -1).sum(1) / counted.reshape(own, -1).sum(1).clamp(min=1)

    def reorder(self, order: Tensor) -> None:
        """Let stream i go on with what stream order[i] has."""
        self._set(self.tensors[self._name].index_select(0, order))


class FeatureLeaves(StreamLeaves):
    """A matrix M (d, d) for each stream: h + M h meets the output embeddings (Krause et al. 2018, section 6: sparse).

    Nothing before h changes, so that gradients need no more than the head.

    Args:
        decoder: whose h
        streams: how many have their own; with 1 all streams share it
    """

    def __init__(self, decoder: Any, streams: int):
        self._layer = decoder.scoring_layer
        dim = self._layer.dim
        super().__init__(decoder, FEATURES, next(decoder.parameters()).new_zeros(streams, dim, dim))
        self._own: Tensor | None = None  # h of the last pass, without M

    def _met(self, read: Tensor) -> Tensor:
        matrices = self.tensors[FEATURES]  # of h alone, not of what is appended to it
        return read + F.pad(read[..., : matrices.size(1)] @ matrices.transpose(1, 2), (0, read.size(-1) - matrices.size(1)))

    def _change(self, h: Tensor) -> Tensor:
        self._own = h.detach()
        return self._met(h)

    def acting(self) -> AbstractContextManager[None]:
        """Let the output layer change h."""
        return having(self._layer, "change", self._change)

    def read(self, h: Tensor) -> Tensor:
        """Return h of the last pass as it was before M, with what is appended to it, (B, T, d and more)."""
        assert self._own is not None
        return torch.cat([self._own, h[..., self._own.size(-1) :].detach()], dim=-1)

    def reorder(self, order: Tensor) -> None:
        super().reorder(order)
        if self._own is not None:
            self._own = self._own.index_select(0, order)


class ContextLeaves(StreamLeaves):
    """What each stream adds to the vectors of its contexts: a user or a source that is learned from what it says.

    Nothing else changes, as in Jaech and Ostendorf (2018b, "Personalized language model for query auto-completion").

    Args:
        decoder: that reads contexts
        streams: how many have their own; with 1 all streams share it

    Raises:
        OptionError: the decoder reads none.
    """

    learns = True

    def __init__(self, decoder: Any, streams: int):
        if decoder.contexts is None:
            raise OptionError("--dynamic-parameters context: this model reads no contexts. Give another choice.")
        super().__init__(decoder, CONTEXT, next(decoder.parameters()).new_zeros(streams, decoder.contexts.embedding.dim))

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let the contexts' vectors change."""
        matrices, learned = self._decoder.matrices, having(self._decoder.contexts, "learned", self.tensors[CONTEXT])
        with learned, having(matrices, "source", lambda: _constant(matrices)), _differentiable(matrices):
            yield


def _differentiable(matrices: WordMatrices) -> AbstractContextManager[Any]:
    """Let recurrent layers have gradients in evaluation: cuDNN has none."""
    return torch.backends.cudnn.flags(enabled=False) if matrices.impossible.is_cuda else nullcontext()


def _losses(decoder: Any, h: Tensor, targets: Tensor, matrices: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the model's own losses, (B, T), 0 for padding and impossible words, and which targets are neither."""
    pad = decoder.dictionary.pad()
    targets = targets.masked_fill(decoder.matrices.unpredictable().to(targets.device)[targets], pad)
    return decoder.own_losses(h, matrices, targets).masked_fill(targets == pad, 0), targets != pad


def _constant(matrices: WordMatrices) -> Matrices:
    """Return the matrices as they were trained, without gradients."""
    with torch.no_grad():
        inputs, outputs, bias = matrices.computed()
    return inputs.detach(), outputs.detach(), bias.detach()


def _embeddings(matrices: WordMatrices) -> Tensor:
    """Return E_in as the head gets it, (V, d)."""
    with torch.no_grad():
        if matrices.corrections is None:
            return matrices.computed()[0].detach()
        return matrices.embedding(matrices.vocabulary)


def _places(decoder: nn.Module, stand_ins: dict[Any, nn.Parameter]) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """Return the attributes of modules that have these parameters: module, name, and what stands in for the parameter."""
    own = (
        (module, *pair) for module in decoder.modules() for pair in module.named_parameters(recurse=False, remove_duplicate=False)
    )
    return [(module, name, stand_ins[one]) for module, name, one in own if one in stand_ins]
