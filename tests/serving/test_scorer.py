"""Lines in batches get what each gets by itself, whatever else is scored at the same time."""

import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from serving_models import ANY_MODEL, WORDS

from fairseq_groc.adapters import AdapterSettings
from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.variables import Variable
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, LexiconError, OptionError
from fairseq_groc.evaluation import line_scores, loading, scoring
from fairseq_groc.evaluation.line_scores import score_lines
from fairseq_groc.open_vocabulary.new_words import NewWordMass
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer
from fairseq_groc.serving import batches
from fairseq_groc.serving import scorer as scorers

pytestmark = pytest.mark.usefixtures("encoder_path")

LINES = ["cat lion swim", "", "cat lion swim run cat", "zebra", "cat lion run", "cat lion swim", "run " * 40, "lion <unk> cat"]
ALL = AdapterSettings(0.1, 0.1, unigram_weight=0.1, local_weight=0.2, unbounded_weight=0.1, cache_theta=2.0, cache_size=9)
NO_HISTORY = AdapterSettings(0.5, 0.1)
SCHEMA = Schema((Variable("topic", "category", ("sports", "arts"), (3, 1)),))


def one_by_one(scorer, lines):
    return list(score_lines(scorer._hub, lines))


def lines_for(arch):
    """Return lines that a model of fairseq's reads alike alone and beside others."""
    if arch == "lightconv_lm":  # which normalises its kernel anew where a line is shorter
        return [line for line in LINES if len(line.split()) > 2 and len(line) < 100]
    return LINES if arch in ("groc_lstm_lm", "lstm_lm") else [line for line in LINES if len(line) < 100]


def same(found, expected):
    assert [score.tokens for score in found] == [tokens for _, tokens in expected]
    assert [score.log_probability for score in found] == pytest.approx([score for score, _ in expected], rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("adapters", [None, NO_HISTORY, ALL])
@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_batches_have_the_figures_of_line_by_line(make, monkeypatch, arch, head, adapters):
    scorer = make(arch, head, adapters)
    lines = lines_for(arch)
    expected = one_by_one(scorer, lines)
    same(scorer.score(lines), expected)
    monkeypatch.setattr(batches, "TOGETHER", 12)
    same(scorer.score(lines), expected)
    if scorer.decoder.carried is not None:  # nothing is kept of what is over, but for what score keeps
        assert scorer.decoder.carried[False].state_dict().keys() == {"scored"}


def test_long_lines_are_read_in_blocks(make, monkeypatch):
    for arch, adapters in (("groc_lstm_lm", None), ("groc_lstm_lm", ALL), ("transformer_lm", ALL)):
        scorer = make(arch, adapters=adapters)
        expected = one_by_one(scorer, ["run cat " * 20]) if arch == "groc_lstm_lm" else None
        monkeypatch.setattr(line_scores, "BLOCK", 7)
        found = scorer.score(["run cat " * 20, "cat"])
        if expected is None:  # its positions begin again with each block, as in score
            expected = list(score_lines(scorer._hub, ["run cat " * 20], block=12))
        same(found[:1], expected)


@pytest.mark.parametrize("arch", ["groc_lstm_lm", "transformer_lm", "fconv_lm", "lstm_lm"])
def test_long_lines_have_one_figure_through_every_door(make, as_lines, arch):
    scorer, line = make(arch), "run cat lion swim " * 4
    scorer._hub.task.block_length = lambda: 5  # which may be less than the model has room for
    dictionary = scorer.decoder.dictionary
    text = as_lines([*map(dictionary.index, line.split()), dictionary.eos()])
    evaluated = scoring.score(scorer.model, StreamDataset(text, "text", dictionary, independent_lines=True), scoring.Place(1, 5))
    expected = [(float(evaluated.adapted.sum()), 17)]
    same(scorer.score([line]), expected)
    assert one_by_one(scorer, [line]) == [(pytest.approx(expected[0][0], rel=1e-5), 17)]
    opened = scorers.Scorer("checkpoint", "DATA", open_vocabulary=True, new_word_mass=1e-9)
    same(opened.score([line]), expected)  # of known words


def test_what_lines_begin_with_is_predicted_once(make, monkeypatch):
    scorer, seen = make("groc_lstm_lm", "tied"), []
    normalizers = batches.log_normalizers
    monkeypatch.setattr(batches, "log_normalizers", lambda h, *rest: seen.append(len(h)) or normalizers(h, *rest))
    scorer.score(["cat lion swim", "cat lion run", "cat lion swim"])
    assert seen == [1 + 2 + 2]  # nothing; cat, cat lion; cat lion swim, cat lion run


@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_a_vocabulary_of_a_call_is_the_limited_model(make, arch, head):
    for adapters in (None, ALL):
        scorer = make(arch, head, adapters)
        lines = [line for line in lines_for(arch) if len(line) < 100]
        whole = scorer.score(lines)
        found = scorer.score(lines, vocabulary=["cat", "lion", "swim"])
        scorer.model.limit_vocabulary(["cat", "lion", "swim"])
        expected = one_by_one(scorer, lines)
        scorer.model.limit_vocabulary(None)
        same(found, expected)
        assert found[0].log_probability > whole[0].log_probability and found[lines.index("cat lion run")][0] == -math.inf
        assert scorer.score(lines) == whole and scorer.decoder.matrices.limit is None


@pytest.mark.parametrize("adapters", [None, ALL])
def test_threads_predict_under_their_own_limits_at_once(make, adapters):
    """All are within a pass of the model before one goes on."""
    scorer = make("groc_lstm_lm", "compositional_output", adapters)
    calls = [
        (["cat lion", "lion cat cat"], ["cat", "lion"]),
        (["swim run", "cat"], ["cat", "lion", "swim", "run"]),
        (["zebra cat", "run"], None),
    ]

    def score(call):
        return scorer.score(call[0], vocabulary=call[1])

    expected, met = list(map(score, calls)), threading.Barrier(len(calls), timeout=30)
    handle = scorer.decoder.encoder.register_forward_hook(lambda *_: print(met.wait(), end=""))
    with ThreadPoolExecutor(len(calls)) as pool:
        for _ in range(3):
            assert list(pool.map(score, calls)) == expected
    handle.remove()
    assert len({score for scores in expected for score in scores}) == 6


def test_threads_that_add_words_and_threads_that_score(make):
    scorer = make("groc_lstm_lm", "compositional_output", NO_HISTORY)
    expected, same_words = scorer.score(LINES), [f"word{i}" for i in range(12)]
    alone = make("groc_lstm_lm", "compositional_output", NO_HISTORY)
    limited = {word: alone.score([f"cat {word}"], vocabulary=["cat", word]) for word in same_words}
    with ThreadPoolExecutor(4) as pool:
        scores = [pool.submit(scorer.score, LINES) for _ in range(12)]
        calls = {word: pool.submit(scorer.score, [f"cat {word}"], vocabulary=["cat", word]) for word in same_words}
        scores += [pool.submit(scorer.score, LINES) for _ in range(12)]
        for future in scores:
            same(future.result(), expected)
        for word, future in calls.items():
            same(future.result(), limited[word])


def test_words_of_a_call_are_no_state_of_the_model(make, lexicon, monkeypatch, caplog):
    scorer = make("groc_lstm_lm", "compositional_output", NO_HISTORY)
    monkeypatch.setattr(scorer, "_lexicon", lexicon)
    before = scorer.score(["cat dog cat"])
    found = scorer.score(["cat dog cat"], vocabulary=["cat", "dog"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # of the first call
    same(scorer.score(["cat dog cat"]), before)  # dog is <unk> there, and no probability goes to it
    union = make("groc_lstm_lm", "compositional_output", NO_HISTORY, words=[*WORDS, "dog"])
    union.decoder.adapter.new[11:] = True
    union.model.load_state_dict(scorer.model.state_dict(), strict=False)
    same(found, union.score(["cat dog cat"], vocabulary=["dog", "cat"]))
    scorer.add_words(["dog"])
    same(scorer.score(["cat dog cat"]), union.score(["cat dog cat"]))


def test_a_lexicon_is_opened_once_and_read_while_others_score(make, lexicon, monkeypatch):
    scorer, looking, scored, opened = make(), threading.Event(), threading.Event(), []

    class Slow:
        def lookup(self, *what):
            looking.set()
            assert scored.wait(20)
            return lexicon.lookup(*what)

    monkeypatch.setattr(loading, "data_lexicon", lambda *_: opened.append(1) or Slow())
    with ThreadPoolExecutor() as pool:
        adding = pool.submit(scorer.score, ["cat dog"], vocabulary=["cat", "dog"])
        assert looking.wait(20)
        before = scorer.score(["cat lion"])
        scored.set()
        adding.result()
    scorer.score(["cat wolf"], vocabulary=["cat", "wolf"])
    assert opened == [1]
    same(scorer.score(["cat lion"]), before)


def test_words_that_a_table_has_no_row_for_are_named_once(make, caplog):
    scorer = make(head="tied")
    for _ in range(2):
        assert scorer.score(["cat dog"], vocabulary=["cat", "dog"])[0].log_probability == -math.inf
    (record,) = caplog.records
    assert "'dog' is without a row in the model" in record.getMessage()


def test_an_unknown_word_is_named_once(make, caplog, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DATA").mkdir()
    (tmp_path / "DATA" / "binarised.json").write_text('{"cleaning": ["--tokenize en", "--lower"]}')
    scorer = make("groc_lstm_lm", "tied")
    with caplog.at_level(logging.WARNING):
        scorer.score(["cat gnu emu", "gnu"])
        scorer.score(["gnu", "yak cat"])
        stream = scorer.stream()
        stream.score(["yak", "auk", "cat"])
        scorer.score(["cat <unk>", *(f"word{i}" for i in range(25))])
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4 and "'gnu', 'emu' are not" in messages[0] and messages[1].startswith("'yak' is not in")
    assert "'auk'" in messages[2] and "'word19' and 5 more are not" in messages[3] and "DATA" in messages[0]
    assert messages[0].endswith("It was made with --tokenize en --lower: clean lines in the same way.")


def test_words_that_are_added_are_one_each_whatever_holds_them(make):
    found = []
    for words in (["dog"], ["dog", "dog"], iter(["dog", "dog"])):
        scorer = make(open_mass="adaptive")
        scorer.add_words(words)
        assert scorer.words[-1] == "dog" and scorer.words.count("dog") == 1
        found.append(scorer.score(["wolf cat"]))
    assert found[0] == found[1] == found[2]
    assert make().model.add_words(word for word in ["dog", "cat"]) == [11, 4]


@pytest.mark.parametrize("mass", ["0.1", "unk"])
def test_an_open_vocabulary_takes_words_in_as_score_does(make, mass):
    lines = ["cat dog cat", "dog wolf", "ape"]
    scorer, other = make(open_mass=mass), make(words=WORDS)
    rule = OpenVocabularyScorer(other.model, NewWordMass(0.1, fixed=True) if mass != "unk" else None)
    rule.meet("line")
    expected = [rule.score(line) for line in lines]
    scorer.add_words(["line"])
    same(scorer.score(lines), expected)
    assert scorer.words[-4:] == ["line", "dog", "wolf", "ape"]
    with pytest.raises(OptionError, match="vocabulary: with open_vocabulary=True any word may come"):
        scorer.score(lines, vocabulary=["cat"])


@pytest.mark.parametrize("arch", ["groc_lstm_lm", "transformer_lm"])
def test_lines_have_contexts_of_their_own(make, arch):
    options = dict(context_dim=3, context_bias="shift", context_adaptation="concat", init_range=0.5)
    scorer = make(arch, "compositional_output", schema=SCHEMA, **options)
    lines = ["cat lion", "cat lion", "swim cat lion", "cat lion"]
    topics = [{"topic": "sports"}, {"topic": "arts"}, "missing", {"topic": "sports"}]
    found = scorer.score(lines, context=topics)
    assert found[0] == found[3] != found[1]
    for line, topic, score in zip(lines, topics, found, strict=True):
        same(scorer.score([line], context=topic), [score])
        scorer.decoder.given_context = SCHEMA.parse(topic).of_lines(np.zeros(1, np.int64))
        same([score], one_by_one(scorer, [line]))
        stream = scorer.stream(context=topic)
        assert sum(stream.score([*line.split(), "</s>"])) == pytest.approx(score.log_probability, rel=1e-5)
    assert scorer.score([], context={"topic": "sports"}) == scorer.score([], context=topics) == []
    with pytest.raises(OptionError, match="2 of them for 4 lines"):
        scorer.score(lines, context=topics[:2])
    with pytest.raises(OptionError, match="expected one for each, or one for all"):
        scorer.stream(context=Contexts.joined([SCHEMA.parse(topic) for topic in topics[:2]]))
    assert scorer.score(lines, context=SCHEMA.parse(topics[0])) == scorer.score(lines, context=topics[0])
    scorer.decoder.given_context = None
    with pytest.raises(OptionError, match="wants to know the context of each line"):
        scorer.score(lines)


def test_contexts_in_an_open_vocabulary(make):
    options = dict(context_dim=3, context_bias="shift", init_range=0.5)
    topics = [{"topic": "sports"}, {"topic": "arts"}]
    scorer = make(schema=SCHEMA, open_mass="0.1", **options)
    found = scorer.score(["cat lion", "cat lion"], context=topics)
    fixed = make(schema=SCHEMA, **options).score(["cat lion", "cat lion"], context=topics)
    assert [a.log_probability - b.log_probability for a, b in zip(found, fixed, strict=True)] == pytest.approx(
        [3 * math.log(0.9)] * 2, abs=1e-5
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: s.score("cat"), "expected a list of them, not one text"),
        (lambda s: s.score(["cat", 3]), "expected texts, not 3"),
        (lambda s: s.score(["cat", "a </s>"]), "line 2: contains </s>"),
        (lambda s: scorers.load("checkpoint", "data", new_word_mass=0.1), "new_word_mass=0.1: it goes with open_vocabulary=True"),
        (lambda s: scorers.load("checkpoint", "data", lexicon_path="nosuch"), "--lexicon-path nosuch: no such file or folder"),
        (lambda s: scorers.load("checkpoint", "data", lexicon_path=["none", "omw"]), "--lexicon-path omw: missing"),
        (lambda s: scorers.load("checkpoint", "data", lexicon_path="/"), "no WordNet there"),
        (
            lambda s: scorers.load("checkpoint", "data", lexicon_path=Path("nosuch.tsv")),
            "--lexicon-path nosuch.tsv: no such file",
        ),
        (lambda s: scorers.load("checkpoint", "data", lexicon_path="lemmas:omw:nosuch"), "--lexicon-path nosuch: no such file"),
        (lambda s: s.score(["cat"], vocabulary=[]), "vocabulary: no word at all"),
        (lambda s: s.score(["cat"], vocabulary="cat"), "expected a list of words"),
        (lambda s: s.score(["cat"], vocabulary=["a b"]), "'a b' is no word"),
        (lambda s: s.add_words("cat"), "expected a list of words"),
        (lambda s: s.stream().score("a b"), "'a b' is no word"),
        (lambda s: s.stream().score(["cat", "<pad>"]), "'<pad>' is no word"),
    ],
)
def test_bad_input_is_one_line(make, call, message):
    with pytest.raises((DataError, LexiconError, OptionError), match=message):
        call(make())


def test_no_line_no_score(make):
    assert make().score([]) == []
