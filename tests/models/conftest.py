"""A language model over a few words, as fairseq holds it."""

from argparse import Namespace

import pytest
import torch
from decoders import arguments
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.embeddings.compositional import CompositionalEmbedding
from fairseq_groc.embeddings.vocabulary import Spelling
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.models.attaching import attach_head
from fairseq_groc.models.groc_lstm_lm import GrocLSTMDecoder, GrocLSTMLanguageModel
from fairseq_groc.options import HeadConfig, head_settings


def _dictionary_of(words):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


@pytest.fixture
def dictionary_of():
    """Return a function from words to fairseq's dictionary of them."""
    return _dictionary_of


@pytest.fixture
def model_of(vocabulary_of):
    """Return a function from words and options to a model over them; the same seed gives the same parameters."""

    def build(words, head="compositional_output", computation=None, schema=None, encoder="lstm", **options):
        torch.manual_seed(3)
        cfg = dict(decoder_embed_dim=6, decoder_hidden_size=8, decoder_layers=2, dropout=0.0, dropout_in=0.0, dropout_out=0.0)
        small = dict(output_head=head, char_embed_dim=4, char_filters=[3, 4], output_depth=1, output_cutoffs=[6, 8])
        of_encoder = {name: options.pop(name) for name in ENCODERS.options if name in options}
        small.update({**dict(output_factor=2, correction_dim=3, num_softmaxes=2), **options})
        head_cfg = HeadConfig(**small)
        cfg.update(prefix_encoder=encoder, init_range=head_cfg.init_range, **{n: v for n, v in options.items() if "context" in n})
        cfg.update(of_encoder)
        decoder = GrocLSTMDecoder(_dictionary_of(words), Namespace(**cfg))
        settings, vocabulary = head_settings(head_cfg), vocabulary_of(words, [1, 2], spelled=Spelling(head_cfg.spelling_units))
        attach_head(decoder, settings, vocabulary, head_cfg.init_range, schema=schema, **computation or {})
        if isinstance(decoder.matrices.embedding, CompositionalEmbedding) and decoder.matrices.embedding.compose is not None:
            torch.nn.init.uniform_(decoder.matrices.embedding.compose.weight, -0.5, 0.5)  # words begin as their spellings alone
        return GrocLSTMLanguageModel(decoder).eval()

    return build


@pytest.fixture
def stock_model(dictionary_of, vocabulary_of):
    """Return a function from an architecture, a head and words to fairseq's model with that head."""

    def build(arch, head, words, schema=None, **more):
        torch.manual_seed(3)
        dictionary = dictionary_of(words)
        task = Namespace(
            source_dictionary=dictionary, target_dictionary=dictionary, output_dictionary=dictionary, dictionary=dictionary
        )
        model = ARCH_MODEL_REGISTRY[arch].build_model(arguments(arch), task)
        small = dict(char_embed_dim=4, char_filters=[3, 4], output_depth=1, output_cutoffs=[6, 8], output_factor=2)
        settings = head_settings(HeadConfig(output_head=head, correction_dim=3, num_softmaxes=2, **{**small, **more}))
        attach_head(model.decoder, settings, vocabulary_of(words, [1, 2]), HeadConfig.init_range, schema=schema)
        return model.eval()

    return build


@pytest.fixture
def text(as_lines):
    random = torch.Generator().manual_seed(5)
    return as_lines(*(torch.randint(4, 12, (n,), generator=random).tolist() + [2] for n in (5, 0, 9, 3, 1, 7)))


@pytest.fixture
def batches():
    """Return a function from a model and lines to the batches of their text."""

    def batch(model, lines, streams=1, block=5, contexts=None):
        dataset = StreamDataset(lines, "text", model.decoder.dictionary, False, contexts)
        return [dataset[plan] for plan in dataset.plan(1, streams, 1, block)]

    return batch
