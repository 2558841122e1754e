"""The exported model scores as the scorer does, and adds the words that it adds, by PyTorch alone."""

import json
import math
import os
import sys
import threading
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from serving_models import WORDS

from fairseq_groc.contexts.schema import Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.errors import OptionError
from fairseq_groc.heads.mappings import CompositionalOutput, OutputNetwork
from fairseq_groc.lexicon import Entry, Relation
from fairseq_groc.serving import exporting, service
from fairseq_groc.serving.exporting import check_folder, write_service
from fairseq_groc.serving.service import Service

LINES = ["cat lion swim", "", "cat lion swim run cat", "zebra", "cat lion run", "cat lion swim", "run " * 40, "lion <unk> cat"]
MODELS = {
    "groc": {},
    "corrections": {"corrections": "both"},
    "corrections, of another width": {"corrections": "both", "correction_dim": 6, "output_depth": 0},
    "output corrections": {"corrections": "output", "output_residual": "input+previous", "output_depth": 2},
    "input corrections": {"corrections": "input", "lexicon_parts": "relations", "output_query": "linear"},
    "definitions": {"lexicon_parts": "definitions", "highway_layers": 2, "bias_activation": "tanh", "output_activation": "selu"},
    "spellings": {"lexicon_parts": "none", "highway_layers": 0},
    "awd": {"encoder": "awd_lstm", "decoder_output_dim": 7},
    "tied": {"head": "tied"},
    "bilinear": {"head": "bilinear"},
    "lookup": {"head": "lookup"},
    "lookup, as wide as h": {"head": "lookup", "lookup_width": "encoder", "encoder": "awd_lstm", "decoder_output_dim": 7},
    "deep_residual": {"head": "deep_residual", "output_depth": 2, "output_residual": "input+previous"},
}
COMPOSED = [name for name, options in MODELS.items() if "head" not in options]
NEW = {
    "gnu": {"relations": ["antelope", "cat"], "definition": ["a", "large", "large", "antelope", "of", "africa"]},
    "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve": {"definition": ["simple"]},
    "x": {},
    "okapi": {"relations": ("gnu",)},
    "cat": {"relations": ["not", "read"]},  # there already
}


@pytest.fixture
def pair(make, tmp_path):
    """Return a function from options to a scorer of a model and the same model exported."""

    def build(words=WORDS, **options):
        scorer = make(words=words, **{**options, "head": options.get("head", "compositional_output")})
        if scorer.decoder.matrices.corrections is not None:
            generator = torch.Generator().manual_seed(4)
            for table in (scorer.decoder.matrices.corrections.rows, scorer.decoder.matrices.corrections.bias):
                table.weight.data.normal_(generator=generator)
        write_service(scorer.decoder, tmp_path / "exported")
        return scorer, Service(tmp_path / "exported")

    return build


def same(found, expected):
    assert [score.tokens for score in found] == [score.tokens for score in expected]
    scores = [score.log_probability for score in expected]
    assert [score.log_probability for score in found] == pytest.approx(scores, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_lines_get_what_the_scorer_gives(pair, name, monkeypatch):
    scorer, exported = pair(**MODELS[name])
    same(exported.score(LINES), scorer.score(LINES))
    monkeypatch.setattr(service, "LINES", 3)
    monkeypatch.setattr(service, "SCORES", 1)
    same(exported.score(LINES), scorer.score(LINES))
    assert exported.score([]) == []


@pytest.mark.parametrize("name", COMPOSED)
def test_added_words_are_those_that_the_model_adds(pair, name, monkeypatch):
    scorer, exported = pair(**MODELS[name])
    monkeypatch.setattr(service, "WORDS", 2)
    exported.add_words({word: NEW[word] for word in ("gnu", "cat")})
    exported.add_words(NEW)
    entries = {
        word: Entry(tuple(Relation(w, "") for w in given.get("relations", ())), tuple(given.get("definition", ())))
        for word, given in NEW.items()
    }
    scorer.add_words(list(NEW), entries)
    assert list(exported.words) == scorer.words
    lines = [*LINES, " ".join(NEW), "gnu gnu okapi", "x"]
    same(exported.score(lines), scorer.score(lines))


def test_words_that_are_shorter_than_a_filter():
    widths, words = (1, 3, 6), ["a", "of", "elephants", "\N{GRINNING FACE}", "the"]
    torch.manual_seed(5)
    embedding = CompositionalEmbedding(SurfaceEncoder(5, 4, [(width, 3) for width in widths], 1), 5)
    head = CompositionalOutput(5, OutputNetwork(5, 1, "relu", 0.0), "identity")
    expected = embedding(Vocabulary.of_words([], widths).of_entries({word: Entry() for word in words}))
    encoder = service.WordEncoder(*exporting.encoder_of(Namespace(embedding=embedding, head=head)))
    found = encoder.matrices({word: {} for word in words})
    torch.testing.assert_close(found.inputs, expected.detach(), rtol=1e-6, atol=1e-6)
    outputs, bias = head(expected)
    torch.testing.assert_close((found.outputs, found.bias), (outputs.detach(), bias.detach()), rtol=1e-6, atol=1e-6)


def test_matrices_are_mapped_and_stay_as_they_are_when_words_are_added(pair, tmp_path):
    _, exported = pair()
    mapped = exported.parts[0]
    file = os.path.realpath(tmp_path / "exported" / "embeddings.pt")
    maps = [line.split() for line in open("/proc/self/maps").read().splitlines() if line.endswith(file)]
    ranges = [tuple(int(end, 16) for end in line[0].split("-")) for line in maps]
    for matrix in mapped:
        assert any(begin <= matrix.data_ptr() < end for begin, end in ranges)
    exported.add_words({"gnu": {}})
    assert all(a is b for a, b in zip(exported.parts[0], mapped, strict=True)) and len(exported.parts[1].bias) == 1


def test_e_out_of_a_tied_model_is_written_once(pair, tmp_path):
    _, exported = pair(head="tied")
    assert exported.parts[0].inputs.data_ptr() == exported.parts[0].outputs.data_ptr()


TEXTS = ["cat lion swim run cat", "lion", "run cat swim"]


def graph_of(exported):
    """Return a graph of the reader for any number of lines and words, and lines of up to five words."""
    lines, words = (torch.export.Dim(name, min=2, max=1 << 20) for name in ("lines", "words"))
    examples = [torch.full((2, 6), service.UNKNOWN) for _ in range(2)]  # one tensor for both would be one to the graph
    matrices = [matrix.clone() for matrix in exported.parts[0]]  # so E_out of a tied model
    shapes = ({0: lines}, {0: lines}, {0: words}, {0: words}, {0: words})
    return torch.export.export(exported.reader, (*examples, *matrices), dynamic_shapes=shapes)


def arguments_of(exported):
    """Return source, target and all matrices for the texts, and how many tokens each has."""
    rows = [[*(exported.words[word] for word in line.split()), service.EOS] for line in TEXTS]
    target = torch.tensor([[*row, *[service.EOS] * (6 - len(row))] for row in rows])
    source = torch.cat([torch.full((3, 1), service.EOS), target[:, :-1]], dim=1)
    matrices = [torch.cat(pieces) for pieces in zip(*exported.parts, strict=True)]
    return [source, target, *matrices], list(map(len, rows))


@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstms")
@pytest.mark.parametrize("name", ["corrections", "tied", "input corrections"])
def test_torch_export_of_the_reader_gives_the_same(pair, name):
    _, exported = pair(**MODELS[name])
    program = graph_of(exported)
    if exported.encoder is not None:
        exported.add_words({"gnu": {}, "emu": {}})
    arguments, lengths = arguments_of(exported)
    found = [float(row[:n].sum()) for row, n in zip(program.module()(*arguments), lengths, strict=True)]
    assert found == pytest.approx([score.log_probability for score in exported.score(TEXTS)], rel=1e-6)


@pytest.mark.filterwarnings("ignore:The tensor attributes self.lstms", "ignore:.*LeafSpec:FutureWarning")
def test_onnx_of_the_reader_gives_the_same(pair, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    _, exported = pair(**MODELS["corrections"])
    torch.onnx.export(graph_of(exported), f=tmp_path / "reader.onnx", dynamo=True)
    session = runtime.InferenceSession(tmp_path / "reader.onnx")
    exported.add_words({"gnu": {}, "emu": {}})
    arguments, lengths = arguments_of(exported)
    names = [one.name for one in session.get_inputs()]
    (values,) = session.run(None, {name: one.numpy() for name, one in zip(names, arguments, strict=True)})
    found = [float(row[:n].sum()) for row, n in zip(values, lengths, strict=True)]
    assert found == pytest.approx([score.log_probability for score in exported.score(TEXTS)], rel=1e-6)


def test_words_that_are_lacking_are_warned_of(pair):
    scorer, exported = pair()
    with pytest.warns(UserWarning, match="'gnu' is not in the vocabulary") as found:
        scores = exported.score(["cat gnu", "gnu <unk>"])
    assert len(found) == 1
    same(scores, scorer.score(["cat <unk>", "<unk> <unk>"]))
    with pytest.raises(ValueError, match="</s>: a symbol that no text has"):
        exported.score(["cat </s>"])
    assert exported.score(["madeupword0000"])[0].log_probability == -math.inf  # a filler


@pytest.mark.parametrize(
    "entries",
    [
        *({"a b": {}}, {"": {}}, {3: {}}, {"</s>": {}}, {"<unk>": {}}),
        *({"gnu": {"definitions": ["a"]}}, {"gnu": {"definition": "a deer"}}, {"gnu": ["deer"]}, {"gnu": None}),
    ],
)
def test_what_is_no_word_or_entry_is_refused(pair, entries):
    _, exported = pair()
    before = dict(exported.words)
    with pytest.raises(ValueError, match="expected a word, and lists of words"):
        exported.add_words({"emu": {}, **entries})
    assert exported.words == before


def test_lists_and_texts_are_not_taken_for_each_other(pair):
    _, exported = pair()
    for words in (["gnu"], "gnu"):
        with pytest.raises(ValueError, match="gnu.*: expected words with what each is made of, such as {'gnu': {}}"):
            exported.add_words(words)
    with pytest.raises(ValueError, match="lines: expected a list of them, not one text"):
        exported.score("the cat")


def test_a_table_has_no_row_for_a_new_word(pair):
    _, exported = pair(head="tied")
    with pytest.raises(ValueError, match="a new word has none: export a model with composed words"):
        exported.add_words({"gnu": {}})


def test_threads_score_and_add_words_at_once(pair, tmp_path):
    _, exported = pair()
    scores, errors = [], []

    def attempt(work):
        try:
            work()
        except Exception as error:
            errors.append(error)

    def adding(prefix):
        return lambda: [exported.add_words({f"{prefix}{number}": {}}) for number in range(60)]

    work = [lambda: scores.extend(exported.score(LINES) for _ in range(20))] * 2 + [adding("a"), adding("b")]
    threads = [threading.Thread(target=attempt, args=[one]) for one in work]
    before, interval = len(exported.words), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors and len(scores) == 40 and len(exported.parts[1].bias) == 120
    assert list(exported.words.values()) == list(range(before + 120))
    alone = Service(tmp_path / "exported")
    alone.add_words({word: {} for word in sorted(exported.words) if "<" not in word})
    lines = [f"cat {word}" for word in exported.words if word[1:].isdigit()]
    same(exported.score(lines), alone.score(lines))


@pytest.mark.parametrize("head", ["mixture_of_softmaxes", "adaptive", "convolutional", "dual_nonlinear"])
def test_other_models_are_refused(make, tmp_path, head):
    scorer = make(head=head)
    with pytest.raises(
        OptionError, match=r"this model has the (head|embedding) \w+, which is not exported. Expected .*compositional_output"
    ):
        write_service(scorer.decoder, tmp_path / "exported")
    assert not list(tmp_path.iterdir())


def test_other_encoders_and_contexts_are_refused(make, tmp_path):
    with pytest.raises(OptionError, match="has the encoder TransformerDecoder"):
        write_service(make(arch="transformer_lm").decoder, tmp_path / "exported")
    schema = Schema((Variable("topic", "category", ("sports", "arts"), (3, 1)),))
    scorer = make(schema=schema, context_dim=2, context_adaptation="concat")
    with pytest.raises(OptionError, match="has the contexts, which is not exported"):
        write_service(scorer.decoder, tmp_path / "exported")
    with pytest.raises(OptionError, match="has the spellings in characters, which is not exported"):
        write_service(make(spelling_units="characters").decoder, tmp_path / "exported")


def test_a_folder_is_replaced_whole_and_no_other_is(make, pair, tmp_path, monkeypatch):
    folder = tmp_path / "exported"
    _, exported = pair(head="tied")
    before = exported.score(LINES)
    write_service(make().decoder, folder)
    assert exported.score(LINES) == before and Service(folder).encoder is not None
    names = {path.name for path in folder.iterdir()}
    monkeypatch.setattr(exporting, "encoder_of", lambda matrices: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_service(make().decoder, folder)
    assert {path.name for path in folder.iterdir()} == names == exporting.FILES and list(tmp_path.iterdir()) == [folder]
    rename = Path.rename

    def interrupted(path, target):
        if path.name.startswith(".") and target == folder and not folder.exists() and not done:
            done.append(path)
            raise KeyboardInterrupt
        return rename(path, target)

    done = []
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_service(make().decoder, folder)
    assert done and {path.name for path in folder.iterdir()} == names and list(tmp_path.iterdir()) == [folder]
    (folder / "notes.txt").write_text("mine")
    for place, message in [
        (folder, "holds something else, notes.txt among it"),
        (folder / "notes.txt", "exists and is no folder"),
        (tmp_path / "none" / "x", "there is no folder"),
    ]:
        with pytest.raises(OptionError, match=message):
            check_folder(place)


def test_a_folder_of_another_format_is_refused(pair, tmp_path):
    pair()
    path = tmp_path / "exported" / "service.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(ValueError, match=r"format 99, expected 1: use the service.py that is in the folder"):
        Service(tmp_path / "exported")
