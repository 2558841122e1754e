"""A decoder that knows its words: adapted probabilities, contexts of lines, checkpoints that say what they are."""

import functools
import hashlib
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from fairseq_groc.adapters import Adapter, AdapterSettings, Memory, View
from fairseq_groc.adapters.dynamic import Leaves
from fairseq_groc.data.streams import Block
from fairseq_groc.encoders.carried import CarriedState
from fairseq_groc.errors import OptionError, refuse
from fairseq_groc.lexicon.tables import known_source
from fairseq_groc.models.changing_vocabulary import ChangingVocabulary
from fairseq_groc.models.context_layers import ContextLayers, of_hypotheses, reordered
from fairseq_groc.models.leaves import leaves_of
from fairseq_groc.models.word_layers import OutputLayer
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK
from fairseq_groc.modules.packed_state import pack, unpack
from fairseq_groc.modules.per_thread import PerThread, having
from fairseq_groc.modules.probabilities import LOG_ZERO
from fairseq_groc.options import OPTIONS_VERSION, SHARED_OPTIONS
from fairseq_groc.registry import flag

logger = logging.getLogger(__name__)


class WordDecoder(ChangingVocabulary):
    """What a decoder with a head does besides its own: adapted probabilities, and checkpoints that say what they are."""

    output_layer_name: str
    adapter: Adapter | None = None
    made: NDArray[Any] | None = None  # digests of the words and of what the vocabulary's tables make them of
    any_lexicon = False
    carried: dict[bool, CarriedState] | None = None  # the decoder's between blocks, in training and not; None: it has none
    contexts: ContextLayers | None
    given_context: Any = None  # of lines that come without one: of all, or in generation of each
    _memory = PerThread((None, None))  # of the streams that were read last, and where they are

    def forward(
        self, prev_output_tokens: Tensor, *args: Any, block: Block | None = None, context: Any = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Run the decoder; in evaluation with an adapter the second value also has its ``view`` of the block.

        Args:
            prev_output_tokens: (B, T)
            block: which piece of a running text this is; None: every row begins its text, or goes on in generation
            context: what is known of the batch's lines (``ContextLayers.reading``), for models that read it

        Raises:
            OptionError: words were added to another model that has this dictionary.
        """
        if len(self.dictionary) > len(self.matrices.impossible):
            raise OptionError("words were added to another model of an ensemble: call add_words of each with the same words")
        state, pad = kwargs.get("incremental_state"), self.dictionary.pad()
        if self.contexts is not None and context is None:
            known = self.given_context if state is None else state.get("context", self.given_context)
            context = of_hypotheses(known, len(prev_output_tokens))
        if self.carried is not None:
            kwargs["block"] = block
        if self.training or self.adapter is None:  # type: ignore[attr-defined]
            made = self._in_context(context, prev_output_tokens, *args, **kwargs)
        else:
            memory = self._memory_for(block, state)
            said = prev_output_tokens if state is None else prev_output_tokens[:, -1:]
            with memory.reading(self, said, running=block is not None, generating=state is not None) as read:
                scores, extra = self._in_context(context, prev_output_tokens, *args, **kwargs)
                layer = self.scoring_layer
                read.append(layer.met)
            if state is not None:
                state["adapter"] = memory  # only now: to fairseq's LSTM a state that is not empty has its own
            h = layer.features
            view = memory.see(h, prev_output_tokens[:, -h.size(1) :], pad, self.matrices.limit)
            made = scores.detach(), {**(extra if isinstance(extra, dict) else {"attn": extra}), "view": view}
        if self.contexts is not None and state is not None:
            state["context"] = context
        return made

    def adapter_block(self, given: int | None = None, settings: AdapterSettings | None = None) -> int | None:
        """Return how many tokens of a running text its adapter wants to be read at a time; None: any.

        A decoder that carries no state would know too little in short blocks: it learns after each of its own.

        Args:
            given: ``--tokens-per-sample``; 0 or None: nothing
            settings: None: the adapter's

        Raises:
            OptionError: another number is given.
        """
        if settings is None and self.adapter is not None:
            settings = self.adapter.settings
        return None if self.carried is None or settings is None else settings.block_length(given)

    @property
    def scoring_layer(self) -> OutputLayer:
        """What makes scores of h, by whatever name the architecture has it; after a pass it holds h as its ``features``."""
        return getattr(self, self.output_layer_name)

    def _in_context(self, context: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Run the decoder as it is, on lines with these contexts."""
        if self.contexts is None:
            return super().forward(*args, **kwargs)  # type: ignore[misc]
        with self.contexts.reading(context) as lines:
            if self.carried is not None:
                kwargs["context"] = lines
            return super().forward(*args, **kwargs)  # type: ignore[misc]

    def _memory_for(self, block: Block | None, incremental_state: dict[str, Any] | None) -> Memory:
        """Return what the streams have said before a block, or the hypotheses before a step of generation."""
        assert self.adapter is not None
        if incremental_state is not None:
            return incremental_state.get("adapter", Memory(self.adapter))
        if block is None:
            return Memory(self.adapter)
        place, memory = self._memory
        if block.begin == 0 or memory is None or place != (block.text, block.epoch, block.group, block.begin):
            if block.begin > 0:
                logger.warning(f"nothing is remembered of '{block.text}' before token {block.begin} of its streams")
            memory = Memory(self.adapter)
        self._memory = (block.text, block.epoch, block.group, block.end), memory
        return memory

    def reorder_incremental_state(self, incremental_state: dict[str, Any], new_order: Tensor) -> None:
        super().reorder_incremental_state(incremental_state, new_order)  # type: ignore[misc]
        if "adapter" in incremental_state:
            incremental_state["adapter"].reorder(new_order)
        if "context" in incremental_state:
            incremental_state["context"] = reordered(incremental_state["context"], new_order)

    def without_scores(self, model: Any, net_input: dict[str, Any]) -> tuple[Tensor, dict[str, Any], tuple[Tensor, Tensor]]:
        """Run the model, which may be wrapped; return h (B, T, d) in place of the scores, what else it returns, E_out and b."""
        with having(self.scoring_layer, "deferred", True):
            h, extra = model(**net_input)[:2]
        _, outputs, bias = self.matrices.end()
        return h, extra, (outputs, bias)

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        """Return the (log-)probabilities of the adapted model, (..., V); an impossible word has LOG_ZERO."""
        lprobs = F.log_softmax(net_output[0].float(), dim=-1)
        if not self.training:  # type: ignore[attr-defined]
            view = self._view(net_output[1])
            lprobs = (lprobs if view is None else view.adapt(lprobs)).clamp_(min=LOG_ZERO)
        return lprobs if log_probs else lprobs.exp()

    @staticmethod
    def _view(extra: Any) -> View | None:
        return extra.get("view") if isinstance(extra, dict) else None

    def losses(
        self, h: Tensor, extra: Any, matrices: tuple[Tensor, Tensor], targets: Tensor, chunk: int = DEFAULT_CHUNK
    ) -> tuple[Tensor, Tensor]:
        """Return -log p(target) of the adapted model and of the model alone, (B, T), never holding all scores; 0 for padding.

        Args:
            h, extra, matrices: from ``without_scores``
            targets: (B, T)
            chunk: words whose scores are held at a time
        """
        view = None if self.training else self._view(extra)  # type: ignore[attr-defined]
        with nullcontext() if view is None else view.memory.acting(self):
            own = self.own_losses(h, matrices, targets, chunk)
            if self.training:  # type: ignore[attr-defined]
                return own, own
            adapted = own
            if view is not None:
                mass_of = functools.partial(self._log_mass, h, *matrices, chunk)
                adapted = -view.adapt_at(-self._discounted(own, h, *matrices, targets, chunk), targets, mass_of)
        padding = targets == self.dictionary.pad()
        return adapted.clamp(max=-LOG_ZERO).masked_fill(padding, 0), own.clamp(max=-LOG_ZERO).masked_fill(padding, 0)

    def own_losses(self, h: Tensor, matrices: tuple[Tensor, Tensor], targets: Tensor, chunk: int = DEFAULT_CHUNK) -> Tensor:
        """Return -log p(target) of the model alone, (B, T); the arguments are those of ``losses``."""
        head, pad = self.matrices.head, self.dictionary.pad()
        if self.training or self.matrices.limit is None or head.plain_softmax:  # type: ignore[attr-defined]
            return head.losses(h.flatten(0, 1), *matrices, targets.flatten(), pad, chunk).view(targets.shape)
        return -self._own_lprobs(h, *matrices).gather(2, targets.unsqueeze(2)).squeeze(2)

    def _own_lprobs(self, h: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return the log-probabilities of the model alone, (B, T, V)."""
        return torch.log_softmax(self.matrices.log_scores(h, outputs, bias).float(), -1)

    def leaves(self, choice: str, streams: int = 1) -> Leaves:
        """Return what dynamic evaluation changes, by ``--dynamic-parameters``: see ``leaves_of``."""
        return leaves_of(self, choice, streams)

    def _discount(self, device: torch.device) -> Tensor | None:
        return self.adapter.discount(device) if self.adapter is not None else None

    def _discounted(self, own: Tensor, h: Tensor, outputs: Tensor, bias: Tensor, targets: Tensor, chunk: int) -> Tensor:
        """Return -log p(target), (B, T), with the probability of new words discounted and all of them normalised."""
        shift = self._discount(h.device)
        if shift is None:
            return own
        if self.matrices.head.plain_softmax:  # a factor on a probability is a term of the bias
            return self.own_losses(h, (outputs, bias + shift), targets, chunk)
        return own - shift[targets] + (self._own_lprobs(h, outputs, bias) + shift).logsumexp(-1)

    def _log_mass(self, h: Tensor, outputs: Tensor, bias: Tensor, chunk: int, chosen: Tensor) -> Tensor:
        """Return the log of the discounted probability of some words together, a mask (V), at each position, (B, T)."""
        shift, possible, chosen = self._discount(h.device), bias > -torch.inf, chosen.to(bias.device)
        if not bool((possible & ~chosen).any()):
            return h.new_zeros(h.shape[:2], dtype=torch.float32)
        if not self.matrices.head.plain_softmax:
            lprobs = self._own_lprobs(h, outputs, bias)
            lprobs = lprobs if shift is None else torch.log_softmax(lprobs + shift, -1)
            return lprobs.masked_fill(~chosen, -torch.inf).logsumexp(-1)
        if not bool((possible & chosen).any()):
            return h.new_full(h.shape[:2], -torch.inf, dtype=torch.float32)
        # the losses of any of the words, among these and among all, differ by their share
        one = (possible & chosen).nonzero()[0].expand(h.shape[:2])
        bias = bias if shift is None else bias + shift
        biases = bias, bias.masked_fill(~chosen, -torch.inf)
        whole, part = (self.own_losses(h, (outputs, among), one, chunk) for among in biases)
        return part - whole

    def get_extra_state(self) -> Tensor:
        made = None if self.made is None else [len(self.made), digest_of(self.made)]
        about = {"lexicon": self.lexicon_fingerprint, "made": made, "piece_mark": self._piece_mark()}
        return pack({"version": OPTIONS_VERSION, "settings": self.settings, **about})

    def _piece_mark(self) -> str:
        """Return the mark that spellings leave out; nothing: there is none, or no word is spelled."""
        return "" if self.matrices.vocabulary is None else self.matrices.vocabulary.spelled.mark

    def set_extra_state(self, state: Any) -> None:
        """The settings were compared in ``upgrade_state_dict_named``."""

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> dict[str, Any]:
        """Refuse weights that were trained with other settings or another lexicon (fairseq calls it before loading).

        Raises:
            OptionError: with the options that differ.
        """
        super().upgrade_state_dict_named(state_dict, name)  # type: ignore[misc]
        prefix = name + "." if name else ""
        saved = unpack(state_dict.setdefault(prefix + "_extra_state", self.get_extra_state()))
        if saved["version"] > OPTIONS_VERSION:
            raise OptionError(f"the checkpoint has options of version {saved['version']}, newer than {OPTIONS_VERSION}: upgrade")
        differing = [
            f"{flag(key)} {self.settings[key]} (checkpoint: {value})"
            for key, value in saved["settings"].items()
            if self.settings.get(key, value) != value and not str(SHARED_OPTIONS[key].kind).startswith("dropout")
        ]
        if differing:
            refuse(f"options differ from the checkpoint's: {'; '.join(differing)}. Give the checkpoint's or start anew.")
        mark = saved.get("piece_mark", "")
        if mark != self._piece_mark():
            ours, theirs = (f"pieces marked {one}" if one else "whole words" for one in (self._piece_mark(), mark))
            given = f"with --piece-marks {mark}" if mark else "without --piece-marks"
            refuse(f"the data have {ours}, and the checkpoint's had {theirs}: binarise the text again {given}.")
        if self.contexts is not None:
            self.contexts.move_values(state_dict, f"{prefix}contexts.", f"{prefix}words.context_rows.weight")
        trained = saved.get("lexicon")
        if not self.any_lexicon and None not in (trained, self.lexicon_fingerprint) and trained != self.lexicon_fingerprint:
            self._compare_words(trained, saved.get("made"))
        return state_dict

    def _compare_words(self, trained: str, made: Sequence[Any] | None) -> None:
        """Warn of another lexicon that makes the words of training of the same; refuse any other.

        Args:
            trained: fingerprint of the lexicon of training
            made: how many words training had, and the digest of what they were made of; None: the checkpoint does not say
        """
        both = f"({self.origin}) than the checkpoint's ({trained})"
        count, digest = made or (0, None)  # no digest is None
        if self.made is not None and len(self.made) >= count and digest_of(self.made[:count]) == digest:
            logger.warning(f"the lexicon tables come from another lexicon {both}, which has the same on all words of training")
            return
        refuse(
            f"the lexicon tables come from another lexicon {both}, and words of training may be made of something else. Rebuild "
            f"them: python -m fairseq_groc tables DATA --lexicon-path {known_source(trained) or 'LEXICON'}; "
            "or, if that is meant, give --any-lexicon."
        )


def digest_of(made: NDArray[Any]) -> str:
    """Return a digest of digests."""
    return hashlib.sha256(made.tobytes()).hexdigest()[:16]
