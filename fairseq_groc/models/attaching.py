"""Give a fairseq language model's decoder one of the package's heads."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from fairseq_groc.contexts.schema import Schema
from fairseq_groc.dictionary import predictable_words
from fairseq_groc.embeddings.rows import ZEROS, NewRows, rows_below
from fairseq_groc.embeddings.sampled_updates import ALL_UPDATES, Updates
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.errors import OptionError
from fairseq_groc.models.building import (
    build_contexts,
    build_corrections,
    build_embedding,
    build_head,
    context_rows,
    feature_dropout,
    feature_width,
)
from fairseq_groc.models.word_decoder import WordDecoder
from fairseq_groc.models.word_layers import InputLayer, OutputLayer
from fairseq_groc.models.word_matrices import WordMatrices

OUTPUTS = ("output_projection", "fc_out", "fc3")  # what makes the logits: transformer and lightconv, lstm, fconv


def attach_head(
    decoder: Any,
    settings: dict[str, Any],
    vocabulary: Vocabulary | None,
    init_range: float,
    every_entry: bool = False,
    computation: dict[str, Any] | None = None,
    updates: Updates = ALL_UPDATES,
    file: Path | None = None,
    new_rows: NewRows = ZEROS,
    schema: Schema | None = None,
) -> None:
    """Replace a decoder's word embedding and what makes its logits by ``--output-head`` and the embedding that goes with it.

    The decoder is used as it is otherwise; it becomes a ``WordDecoder``.

    Args:
        decoder: of a fairseq model, with ``embed_tokens`` and one of ``OUTPUTS``
        settings: the options of the head and of its embedding, by name
        vocabulary: for heads that read spellings
        init_range: parameters of rows and head begin uniformly from minus to plus this, composed embeddings at that size
        every_entry: give the dictionary's special entries and fillers a probability too, as label smoothing needs it
        computation: options of how embeddings are computed, which are no model's (``--encoding-chunk`` and the like)
        updates, file: of ``WordMatrices``
        new_rows: how rows of words begin that a checkpoint lacks, also in a head of a user's own; corrections begin at 0
        schema: what is known of a line besides its words, for models that read it (``--context-dim``)

    Raises:
        OptionError: the decoder has an adaptive softmax or input, or no module that makes the logits.
    """
    output = _output_of(decoder)
    layer = getattr(decoder, output)
    dim, words = decoder.embed_tokens.embedding_dim, decoder.dictionary.symbols
    width = getattr(layer, "in_features", None) or layer.weight.size(1)
    given = {**settings, **(computation or {})}
    taken = feature_width(dim, width, settings)
    embedding, head = build_embedding(words, dim, given), build_head(words, taken, given)
    head.begin(init_range)
    embedding.begin(vocabulary, init_range)
    impossible = ~(torch.tensor(predictable_words(words)) | every_entry)
    corrections = build_corrections(words, dim, settings)
    contexts = build_contexts(decoder, schema, settings, dim, taken)
    rows = context_rows(contexts, head, words, settings, init_range)
    for part in (embedding, head, rows):
        for table in rows_below(part).values() if part is not None else ():
            table.new = new_rows
    matrices = decoder.words = WordMatrices(embedding, head, vocabulary, impossible, corrections, updates, file, rows)
    decoder.embed_tokens = InputLayer(matrices, dim, decoder.embed_tokens.padding_idx, settings["embedding_dropout"], contexts)
    setattr(decoder, output, OutputLayer(matrices, width, taken, feature_dropout(settings), contexts))
    decoder.contexts = contexts
    decoder.output_layer_name, decoder.settings = output, settings
    decoder.__class__ = type(type(decoder).__name__, (WordDecoder, type(decoder)), {})


def _output_of(decoder: Any) -> str:
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
