"""Give a fairseq language model's decoder one of the package's heads."""

import logging
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.errors import OptionError
from fairseq_groc.modules.build import build_embedding, build_head
from fairseq_groc.modules.compositional import SurfaceEncoder
from fairseq_groc.modules.probabilities import LOG_ZERO, predictable_words, uniform_mixture, uniform_mixture_at
from fairseq_groc.modules.rows import WordRows
from fairseq_groc.modules.softmax_layer import WordMatrices
from fairseq_groc.modules.vocabulary import Vocabulary
from fairseq_groc.modules.word_layers import InputLayer, OutputLayer
from fairseq_groc.options import OPTIONS_VERSION, flag

logger = logging.getLogger(__name__)
INIT_RANGE = 0.05  # GroC, appendix B.1
OUTPUTS = ("output_projection", "fc_out", "fc3")  # what makes the logits: transformer and lightconv, lstm, fconv


def attach_head(decoder, settings: Dict[str, Any], vocabulary: Optional[Vocabulary], every_entry: bool = False) -> None:
    """Replace a decoder's word embedding and what makes its logits by ``--output-head`` and the embedding that goes with it.

    The decoder is used as it is otherwise; it becomes a ``WordDecoder``.

    Args:
        decoder: of a fairseq model, with ``embed_tokens`` and one of ``OUTPUTS``
        settings: the options of ``options.HeadConfig`` by name
        vocabulary: for heads that read spellings
        every_entry: give the dictionary's special entries and fillers a probability too, as label smoothing needs it

    Raises:
        OptionError: the decoder has an adaptive softmax or input, or no module that makes the logits.
    """
    output = _output_of(decoder)
    layer = getattr(decoder, output)
    dim, words = decoder.embed_tokens.embedding_dim, decoder.dictionary.symbols
    width = getattr(layer, "in_features", None) or layer.weight.size(1)
    embedding, head = build_embedding(words, dim, settings), build_head(words, dim, settings)
    _initialise(head)
    for module in embedding.modules():
        if isinstance(module, WordRows):
            _initialise(module)
    impossible = ~(torch.tensor(predictable_words(words)) | every_entry)
    decoder.words = WordMatrices(embedding, head, vocabulary, impossible)
    decoder.embed_tokens = InputLayer(decoder.words, dim, decoder.embed_tokens.padding_idx)
    setattr(decoder, output, OutputLayer(decoder.words, width, dim, settings["output_dropout"]))
    decoder.output_layer_name, decoder.settings = output, settings
    decoder.__class__ = type(type(decoder).__name__, (WordDecoder, type(decoder)), {})


def _initialise(module: nn.Module) -> None:
    """Draw all parameters as the papers do, but those of a surface encoder."""
    if isinstance(module, SurfaceEncoder):
        return
    for parameter in module.parameters(recurse=False):
        parameter.data.uniform_(-INIT_RANGE, INIT_RANGE)
    for child in module.children():
        _initialise(child)


def _output_of(decoder) -> str:
    if getattr(decoder, "adaptive_softmax", None) is not None:
        raise OptionError("an output head cannot replace an adaptive softmax: leave --adaptive-softmax-cutoff and the like out")
    if not isinstance(decoder.embed_tokens, nn.Embedding):
        raise OptionError(
            f"an output head cannot replace a {type(decoder.embed_tokens).__name__}: leave --adaptive-input and "
            "--character-embeddings out"
        )
    for name in OUTPUTS:
        if isinstance(getattr(decoder, name, None), nn.Module):
            return name
    raise OptionError(
        f"{type(decoder).__name__} has no module of its own that makes the logits: leave --share-decoder-input-output-embed out "
        "(--output-head tied shares them)"
    )


class WordDecoder:
    """What a decoder with a head does besides its own: adapted probabilities, and checkpoints that say what they are."""

    words: WordMatrices
    settings: Dict[str, Any]
    output_layer_name: str
    uniform_weight = 0.0
    lexicon: Optional[str] = None  # fingerprint of the lexicon that the vocabulary's tables come from
    any_lexicon = False

    def without_scores(self, model, net_input) -> Tuple[Tensor, Tensor, Tensor]:
        """Run the model, which may be wrapped, and return h (B, T, d), and E_out and b, in place of the scores."""
        layer: OutputLayer = getattr(self, self.output_layer_name)
        layer.deferred = True
        try:
            h = model(**net_input)[0]
        finally:
            layer.deferred = False
        _, outputs, bias = self.words.end()
        return h, outputs, bias

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return the (log-)probabilities of the adapted model, (..., V); an impossible word has LOG_ZERO."""
        lprobs = F.log_softmax(net_output[0].float(), dim=-1)
        if not self.training:  # type: ignore[attr-defined]
            if self.uniform_weight > 0:
                lprobs = uniform_mixture(lprobs, self.uniform_weight, self._real_words(lprobs.device))
            lprobs = lprobs.clamp(min=LOG_ZERO)
        return lprobs if log_probs else lprobs.exp()

    def adapted_losses(self, losses: Tensor, targets: Tensor) -> Tensor:
        """Return -log p of the adapted model from that of the model, (N), for a loss that never sees the other words."""
        if self.training:  # type: ignore[attr-defined]
            return losses
        if self.uniform_weight > 0:
            words = self._real_words(losses.device)
            losses = uniform_mixture_at(losses, self.uniform_weight, words, targets)
        return losses.clamp(max=-LOG_ZERO)

    def _real_words(self, device) -> Tensor:
        words = ~self.words.impossible
        words[: self.dictionary.nspecial] = False  # type: ignore[attr-defined]
        return words.to(device)

    def get_extra_state(self) -> dict:
        return {"version": OPTIONS_VERSION, "settings": self.settings, "lexicon": self.lexicon}

    def set_extra_state(self, state) -> None:
        """The settings were compared in ``upgrade_state_dict_named``."""

    def upgrade_state_dict_named(self, state_dict, name: str):
        """Refuse weights that were trained with other settings or another lexicon (fairseq calls it before loading).

        Raises:
            OptionError: with the options that differ.
        """
        super().upgrade_state_dict_named(state_dict, name)  # type: ignore[misc]
        prefix = name + "." if name else ""
        saved = state_dict.setdefault(prefix + "_extra_state", self.get_extra_state())  # EMA copies drop it
        if saved["version"] > OPTIONS_VERSION:
            raise OptionError(f"the checkpoint has options of version {saved['version']}, newer than {OPTIONS_VERSION}: upgrade")
        differing = [
            f"{flag(key)} {self.settings[key]} (checkpoint: {value})"
            for key, value in saved["settings"].items()
            if key != "output_dropout" and self.settings.get(key) != value
        ]
        if differing:
            _refuse(f"options differ from the checkpoint's: {'; '.join(differing)}. Give the checkpoint's or start anew.")
        trained = saved.get("lexicon")
        if not self.any_lexicon and None not in (trained, self.lexicon) and trained != self.lexicon:
            _refuse(
                f"the lexicon tables come from another lexicon ({self.lexicon}) than the checkpoint's ({trained}). Rebuild them: "
                "python -m fairseq_groc tables DATA --lexicon-path LEXICON; or, if that is meant, give --any-lexicon."
            )
        return state_dict


def _refuse(message: str) -> None:
    logger.error(message)  # fairseq-train hides the text of errors in loading
    raise OptionError(message)
