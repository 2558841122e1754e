"""A stream says what the model says of all that was read, and so do its copies, whatever the others read."""

import copy
import math
import random
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
import torch
from serving_models import ANY_MODEL

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.adapters.ngram import OpenedNGrams
from fairseq_groc.adapters.ngram_file import WordNGrams
from fairseq_groc.adapters.statistics import Statistics
from fairseq_groc.errors import OptionError
from fairseq_groc.modules.kneser_ney import train
from fairseq_groc.modules.probabilities import LOG_ZERO
from fairseq_groc.open_vocabulary.new_words import NewWordMass
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer
from fairseq_groc.serving.gate import Gate

TEXT = "cat lion </s> swim cat cat </s> </s> run zebra cat".split()
ALL = AdapterSettings(0.1, 0.1, unigram_weight=0.1, local_weight=0.2, unbounded_weight=0.1, cache_theta=2.0, cache_size=5)


@torch.no_grad()
def whole(scorer, words):
    """The log-probabilities of a text's words by one pass over all of it."""
    indices = scorer.decoder.dictionary.indices
    tokens = torch.tensor([[indices[word] for word in ["</s>", *words]]])
    lprobs = scorer.model.get_normalized_probs(scorer.model(tokens[:, :-1]), log_probs=True)[0]
    return lprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist()


@pytest.mark.parametrize("adapters", [None, ALL])
@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_word_by_word_as_in_one_pass(make, arch, head, adapters):
    scorer = make(arch, head, adapters)
    expected = pytest.approx(whole(scorer, TEXT), rel=1e-5, abs=1e-5)
    assert scorer.stream().score(TEXT) == expected
    stream = scorer.stream()
    found = []
    for word in TEXT:
        lprobs = stream.log_probabilities()
        assert float(lprobs[lprobs > LOG_ZERO].double().exp().sum()) == pytest.approx(1, abs=1e-6)
        found.append(stream.score(word))
        assert found[-1] == pytest.approx(float(lprobs[scorer.words.index(word)]))
    assert found == expected


@pytest.mark.parametrize("adapters", [None, ALL])
@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_copies_go_on_by_themselves(make, arch, head, adapters):
    scorer, rng = make(arch, head, adapters), random.Random(3)
    words = ["cat", "lion", "swim", "run", "</s>"]
    beam = [(scorer.stream(), [], [])]
    for _ in range(6):
        grown = []
        for stream, text, scores in beam:
            for word in rng.sample(words, 2):
                twin = stream.copy()
                grown.append((twin, [*text, word], [*scores, twin.score(word)]))
        rng.shuffle(grown)
        beam = grown[:4]
    for _, text, scores in beam:
        assert scores == pytest.approx(whole(scorer, text), rel=1e-5, abs=1e-5)
    stream, text, scores = beam[0]
    twin = stream.copy()
    assert stream.score(["cat", "cat"]) == pytest.approx(whole(scorer, [*text, "cat", "cat"])[-2:], abs=1e-5)
    assert twin.score(["run", "cat"]) == pytest.approx(whole(scorer, [*text, "run", "cat"])[-2:], abs=1e-5)


def test_copies_share_what_was_read(make, monkeypatch):
    """A beam reads each prefix once, and copying reads nothing."""
    scorer, passes = make("groc_lstm_lm", "tied", ALL), []
    scorer.decoder.encoder.register_forward_hook(lambda *_: passes.append(1) and None)
    stream = scorer.stream()
    first = weakref.ref(stream._prefix)
    stream.score(["cat", "lion"])
    assert first() is None  # a long stream holds the last prefix alone
    twins = [stream.copy() for _ in range(5)]
    found = [twin.score(word) for twin, word in zip(twins, ["cat", "lion", "swim", "run", "cat"], strict=True)]
    assert len(passes) == 3 and found[0] == found[4] and len(set(found)) == 4
    states = list(map(id, twins[0]._prefix._before._state.values()))
    assert states == [id(one) for one in twins[1]._prefix._before._state.values()]


def test_no_tensor_that_copies_share_is_written_to(make):
    for arch in ("groc_lstm_lm", "fconv_lm", "transformer_lm"):
        scorer = make(arch, adapters=ALL)
        stream = scorer.stream()
        stream.score(["cat", "lion", "cat"])
        stream.log_probabilities()
        held = list(tensors(stream._prefix._state))
        twins = [stream.copy(), stream.copy()]
        before = [content(one) for one in held]
        for twin in twins:
            twin.score(["run", "cat", "swim"])
            twin.log_probabilities()
        assert held and before == [content(one) for one in held]


def content(tensor):
    """Return its bytes: what is not filled yet may be no number."""
    return tensor.detach().numpy().tobytes()


def tensors(of):
    """Yield the tensors within."""
    if torch.is_tensor(of):
        yield of
    for part in of.values() if isinstance(of, dict) else of if isinstance(of, (list, tuple)) else ():
        yield from tensors(part)
    if hasattr(of, "_adapters"):
        for one in of._adapters.values():
            yield from tensors(list(vars(one).values()))


def test_threads_go_on_from_one_place(make):
    scorer = make("groc_lstm_lm", "compositional_output", ALL)
    stream, texts = scorer.stream(), [["cat", "run"], ["run", "run"], ["lion", "cat"], ["swim", "</s>"]] * 3
    stream.score(["cat", "lion"])
    start = threading.Barrier(4, timeout=30)

    def go_on(pair):
        start.wait()
        return pair[0].score(pair[1])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(go_on, [(stream.copy(), text) for text in texts]))
    for text, scores in zip(texts, found, strict=True):
        assert scores == pytest.approx(whole(scorer, ["cat", "lion", *text])[2:], abs=1e-5)


@pytest.mark.parametrize("adapters", [None, ALL])
def test_a_stream_has_a_vocabulary_of_its_own(make, adapters):
    scorer = make("groc_lstm_lm", "compositional_output", adapters)
    text = ["cat", "zebra", "lion", "</s>", "cat"]
    expected = whole(scorer, text)
    limited, free = scorer.stream(vocabulary=["cat", "lion", "dog"]), scorer.stream()
    pairs = [(limited.score(word), free.score(word)) for word in text]
    assert [pair[1] for pair in pairs] == pytest.approx(expected, abs=1e-5)
    assert pairs[1][0] == -math.inf and all(own > of_all for own, of_all in pairs if own > -math.inf)
    scorer.model.limit_vocabulary(["cat", "lion", "dog"])
    assert [pair[0] if pair[0] > -math.inf else LOG_ZERO for pair in pairs] == pytest.approx(
        whole(scorer, text), rel=1e-6, abs=1e-5
    )


def test_a_running_stream_predicts_words_that_are_added(make):
    scorer = make()
    scorer.score(["dog"], vocabulary=["dog"])  # of that call alone
    stream = scorer.stream()
    stream.score("cat")
    copied, deep = copy.copy(stream), copy.deepcopy(stream)
    assert stream.log_probabilities()[scorer.words.index("dog")] < LOG_ZERO / 2
    scorer.add_words(["dog"])
    expected = whole(scorer, ["cat", "dog", "run"])[1:]
    for one in (stream, copied, deep):
        assert one.score(["dog", "run"]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mass", ["0.1", "unk"])
@pytest.mark.parametrize("adapters", [None, ALL])
def test_a_stream_in_an_open_vocabulary(make, adapters, mass):
    lines = ["cat dog cat", "dog wolf", "ape dog"]
    scorer, other = make(adapters=adapters, open_mass=mass), make(adapters=adapters)
    fixed = None if mass == "unk" else NewWordMass(0.1, fixed=True)
    rule = OpenVocabularyScorer(other.model, fixed, running=True)
    stream = scorer.stream()
    for line in lines:
        assert sum(stream.score([*line.split(), "</s>"])) == pytest.approx(rule.score(line)[0], abs=1e-4)
    held = scorer.stream()
    held.log_probabilities()
    twin = held.copy()
    scorer.stream().score("gnu")  # enters meanwhile: the distribution that was made before lacks it
    assert twin.score("gnu") == pytest.approx(scorer.stream().score("gnu"), abs=1e-6) and twin.score("gnu") > -20


@pytest.mark.parametrize("open_mass", [None, "0.1"])
def test_a_stream_beside_an_ngram_goes_on_in_a_vocabulary_that_grows(make, open_mass):
    """What was made before words entered is of the smaller vocabulary."""
    scorer = make(open_mass=open_mass)
    ngrams, _ = train(np.array([0, 1, 2, 3, 2, 3]), 4, 2, 2)
    made = WordNGrams(ngrams, ["cat", "lion", "</s>", "gnu"], {})
    opened = OpenedNGrams(made, scorer.decoder.dictionary)
    real = scorer.decoder.real_words()
    settings = AdapterSettings(ngram_weight=0.3, local_weight=0.1)
    scorer.decoder.adapter = Adapter(settings, real, torch.zeros_like(real), {"ngram": opened})
    stream = scorer.stream()
    stream.score(["cat", "</s>"])
    stream.log_probabilities()  # made over the vocabulary before gnu
    if open_mass is None:
        scorer.add_words(["gnu", "emu"])
        assert stream.copy().score(["gnu", "emu"]) == pytest.approx(whole(scorer, ["cat", "</s>", "gnu", "emu"])[2:], abs=1e-5)
    else:
        first, later = stream.copy(), stream.copy()
        first.score(["emu", "gnu"])
        assert later.score("gnu") == pytest.approx(scorer_after(scorer, ["cat", "</s>"]).score("gnu"), abs=1e-6)


def scorer_after(scorer, words):
    stream = scorer.stream()
    stream.score(words)
    return stream


def test_the_rate_of_new_words_is_each_stream_s_own(make):
    scorer = make(open_mass="0.1")
    scorer.open.mass = NewWordMass(0.1)
    first = scorer.stream()
    first.score(["cat"] * 50)
    twin = first.copy()
    twin.score(["dog", "gnu", "emu"])
    again = scorer.stream()
    expected = math.log1p(-0.1)
    assert scorer.stream().score("cat") - float(again._known()[scorer.words.index("cat")]) == pytest.approx(expected, abs=1e-6)
    assert first._mass.now() == pytest.approx(10 / 150) and twin._mass.now() == pytest.approx(13 / 153)


def test_streams_learn_by_themselves(make):
    """Dynamic evaluation of what each stream has of its own: learned on one copy, not on the other."""
    settings = AdapterSettings(dynamic_rate=0.5, dynamic_parameters="features", dynamic_block=2)
    scorer = make("groc_lstm_lm", "tied")
    size = scorer.decoder.embed_tokens.embedding_dim
    statistics = Statistics({"features": torch.ones(size, size)}, 1.0)
    scorer.decoder.adapter = scorer_adapter(scorer, settings, statistics)
    first = scorer.stream()
    first.score(["cat", "lion"])
    twin, third = first.copy(), first.copy()
    twin.score(["cat"] * 8)
    learned, plain = twin.score("cat"), third.score(["cat"])
    fresh = scorer.stream()
    assert fresh.score(["cat", "lion", "cat"])[-1] == pytest.approx(plain[0], abs=1e-6) and learned > plain[0]
    with pytest.raises(OptionError, match="would learn from each other"):
        scorer.decoder.adapter = scorer_adapter(scorer, settings.replaced(dynamic_parameters="encoder"), statistics)
        scorer.stream()


def scorer_adapter(scorer, settings, statistics):
    real = scorer.decoder.real_words()
    return Adapter(settings, real, torch.zeros_like(real), {"dynamic": statistics})


def test_a_stream_ends_with_the_model_s_positions(make):
    scorer = make("transformer_lm")
    stream = scorer.stream()
    stream.score(["cat"] * 12)
    for _ in range(3):
        with pytest.raises(OptionError, match="at the model's last position, 12: begin another"):
            stream.score(["cat"] * 4)


def test_numbers_of_words_are_read_while_no_word_enters(make, monkeypatch):
    scorer, readers = make(), []
    stream = scorer.stream()
    for name in ("number", "warn_of_impossible", "grown"):
        asked = getattr(scorer.vocabularies, name)

        def ask(*what, asked=asked):
            readers.append(scorer.gate._readers)
            return asked(*what)

        monkeypatch.setattr(scorer.vocabularies, name, ask)
    stream.score("cat")
    scorer.allowed(["cat"])
    scorer.__reduce__()
    assert readers == [1, 1, 1]


def test_a_word_waits_for_the_reader_of_the_lexicon(make):
    scorer = make(open_mass="0.1")
    stream = scorer.stream()
    with ThreadPoolExecutor() as pool:
        with scorer.looking:
            waiting = [pool.submit(stream.score, "okapi"), pool.submit(scorer.score, ["tapir"])]
            assert wait(waiting, 0.3).done == set() and "okapi" not in scorer.words
        assert all(math.isfinite(part) for part in (waiting[0].result(20), waiting[1].result(20)[0].log_probability))


def test_a_writer_that_is_interrupted_lets_readers_in():
    gate = Gate()

    def interrupted(condition):
        raise KeyboardInterrupt

    wait_for, gate._changed.wait_for = gate._changed.wait_for, interrupted
    with pytest.raises(KeyboardInterrupt), gate.writing():
        pass
    gate._changed.wait_for = lambda condition: wait_for(condition, 1)
    with gate.reading(), gate.reading():
        assert gate._readers == 2 and not gate._waiting


def test_a_writer_that_waits_goes_before_new_readers():
    gate, order = Gate(), []

    def enter(kind):
        with getattr(gate, kind)():
            order.append(kind)

    with ThreadPoolExecutor(2) as pool, gate.reading():
        for waiting, kind in enumerate(("writing", "reading"), start=1):
            pool.submit(enter, kind)
            while not order and len(gate._changed._waiters) < waiting:
                time.sleep(1e-3)
        assert not order
    assert order == ["writing", "reading"]
