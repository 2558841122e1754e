"""Put a word embedding and a head together by name."""

from collections.abc import Sequence
from typing import Any

from fairseq_groc.contexts.schema import Schema
from fairseq_groc.embeddings import EMBEDDINGS, WordEmbedding
from fairseq_groc.embeddings.compositional import filter_widths
from fairseq_groc.embeddings.corrections import Corrections
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.encoders import PrefixEncoder
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS, Head, OutputHead
from fairseq_groc.models.context_layers import ContextLayers


def build_embedding(words: Sequence[str], dim: int, settings: dict[str, Any]) -> WordEmbedding:
    """Return the word embedding that goes with a head: from a vocabulary to E_in, (V, d).

    Args:
        words: of the vocabulary
        dim: d
        settings: the options of the head and of its embedding, by name
    """
    return embedding_of(settings).from_settings(words, dim, settings)


def feature_width(dim: int, width: int, settings: dict[str, Any]) -> int:
    """Return the size of the h that a head takes, which is the d that ``build_head`` wants: d, or the encoder's own width."""
    return width if _head(settings).kind.takes_any_width(settings) else dim


def feature_dropout(settings: dict[str, Any]) -> float:
    """Return the dropout of h before a head."""
    return settings["output_dropout"] if settings["feature_dropout"] == -1 else settings["feature_dropout"]


def build_head(words: Sequence[str], dim: int, settings: dict[str, Any]) -> OutputHead:
    """Return the head that ``settings["output_head"]`` names."""
    return _head(settings).kind.from_settings(words, dim, settings)


def build_corrections(words: Sequence[str], dim: int, settings: dict[str, Any]) -> Corrections | None:
    """Return the corrections that ``settings["corrections"]`` asks for, which only composed words have."""
    where = settings.get("corrections", "none")
    if where == "none":
        return None
    return Corrections(words, dim, settings["correction_dim"], settings["correction_dropout"], where)


def build_contexts(decoder: Any, schema: Schema | None, settings: dict[str, Any], dim: int, width: int) -> ContextLayers | None:
    """Return where a decoder meets the contexts of lines; None: it reads none.

    Args:
        schema: what is known of a line
        dim: d
        width: of what meets the output embeddings

    Raises:
        OptionError: nothing is known of lines, it would change nothing, or this decoder's recurrent weights cannot change.
    """
    if not settings["context_dim"]:
        return None
    if schema is None:
        raise OptionError(
            f"--context-dim {settings['context_dim']}: the data say nothing of their lines. Preprocess with --context-train "
            "FILE, or leave it out."
        )
    adaptation, by_itself = settings["context_adaptation"], takes_context(decoder)
    if adaptation == "factor" and not by_itself:
        raise OptionError("--context-adaptation factor: this prefix encoder reads no contexts. Give factor_cell, or concat.")
    if adaptation == settings["context_bias"] == "none":
        raise OptionError(
            f"--context-dim {settings['context_dim']} --context-adaptation none --context-bias none: contexts would change "
            "nothing. Leave one of the latter out, or all of them."
        )
    return ContextLayers(schema, settings, dim, width, add_to_input=adaptation == "concat" and not by_itself)


def takes_context(decoder: Any) -> bool:
    """Say whether a decoder has a prefix encoder that reads contexts itself."""
    return isinstance(getattr(decoder, "encoder", None), PrefixEncoder) and decoder.encoder.takes_context


def context_rows(
    contexts: ContextLayers | None, head: OutputHead, words: Sequence[str], settings: dict[str, Any], limit: float
) -> WordRows | None:
    """Return what each word has for contexts, and tell the head of it; None: nothing.

    Args:
        limit: they begin uniformly from minus to plus this

    Raises:
        OptionError: the head has more than one softmax.
    """
    if contexts is None or not contexts.appended:
        return None
    if not head.plain_softmax:
        raise OptionError(
            f"--context-bias {settings['context_bias']} wants one softmax, which {settings['output_head']} has not: give shift"
        )
    head.appended = contexts.appended
    rows = WordRows(words, contexts.appended)
    rows.weight.data.uniform_(-limit, limit)
    return rows


def _head(settings: dict[str, Any]) -> Head:
    return HEADS.find(settings["output_head"])


def embedding_of(settings: dict[str, Any]) -> type[WordEmbedding]:
    """Return the kind of word embedding that goes with a head."""
    return EMBEDDINGS.find(_head(settings).embedding)


def ngram_widths(settings: dict[str, Any]) -> list[int]:
    """Return the widths of the n-grams that the filters read."""
    return [width for width, _ in filter_widths(settings["char_filters"])]


def needs_spellings(settings: dict[str, Any]) -> bool:
    """Say whether word embedding or head need the vocabulary's spellings."""
    return _head(settings).kind.needs_spellings or embedding_of(settings).reads_spellings


def lexicon_parts(settings: dict[str, Any]) -> tuple[bool, bool]:
    """Say whether the word embedding reads relations, and whether definitions."""
    return embedding_of(settings).lexicon_parts(settings)
