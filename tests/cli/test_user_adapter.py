"""An adapter of a user's that changes the model: its file, its refusals and its passes of ``tune`` come with it."""

import json
import shutil

import pytest
from cli_helpers import Commands, evaluated

CODE = '''
from contextlib import contextmanager
from pathlib import Path

from fairseq_groc.adapters import Option, TextAdapter, register_adapter
from fairseq_groc.errors import DataError


@register_adapter(
    "growing",
    growing_rate=Option(0.0, "h grows by this share after each block", "natural", "growing_rates"),
    growing_block=Option(4, "tokens of a block", "count"),
    growing_from=Option(None, "folder with scale.txt, how large h is at first; default: the data folder", "folder"),
)
class Growing(TextAdapter):
    """h is scaled by a factor that grows."""

    def __init__(self, rate, scale):
        self.rate, self.scale = rate, scale

    @classmethod
    def from_settings(cls, settings, opened=None):
        return cls(settings.growing_rate, opened)

    @classmethod
    def open(cls, settings, model, data):
        path = Path(settings.growing_from or data, "scale.txt")
        if not path.exists():
            raise DataError(f"{path} is missing: --growing-from")
        return float(path.read_text())

    @classmethod
    def about(cls, opened):
        return {"scale": opened}

    @classmethod
    def refusals(cls, settings):
        return {
            use: f"--growing-rate does not go with {use}: leave it out" for use in ("training", "lines", "new_words", "limit")
        }

    @classmethod
    def block_length(cls, settings):
        return settings.growing_block

    def after_block(self, model, tokens, h, targets):
        self.scale *= 1 + self.rate

    @contextmanager
    def acting(self, model):
        layer = model.scoring_layer
        before, layer.change = layer.change, lambda h: h * self.scale
        yield
        layer.change = before
'''
OURS = ["python", "-m", "fairseq_groc"]
GROWING = ["--growing-rate", "0.01"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory, corpus):
    """Return commands in a folder with the adapter, two data folders and the folder that the adapter reads."""
    folder = tmp_path_factory.mktemp("theirs")
    for name, text in (("theirs/__init__.py", CODE), ("scales/scale.txt", "0.5\n")):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    for name in ("data", "union"):
        shutil.copytree(corpus / name, folder / name)
    return Commands(folder)


def test_tuning_searches_it_beyond_its_grid_and_scoring_takes_it(typed, models):
    common = ["--user-dir", "theirs", "--path", models["compositional_output"], "--data", "union", "--split", "test1"]
    grid = ["--growing-rates", "1e-3", "2e-3", "--growing-from", "scales", "--cache", "none", "--out", "grid.json"]
    output = typed.ok(*OURS, "tune", *common, *grid)
    found = json.loads((typed.folder / "grid.json").read_text())
    rates = sorted({row["growing_rate"] for row in found["grid"]})
    assert len(found["grid"]) == 4 * len(rates) and len(rates) > 2  # four of the uniform distribution
    assert f"--growing-rate {2e-3:g}" in output and "trying values beyond it" in output
    report = ["--out", "r.json", "--growing-rate", found["best"]["growing_rate"], "--growing-from", "scales"]
    report += ["--uniform-weight", found["best"]["uniform_weight"], "--verify-normalization", "1"]
    assert "model as it learns" in typed.ok(*OURS, "evaluate", *common, *report)
    made = json.loads((typed.folder / "r.json").read_text())
    assert made["settings"]["opened"] == {"growing": {"scale": 0.5}} and made["settings"]["block"] == 4
    assert made["all"]["perplexity"] == pytest.approx(found["best"]["perplexity"], rel=1e-5)
    theirs = ["--user-dir", "theirs", "--task", "wordnet_lexicon", "--path", models["compositional_output"]]
    scored = typed.ok("fairseq-eval-lm", "union", *theirs, "--gen-subset", "test1")
    assert evaluated(scored)[1] == pytest.approx(found["best"]["perplexity"], abs=0.006)


def test_it_refuses_what_it_does_not_go_with(typed, models, corpus):
    common = ["--user-dir", "theirs", "--path", models["compositional_output"], "--data", "data", "--split", "valid"]
    given = [*GROWING, "--growing-from", "scales"]

    def refused(*command):
        return typed.fails(*command).splitlines()[-1]

    assert "scale.txt is missing: --growing-from" in refused(*OURS, "evaluate", *common, *GROWING)
    assert "--growing-from does nothing without --growing-rate" in refused(*OURS, "evaluate", *common, *given[2:])
    idle = refused(*OURS, "tune", *common, "--growing-from", "scales")
    assert "--growing-from does nothing without --growing-rates above 0: give both" in idle
    many = ["--tokens-per-sample", "35"]
    assert "35: with --growing-rate 4 tokens are read" in refused(*OURS, "evaluate", *common, *given, *many)
    score = [*OURS, "score", corpus / "other.txt", *common[:-2], *given]
    assert "does not go with lines" in refused(*score)
    assert "does not go with new_words" in refused(*score, "--running", "--open-vocabulary")
    assert "does not go with limit" in refused(*score, "--running", "--limit-vocabulary", "data/dict.txt")
    train = ["fairseq-train", "data", *common[:2], "--task", "wordnet_lexicon", "--arch", "groc_lstm_lm_small", *given]
    train += ["--max-update", "1", "--optimizer", "adam", "--batch-size", "4", "--save-dir", "save"]
    assert "--growing-rate does not go with training" in typed.fails(*train)
