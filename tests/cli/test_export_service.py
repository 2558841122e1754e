"""A model that was exported scores where neither fairseq nor the package is, and what needs no fairseq is imported without."""

import ast
import json
import shutil
import subprocess
import sys

import pytest
from cli_helpers import ROOT, environment
from test_bad_checkpoints import one_line, wheres
from test_open_vocabulary import LEXICON

import fairseq_groc
from fairseq_groc.lexicon import FileLexicon
from fairseq_groc.serving import service

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
SCORE = """
import json, service
lines, entries = json.load(sys.stdin)
model = service.Service("{folder}")
before = [score.log_probability for score in model.score(lines)]
if entries:
    model.add_words(entries)
print(json.dumps([before, model.score(lines)]))
"""
PLAIN = ("modules", "lexicon", "contexts", "embeddings", "encoders", "heads", "adapters", "serving.service")
IMPORT = """
import importlib, pkgutil
for name in {names!r}:
    module = importlib.import_module("fairseq_groc." + name)
    for found in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if found.name != "carried":  # between fairseq's batches
            importlib.import_module(f"fairseq_groc.{{name}}.{{found.name}}")
print(sorted(name for name in sys.modules if name.partition(".")[0] == "fairseq"))
import fairseq_groc
fairseq_groc.load
"""


def run(code, blocked, *arguments, **options):
    """Run Python without some packages."""
    command = [sys.executable, "-c", BLOCKED.format(blocked=blocked) + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), **options)


@pytest.mark.parametrize("head", ["compositional_output", "tied", "lookup"])
def test_it_scores_and_adds_words_by_pytorch_alone(ours, corpus, models, tmp_path, head):
    folder = tmp_path / "served"
    printed = ours("export", "--service", folder, *wheres(corpus, models[head]))
    composed = head == "compositional_output"
    count = len((corpus / "data" / "dict.txt").read_text().splitlines())
    assert f"{count} words; {'adds words' if composed else 'adds no words: each has a row'}" in printed
    lines = (corpus / "other.txt").read_text(encoding="utf-8").splitlines()
    scorer = fairseq_groc.load(models[head], corpus / "data", lexicon_path=str(LEXICON[1]))
    expected = [score.log_probability for score in scorer.score(lines)]
    new = sorted({word for line in lines for word in line.split()} - set(scorer.words)) if composed else []
    assert len(new) == 4 * composed
    found = {word: FileLexicon(LEXICON[1]).lookup(word, 3, 10) for word in new}
    entries = {w: {"relations": [r.word for r in e.relations], "definition": e.definition} for w, e in found.items()}
    code = SCORE.format(folder=folder)
    done = run(code, ("fairseq", "fairseq_groc"), input=json.dumps([lines, entries]), cwd=folder)
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    assert before == pytest.approx(expected, rel=1e-6)
    if composed:
        scorer.add_words(new)
    again = scorer.score(lines)
    assert [tokens for _, tokens in after] == [score.tokens for score in again]
    assert [score for score, _ in after] == pytest.approx([score.log_probability for score in again], rel=1e-6)
    assert composed == ([score for score, _ in after] != before)


def test_what_tune_has_found_is_not_exported(ours, corpus, models, tmp_path, caplog):
    data = shutil.copytree(corpus / "data", tmp_path / "data")
    where = ["--path", models["tied"], "--data", data]
    ours("tune", *where, "--split", "valid", "--cache", "none", "--uniform", "0.3", "--discounts", "1", "--no-extend")
    caplog.clear()
    assert "each has a row; without its tuned adapters\n" in ours("export", "--service", tmp_path / "served", *where)
    assert "adapters" not in ours("export", tmp_path / "words.vec", *where)
    assert "adapters" not in caplog.text
    scores = service.Service(tmp_path / "served").score(["the cat sat"])
    tuned, untuned = (fairseq_groc.load(models["tied"], data, no_tuned_adapters=no).score(["the cat sat"]) for no in (0, 1))
    assert scores[0].log_probability == pytest.approx(untuned[0].log_probability, rel=1e-6)
    assert scores[0].log_probability != pytest.approx(tuned[0].log_probability, rel=1e-6)


def test_the_module_is_short_and_imports_pytorch_alone():
    text = (ROOT / "fairseq_groc" / "serving" / "service.py").read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names) == {"torch"}
    assert len(text.splitlines()) <= 150 and service.FORMAT == 1


def test_plain_modules_are_imported_without_fairseq():
    done = run(IMPORT.format(names=PLAIN), ("fairseq",))
    assert done.stdout == "[]\n", done.stderr
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ImportError: fairseq_groc needs a working fairseq") and "pip install fairseq-fixed" in message
    done = run("import fairseq_groc.cli", ("fairseq",))
    assert done.returncode and done.stderr.splitlines()[-1] == message


@pytest.mark.parametrize("given", [[], ["e.vec", "--service", "DIR"]])
def test_one_of_two_places_is_given(ours, corpus, models, given):
    assert "expected OUT, a file for embeddings as text, or --service DIR" in one_line(
        ours, "export", *given, *wheres(corpus, models["tied"])
    )


def test_a_place_is_looked_at_before_the_work(ours, corpus, models, tmp_path):
    (tmp_path / "notes").write_text("mine\n")
    where = wheres(corpus, tmp_path / "no-checkpoint.pt")
    assert "holds something else, notes among it" in one_line(ours, "export", "--service", tmp_path, *where)
    assert "exists and is no folder" in one_line(ours, "export", "--service", tmp_path / "notes", *where)
