"""A language model over a few words, as fairseq holds it."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder, GrocLSTMLanguageModel


def dictionary_of(words):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


@pytest.fixture
def model_of(vocabulary_of):
    """Return a function from words and options to a model over them; the same seed gives the same parameters."""

    def build(words, head="compositional_output", **options):
        torch.manual_seed(3)
        cfg = dict(decoder_embed_dim=6, decoder_hidden_size=8, decoder_layers=2, dropout=0.0, dropout_in=0.0, dropout_out=0.0)
        cfg.update(output_head=head, char_embed_dim=4, char_filters=[3, 4], highway_layers=1, output_depth=1)
        cfg.update(output_activation="relu", output_dropout=0.0, bias_activation="identity", **options)
        decoder = GrocLSTMDecoder(dictionary_of(words), lambda _: vocabulary_of(words, [1, 2]), Namespace(**cfg))
        return GrocLSTMLanguageModel(decoder).eval()

    return build
