"""Scorers of models that were never trained, over a few words."""

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

MODELS = Path(__file__).parents[1] / "models"
sys.path.append(str(MODELS))
_spec = importlib.util.spec_from_file_location("fixtures_of_models", MODELS / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
dictionary_of, model_of, stock_model = _fixtures.dictionary_of, _fixtures.model_of, _fixtures.stock_model

from serving_models import WORDS  # noqa: E402

from fairseq_groc.adapters import Adapter  # noqa: E402
from fairseq_groc.evaluation import loading  # noqa: E402
from fairseq_groc.models.changing_vocabulary import offer_vocabulary_changes  # noqa: E402
from fairseq_groc.serving.scorer import Scorer  # noqa: E402


@pytest.fixture
def make(model_of, stock_model, monkeypatch):
    """Return a function from architecture, head and adapters to a scorer of such a model; zebra and later words are new."""

    def build(
        arch="groc_lstm_lm", head="compositional_output", adapters=None, schema=None, words=WORDS, open_mass=None, **options
    ):
        if arch == "groc_lstm_lm":
            chosen = dict(head="adaptive", adaptive_scoring="bins") if head == "bins" else dict(head=head)
            model = model_of(words, schema=schema, **chosen, **options)
        else:
            model = stock_model(arch, head, words, schema=schema, **options)
        for parameter in model.decoder.matrices.parameters():
            parameter.data.mul_(1.5)  # far from uniform
        if adapters is not None:
            new = torch.arange(len(model.decoder.dictionary)) >= 8
            model.decoder.adapter = Adapter(adapters, model.decoder.real_words(), new)
        offer_vocabulary_changes(model)
        known = dict(contexts_given=contexts_given(schema), block_length=lambda: 12)
        task = Namespace(dictionary=model.decoder.dictionary, **known)
        hub = Namespace(models=[model], task=task, device=torch.device("cpu"))
        monkeypatch.setattr(loading, "load", lambda *_, **__: hub)
        return Scorer(
            "checkpoint", "DATA", **({} if open_mass is None else {"open_vocabulary": True, "new_word_mass": open_mass})
        )

    return build


def contexts_given(schema):
    return lambda given: [schema.parse(one) for one in (given if isinstance(given, list) else [given])]
