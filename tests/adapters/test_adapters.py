"""Adapters against a naive reference, by hand, and for what every one of them must be: a distribution that sees no future."""

import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from fairseq_groc.adapters import CACHES, Adapter, AdapterSettings, Memory, unbounded
from fairseq_groc.adapters import search as search_module
from fairseq_groc.adapters.ngram import OpenedNGrams
from fairseq_groc.adapters.ngram_file import WordNGrams
from fairseq_groc.adapters.search import Search
from fairseq_groc.adapters.store import EntryStore
from fairseq_groc.dictionary import SPECIAL
from fairseq_groc.modules.kneser_ney import train

PAD, EOS, V, D = 1, 2, 40, 8
REAL = torch.arange(V) >= 4
NEW = torch.arange(V) >= 30
SETTINGS = {
    "uniform": AdapterSettings(uniform_weight=0.1),
    "discount": AdapterSettings(new_word_discount=0.1),
    "unigram": AdapterSettings(unigram_weight=0.2),
    "local": AdapterSettings(local_weight=0.3, cache_theta=0.5),
    "short local": AdapterSettings(local_weight=0.3, cache_theta=0.5, cache_size=7),
    "unbounded": AdapterSettings(unbounded_weight=0.3),
    "few neighbours": AdapterSettings(unbounded_weight=0.3, cache_neighbors=3),
    "all": AdapterSettings(0.1, 0.1, unigram_weight=0.1, local_weight=0.2, unbounded_weight=0.1, cache_theta=2.0, cache_size=12),
}
REFERENCES = list(SETTINGS)  # what ``naive`` has; caches that somebody else registers have the properties alone
SETTINGS.update({name: AdapterSettings(**{f"{name}_weight": 0.3}) for name in CACHES if name not in SETTINGS})


@pytest.fixture
def text():
    """Encodings (B, T, d), inputs (B, T), log-probabilities (B, T, V) and targets (B, T); the second stream is shorter."""
    random = torch.Generator().manual_seed(3)
    tokens = torch.randint(2, V, (3, 41), generator=random)
    tokens[:, 0] = EOS
    tokens[1, 31:] = PAD
    lprobs = torch.randn(3, 40, V, generator=random)
    lprobs[..., [0, PAD]] = -math.inf
    h = torch.randn(3, 40, D, generator=random)
    return h, tokens[:, :-1], torch.log_softmax(lprobs, -1), tokens[:, 1:]


@functools.cache
def ngrams():
    """Return an n-gram of all words but the last two, and of one that the vocabulary lacks."""
    random = np.random.default_rng(4)
    lines = [[EOS, *(4 + random.integers(0, V - 6, size) ** 2 // (V - 6)), V] for size in range(1, 60)]
    read = np.array([word for line in [*lines, range(4, V - 2)] for word in [*line[1:], EOS]])
    entries, numbers = np.unique(read, return_inverse=True)
    dictionary = SimpleNamespace(symbols=[*SPECIAL, *map(str, range(4, V))], nspecial=4)
    words = ["beyond" if entry == V else dictionary.symbols[entry] for entry in entries]
    return OpenedNGrams(WordNGrams(train(numbers, len(words), words.index("</s>"), 3)[0], words, {}), dictionary)


def adapter_of(settings):
    return Adapter(settings, REAL, NEW, {"ngram": ngrams()})


def naive(settings, text, b, t):
    """The adapted distribution of one position in float64, word by word from the definitions."""
    h, tokens, lprobs, _ = text
    p = lprobs[b, t].double().exp() * torch.where(NEW, settings.new_word_discount, 1.0)
    p = (1 - settings.uniform_weight) * p / p.sum() + settings.uniform_weight * REAL / REAL.sum()
    entries = [(h[b, i - 1].double(), int(tokens[b, i])) for i in range(1, t + 1) if tokens[b, i] != PAD]
    p = naive_mixture(p, settings.unigram_weight, [(0.0, word) for _, word in entries])
    near = [(settings.cache_theta * float(key @ h[b, t].double()), word) for key, word in entries[-settings.cache_size :]]
    p = naive_mixture(p, settings.local_weight, near)
    far = [(float((key - h[b, t].double()).square().sum()), word) for key, word in entries]
    nearest = sorted(far)[: settings.cache_neighbors]
    return naive_mixture(p, settings.unbounded_weight, [(-d / (2 * nearest[-1][0]), word) for d, word in nearest])


def naive_mixture(p, weight, scored):
    if not scored or weight == 0:
        return p
    largest, cache = max(score for score, _ in scored), torch.zeros(V, dtype=torch.double)
    for score, word in scored:
        cache[word] += math.exp(score - largest)
    return (1 - weight) * p + weight * cache / cache.sum()


def adapted(settings, text, block):
    """Return the full distribution, and the targets' by the other way, in blocks of some length."""
    h, tokens, lprobs, targets = text
    adapter = adapter_of(settings)
    memory, whole, at = Memory(adapter), [], []
    shift = adapter.discount("cpu")
    model = lprobs if shift is None else torch.log_softmax(lprobs + shift, -1)
    for a in range(0, h.size(1), block):
        part = slice(a, a + block)
        view = memory.see(h[:, part], tokens[:, part], PAD)
        whole.append(view.adapt(lprobs[:, part].clone()))
        own = model[:, part]
        mass_of = functools.partial(lambda own, words: own[..., words].logsumexp(-1), own)
        at.append(view.adapt_at(own.gather(2, targets[:, part, None])[..., 0], targets[:, part], mass_of))
    return torch.cat(whole, 1), torch.cat(at, 1)


def real(text):
    return text[1] != PAD


@pytest.mark.parametrize("name", REFERENCES)
def test_every_adapter_is_the_naive_one(name, text):
    reference = torch.stack([torch.stack([naive(SETTINGS[name], text, b, t) for t in range(40)]) for b in range(3)])
    h, tokens, lprobs, targets = text
    for found in (text, (h.double(), tokens, lprobs.double(), targets)):
        whole, _ = adapted(SETTINGS[name], found, 40)
        rtol = 1e-6 if found[0].dtype == torch.double else 1e-5
        torch.testing.assert_close(whole.double().exp()[real(text)], reference[real(text)], rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("block", [1, 7, 40])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_targets_alone_have_what_they_have_among_all_words(name, block, text):
    whole, at = adapted(SETTINGS[name], text, block)
    reference = whole.gather(2, text[3].unsqueeze(2))[..., 0]
    present = real(text) & (text[3] != PAD)
    torch.testing.assert_close(at[present], reference[present], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("block", [1, 7])
@pytest.mark.parametrize("name", SETTINGS)
def test_block_length_changes_nothing(name, block, text):
    torch.testing.assert_close(
        adapted(SETTINGS[name], text, block)[0], adapted(SETTINGS[name], text, 40)[0], rtol=1e-6, atol=2e-6
    )


@pytest.mark.parametrize("block", [1, 7, 40])
@pytest.mark.parametrize("alike", [1e-3, 1e-5])
def test_states_that_are_nearly_alike_keep_their_distances(alike, block, text):
    """As those of a model that has learned little: a large part that all have, and small differences."""
    h, tokens, lprobs, targets = text
    same = torch.linspace(-3, 3, D)
    near = ((same + alike * h).float(), tokens, lprobs, targets)
    for name in ("unbounded", "few neighbours"):
        reference = torch.stack([torch.stack([naive(SETTINGS[name], near, b, t) for t in range(40)]) for b in range(3)])
        whole, _ = adapted(SETTINGS[name], near, block)
        torch.testing.assert_close(whole.double().exp()[real(text)], reference[real(text)], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_later_token_changes_no_earlier_distribution(name, text):
    h, tokens, lprobs, targets = text
    before, _ = adapted(SETTINGS[name], text, 7)
    changed_h, changed = h.clone(), tokens.clone()
    changed_h[:, 20:] += 1
    changed[:, 20:] = 17
    after, _ = adapted(SETTINGS[name], (changed_h, changed, lprobs, targets), 7)
    torch.testing.assert_close(before[:, :20], after[:, :20], rtol=1e-6, atol=2e-6)
    if SETTINGS[name].caches():
        assert (before[:, 21:] - after[:, 21:]).abs().nan_to_num(0).max() > 0.1


share = st.floats(0, 0.9)
mixtures = st.builds(
    AdapterSettings,
    new_word_discount=st.floats(0.01, 10),
    uniform_weight=share,
    cache_theta=st.floats(0, 10),
    cache_size=st.integers(1, 50),
    cache_neighbors=st.integers(1, 50),
    **{f"{name}_weight": share for name in CACHES},
)


@tried(max_examples=20)
@given(chosen=mixtures, scale=st.floats(0, 100), block=st.integers(7, 40))  # theta h.h up to 1e4 and beyond
def test_it_sums_to_one_also_with_extreme_states(chosen, scale, block, text):
    h, *rest = text
    whole, at = adapted(chosen, (h * scale, *rest), block)
    assert (whole.double().exp().sum(-1) - 1).abs().max() <= 1e-6
    assert not bool(whole.isnan().any()) and not bool(at.isnan().any())


def test_a_stream_of_many_entries_goes_to_disk_once_and_remembers_the_same(text, monkeypatch):
    class Noted(EntryStore):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    made, whole = [], adapted(SETTINGS["few neighbours"], text, 40)[0]
    monkeypatch.setattr(unbounded, "EntryStore", Noted)
    monkeypatch.setattr(unbounded, "IN_MEMORY", 10)
    torch.testing.assert_close(adapted(SETTINGS["few neighbours"], text, 7)[0], whole, rtol=1e-6, atol=2e-6)
    assert [one.count for one in made] == [39, 30, 39]


@pytest.mark.parametrize("block", [1, 3, 7])
def test_block_length_changes_nothing_where_the_index_of_faiss_searches(text, block, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(search_module, "EXACT", 10)
    look_up, asked = Search._look_up, []
    monkeypatch.setattr(Search, "_look_up", lambda search, *rest: asked.append(rest[-1]) or look_up(search, *rest))
    settings = AdapterSettings(unbounded_weight=0.3, cache_neighbors=3)
    whole = adapted(settings, text, 40)[0]
    torch.testing.assert_close(adapted(settings, text, block)[0], whole, rtol=1e-6, atol=2e-6)
    reference = torch.stack([torch.stack([naive(settings, text, b, t) for t in range(40)]) for b in range(3)])
    same = ((whole.double().exp() - reference).abs().amax(-1) < 1e-5)[real(text)].double().mean()
    assert same > 0.9 and {10, 20, 30} <= set(asked)


def test_huge_states_are_remembered(text):
    h, tokens, lprobs, _ = text
    view = Memory(adapter_of(SETTINGS["unbounded"])).see(h * 1e6, tokens, PAD)
    assert not torch.equal(view.adapt(lprobs.clone())[0, 1:], lprobs[0, 1:])


def test_tiny_masses_keep_their_digits(text):
    """Far below what float32 has numbers for, in both ways; the model alone gives every word probability 0."""
    h, tokens, lprobs, targets = text
    adapter = adapter_of(AdapterSettings(local_weight=0.5, cache_theta=10.0))
    impossible = torch.full_like(lprobs, -math.inf)
    whole = Memory(adapter).see(h, tokens, PAD).adapt(impossible.clone())
    at = Memory(adapter).see(h, tokens, PAD).adapt_at(impossible[..., 0], targets)
    for t in range(1, 40):
        said = tokens[0, 1 : t + 1]
        logs = torch.log_softmax(10 * h[0, :t].double() @ h[0, t].double(), 0)
        for word in said.unique():
            expected = pytest.approx(math.log(0.5) + float(logs[said == word].logsumexp(0)), rel=1e-5, abs=1e-3)
            assert whole[0, t, word].item() == expected
            assert targets[0, t] != word or at[0, t].item() == expected
    assert whole[whole > -math.inf].min() < -150


def test_by_hand():
    """Five words a b a c a: what is remembered before each, and with which mass."""
    a, b, c = 4, 5, 6
    tokens = torch.tensor([[EOS, a, b, a, c]])
    h = torch.tensor([[[1.0], [2.0], [1.0], [0.0], [3.0]]])  # h of </s> predicts a, that of a predicts b, ...
    lprobs = torch.full((1, 5, V), -math.log(V))
    unigram = Memory(adapter_of(AdapterSettings(unigram_weight=0.5)))
    p = unigram.see(h, tokens, PAD).adapt(lprobs.clone()).exp()[0]
    half = 0.5 / V
    assert p[0, a].item() == pytest.approx(1 / V)  # nothing remembered: the model alone
    assert p[1, a].item() == pytest.approx(half + 0.5)
    assert p[2, [a, b]].tolist() == pytest.approx([half + 0.25, half + 0.25])
    assert p[4, [a, b, c]].tolist() == pytest.approx([half + 0.25, half + 0.125, half + 0.125])
    local = Memory(adapter_of(AdapterSettings(local_weight=0.5, cache_theta=1.0, cache_size=3)))
    p = local.see(h, tokens, PAD).adapt(lprobs.clone()).exp()[0]
    # the last three: b (key 2), a (key 1), c (key 0); h = 3
    e = [math.exp(6), math.exp(3), 1.0]
    assert p[4, [b, a, c]].tolist() == pytest.approx([half + 0.5 * x / sum(e) for x in e])
    nearest = Memory(adapter_of(AdapterSettings(unbounded_weight=0.5, cache_neighbors=3)))
    p = nearest.see(h, tokens, PAD).adapt(lprobs.clone()).exp()[0]
    # the nearest three to 3: b at 1, and both a at 2, which is the bandwidth; c at 3 is too far
    e = [math.exp(-1 / 8), 2 * math.exp(-4 / 8)]
    assert p[4, [b, a]].tolist() == pytest.approx([half + 0.5 * x / sum(e) for x in e])
    assert p[4, c].item() == pytest.approx(half)


def test_what_needs_no_history_by_hand():
    """Of 40 words 4 are no real ones and 10 are new; the model gives every one 1/40."""
    lprobs = torch.full((1, 1, V), -math.log(V))
    h, tokens = torch.zeros(1, 1, 1), torch.tensor([[EOS]])
    uniform = Memory(adapter_of(AdapterSettings(uniform_weight=0.2))).see(h, tokens, PAD).adapt(lprobs.clone()).exp()[0, 0]
    assert uniform[[0, 10, 35]].tolist() == pytest.approx([0.8 / 40, 0.8 / 40 + 0.2 / 36, 0.8 / 40 + 0.2 / 36])
    discount = Memory(adapter_of(AdapterSettings(0.1))).see(h, tokens, PAD).adapt(lprobs.clone()).exp()[0, 0]
    assert discount[[0, 10, 35]].tolist() == pytest.approx([1 / 31, 1 / 31, 0.1 / 31])


@pytest.mark.parametrize("streams, size", [(3, 17), (1, 1)])
def test_parts_of_a_batch_are_the_whole(text, streams, size):
    """fairseq-eval-lm --softmax-batch hands over runs of positions of all streams in one row."""
    h, tokens, lprobs, _ = (part[:streams] for part in text)
    for name, settings in SETTINGS.items():
        whole = Memory(adapter_of(settings)).see(h, tokens, PAD).adapt(lprobs.clone())
        view = Memory(adapter_of(settings)).see(h, tokens, PAD)
        parts = [view.adapt(part.clone()) for part in lprobs.reshape(1, -1, V).split(size, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1).view_as(whole), whole, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("name", SETTINGS)
def test_word_by_word_with_reordered_hypotheses(name, text):
    """In beam search a hypothesis goes on from another's history; every step is a block of one."""
    h, tokens, lprobs, _ = text
    order = torch.tensor([2, 0, 0])
    memory = Memory(adapter_of(SETTINGS[name]))
    for t in range(10):
        memory.see(h[:, t : t + 1], tokens[:, t : t + 1], PAD)
    memory.reorder(order)
    step = memory.see(h[:, 10:11], tokens[:, 10:11], PAD).adapt(lprobs[:, 10:11].clone())
    h_after = torch.cat([h[order, :10], h[:, 10:11]], 1)
    tokens_after = torch.cat([tokens[order, :10], tokens[:, 10:11]], 1)
    view = Memory(adapter_of(SETTINGS[name])).see(h_after, tokens_after, PAD)
    torch.testing.assert_close(step, view.adapt(lprobs[:, :11].clone())[:, -1:], rtol=1e-6, atol=2e-6)


def test_words_that_are_impossible_stay_so_until_they_are_said(text):
    h, tokens, _, _ = text
    lprobs = torch.log_softmax(torch.zeros(3, 40, V).index_fill(2, torch.tensor([33]), -math.inf), -1)
    tokens[:] = 20
    tokens[0, 5] = 33
    for settings in (SETTINGS["local"], SETTINGS["unigram"]):
        p = Memory(adapter_of(settings)).see(h, tokens, PAD).adapt(lprobs.clone())
        assert bool((p[0, :5, 33] == -math.inf).all()) and bool((p[0, 5:, 33] > -math.inf).all())
        assert bool((p[1:, :, 33] == -math.inf).all())
