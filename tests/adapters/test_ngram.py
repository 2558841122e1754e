"""An n-gram beside the model against the mixture's definition, in files, and over vocabularies that are not its own."""

import itertools
import math
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_groc.adapters import Adapter, AdapterSettings, Memory, View
from fairseq_groc.adapters.arpa import open_arpa, save_arpa
from fairseq_groc.adapters.ngram import NGramBeside, OpenedNGrams
from fairseq_groc.adapters.ngram_file import FILE, WordNGrams, open_ngrams, save_ngrams
from fairseq_groc.dictionary import SPECIAL
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.modules.kneser_ney import train
from fairseq_groc.tensor_file import open_tensors, save_tensors

TEXT = "the cat sat\nthe dog sat on the cat\n\nthe zebra\nna\u00efve \udcff cat sat on <unk>\n"
WORDS = ["on", "the", "cat", "new", "sat", "dog", "newer", "na\u00efve", "zebra", "\udcff"]
PAD, EOS, UNK, W = 1, 2, 3, 0.3


def made_of(text, order=3):
    words = [word for line in text.splitlines() for word in [*line.split(), "</s>"]]
    index = {word: number for number, word in enumerate(sorted(set(words)))}
    ngrams, _ = train(np.array([index[word] for word in words]), len(index), index["</s>"], order)
    return WordNGrams(ngrams, list(index), {"text": "abc", "tokens": len(words), "order": order})


def opened_over(words, text=TEXT):
    return OpenedNGrams(made_of(text), SimpleNamespace(symbols=[*SPECIAL, *words], nspecial=len(SPECIAL)))


def adapter_over(words, settings=None, real=None, text=TEXT):
    size = len(SPECIAL) + len(words)
    real = torch.arange(size) >= len(SPECIAL) if real is None else real
    new = torch.zeros(size, dtype=torch.bool)
    return Adapter(settings or AdapterSettings(ngram_weight=W), real, new, {"ngram": opened_over(words, text)})


def q_of(made, word, history):
    """Return q(word | the words since the line began), from the model's own numbers."""
    numbers = [made.words.index(one) if one in made.words else -1 for one in history]
    histories = made.ngrams.histories(np.array(numbers), np.full(made.ngrams.order - 1, -1))[:, -1:]
    return float(made.ngrams.probabilities(histories, np.array([made.words.index(word)]))[0]) if word in made.words else 0.0


def read(adapter, tokens, lprobs):
    h = torch.zeros(*tokens.shape, 1)
    return Memory(adapter).see(h, tokens, PAD).adapt(lprobs.clone()).double().exp()


def numbered(words, text):
    symbols = [*SPECIAL, *words]
    return torch.tensor([[EOS, *(symbols.index(word) for word in text.split())]])


def random_lprobs(*shape):
    lprobs = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    lprobs[..., :EOS] = -math.inf
    return torch.log_softmax(lprobs, -1)


@pytest.mark.parametrize("lacking", [(), ("cat",), ("zebra", "on")])
def test_it_shares_out_what_the_model_gives_to_the_words_that_it_knows(lacking):
    """Words that are not in its text, and where the vocabulary lacks words of its, the others divided by the rest."""
    words = [word for word in WORDS if word not in lacking]
    text = "the new sat </s> the dog sat"
    made, tokens = made_of(TEXT), numbered(words, text)
    lprobs = random_lprobs(1, tokens.size(1), len(SPECIAL) + len(words))
    found = read(adapter_over(words), tokens, lprobs)[0]
    for t, symbols in enumerate(itertools.accumulate([["</s>"], *([word] for word in text.split())])):
        history = symbols[len(symbols) - 1 - symbols[::-1].index("</s>") :]
        p = dict(zip([*SPECIAL, *words], lprobs[0, t].double().exp().tolist(), strict=True))
        known = {word: q_of(made, word, history) for word in p if word in made.words}
        mass, total = sum(p[word] for word in known), sum(known.values())
        assert not lacking or total < 1
        for i, (word, own) in enumerate(p.items()):
            mixed = (1 - W) * own + W * mass * known[word] / total if word in known else own
            assert float(found[t, i]) == pytest.approx(mixed, rel=1e-5), (history, word)
    assert found[:, [4 + words.index("new"), 4 + words.index("newer")]].allclose(
        lprobs[0][:, [4 + words.index("new"), 4 + words.index("newer")]].double().exp(), rtol=1e-6
    )


def test_numbers_of_words_do_not_matter():
    """The same model over a dictionary in another order, with words that nobody knows."""
    moved, text = ["more", *reversed(WORDS), "most"], "the cat sat on the"
    lprobs = random_lprobs(1, 6, 4 + len(WORDS))
    others = torch.full((1, 6, 4 + len(moved)), -math.inf)
    places = [[*SPECIAL, *moved].index(word) for word in [*SPECIAL, *WORDS]]
    others[..., places] = lprobs
    own, other = (read(adapter_over(words), numbered(words, text), p) for words, p in ((WORDS, lprobs), (moved, others)))
    torch.testing.assert_close(other[..., places], own, rtol=1e-6, atol=0)


def test_a_limit_divides_the_others_by_the_rest_and_context_stays():
    """Words beyond the limit are read, but not predicted; the special ones that a text can have are."""
    real = torch.tensor([word in ("the", "sat", "newer") for word in [*SPECIAL, *WORDS]])
    adapter = adapter_over(WORDS, real=real)
    lprobs = random_lprobs(1, 4, 14)
    lprobs[..., ~real & (torch.arange(14) > UNK)] = -math.inf
    lprobs = lprobs.log_softmax(-1)
    tokens = numbered(WORDS, "the cat sat")
    memory = Memory(adapter)
    found = memory.see(torch.zeros(1, 4, 1), tokens, PAD, beyond=~real).adapt(lprobs.clone()).double().exp()[0]
    torch.testing.assert_close(found.sum(-1), torch.ones(4).double(), rtol=1e-6, atol=0)
    assert bool((found[:, ~real & (torch.arange(14) > UNK)] == 0).all())
    made, own = made_of(TEXT), lprobs[0, 2].double().exp()
    q = {word: q_of(made, word, ["</s>", "the", "cat"]) for word in ("the", "sat", "</s>", "<unk>")}
    place = {word: [*SPECIAL, *WORDS].index(word) for word in q}
    mass = sum(float(own[i]) for i in place.values())
    for word, i in place.items():
        assert float(found[2, i]) == pytest.approx((1 - W) * float(own[i]) + W * mass * q[word] / sum(q.values()), rel=1e-5)


def test_each_position_may_have_a_vocabulary_of_its_own():
    """As where words are taken up when they are first met: to a position before that they are not there."""
    size, sizes = 4 + len(WORDS), [7, 7, 9, 14]
    real = torch.stack([(torch.arange(size) >= 4) & (torch.arange(size) < n) for n in sizes])
    tokens, lprobs = numbered(WORDS, "on the cat"), random_lprobs(1, 4, size)
    for t, n in enumerate(sizes):
        lprobs[0, t, n:] = -math.inf
    lprobs = lprobs.log_softmax(-1)
    whole = read(adapter_over(WORDS, real=real), tokens, lprobs)[0]
    for t, n in enumerate(sizes):
        alone = read(adapter_over(WORDS[: n - 4]), tokens, lprobs[..., :n])[0, t]
        torch.testing.assert_close(whole[t, :n], alone, rtol=1e-6, atol=0)


def test_it_is_relative_to_the_model_whatever_the_caches_say():
    tokens, lprobs = numbered(WORDS, "the cat the newer the newer"), random_lprobs(1, 7, 14)
    alone, cached, both = (
        read(adapter_over(WORDS, AdapterSettings(**chosen)), tokens, lprobs)
        for chosen in (dict(ngram_weight=W), dict(unigram_weight=0.2), dict(ngram_weight=W, unigram_weight=0.2))
    )
    torch.testing.assert_close(both, (1 - W) * cached + alone - (1 - W) * lprobs.double().exp(), rtol=1e-5, atol=1e-8)


def test_words_that_are_added_are_found_by_their_spelling():
    words = ["the", "cat"]
    opened = opened_over(words)
    assert opened.known(torch.ones(6, dtype=torch.bool)).tolist() == [False, False, True, True, True, True]
    opened._dictionary.symbols += ["nobody's", "zebra"]
    assert opened.known(torch.ones(8, dtype=torch.bool)).tolist() == [False, False, True, True, True, True, False, True]


def test_threads_that_ask_at_the_same_time_number_words_once():
    opened = opened_over(WORDS)

    class Slow(list):
        """Another thread asks, and has its answer, while the first one looks words up."""

        def __getitem__(self, place):
            if not others:
                others.append(None)
                others[0] = opened.numbers(14)
            return super().__getitem__(place)

    others, opened._dictionary.symbols = [], Slow(opened._dictionary.symbols)
    assert opened.numbers(14).tolist() == others[0].tolist()
    opened._dictionary.symbols += ["nobody's"] * 9
    assert (opened.numbers(23)[14:] == -1).all()


def test_a_batch_of_padding_alone_says_nothing():
    (view,) = NGramBeside(opened_over(WORDS)).see(torch.zeros(0), torch.zeros(0), torch.full((1, 3), -1))
    assert view.shape[1] == 3 and (view == -1).all()


def test_the_uniform_distribution_comes_first():
    """At the targets alone the mass of known words is that of the model with it."""
    settings = AdapterSettings(ngram_weight=W, uniform_weight=0.4)
    adapter, tokens, lprobs = adapter_over(WORDS, settings), numbered(WORDS, "the cat sat"), random_lprobs(1, 4, 14)
    whole = read(adapter, tokens, lprobs)
    for target in range(EOS, 14):
        targets = torch.full((1, 4), target)
        view: View = Memory(adapter).see(torch.zeros(1, 4, 1), tokens, PAD)
        at = view.adapt_at(lprobs[..., target], targets, lambda words: lprobs[..., words].logsumexp(-1))
        torch.testing.assert_close(at.double().exp(), whole[..., target], rtol=1e-5, atol=0)


def test_a_file_gives_back_what_was_saved(tmp_path):
    made = made_of(TEXT, order=4)
    size = save_ngrams(tmp_path, *made)
    found = open_ngrams(tmp_path)
    assert size == (tmp_path / FILE).stat().st_size and found.words == made.words and found.about == made.about
    assert found.ngrams.floor == made.ngrams.floor and found.ngrams.order == 4
    arrays = [[of.shares, *itertools.chain(*of.levels)] for of in (found.ngrams, made.ngrams)]
    for one, other in zip(*arrays, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_no_ngram_says_so(tmp_path):
    with pytest.raises(OptionError, match="ngram.safetensors not found.*python -m fairseq_groc ngram"):
        open_ngrams(tmp_path)
    save_ngrams(tmp_path, *made_of(TEXT))
    path, whole = tmp_path / FILE, (tmp_path / FILE).read_bytes()
    spoilt = [b"", whole[:5], whole[:100], whole[:-1], whole + b"x", b"x" + whole[1:], b"{}"]
    spoilt += [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 37)]
    for content in spoilt:
        path.write_bytes(content)
        with pytest.raises(DataError, match="is damaged. Make it anew"):
            open_ngrams(tmp_path)
    path.write_bytes(whole)
    header, tensors = open_tensors(path)
    save_tensors(path, tensors, {**header, "format": 9})
    with pytest.raises(DataError, match="has format 9, expected 2"):
        open_ngrams(tmp_path)


def back_off(path):
    """Return p(word | history) as the format has it: of the longest n-gram that is there, times the weights of what is not."""
    section = r"(-[\d.]+)\t([^\t\n]+)(?:\t(-?[\d.]+))?"
    found = re.findall(section, path.read_bytes().decode("utf-8", "surrogateescape"))
    logs = {tuple(words.split(" ")): (float(log), float(weight or 0)) for log, words, weight in found}

    def log_p(history, word):
        if found := logs.get((*history, word)):
            return found[0]
        return logs.get(history, (0, 0))[1] + log_p(history[1:], word)

    return logs, lambda history, word: 10 ** log_p(tuple(history), word)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_an_arpa_file_has_the_same_probabilities(tmp_path, order):
    made, path = made_of(TEXT.replace("<unk>", "the"), order), tmp_path / "model.arpa"
    save_arpa(path, made.ngrams, made.words)
    logs, p = back_off(path)
    sizes = [sum(len(words) == length for words in logs) for length in range(1, order + 1)]
    assert [int(size) for size in re.findall(rb"^ngram \d+=(\d+)$", path.read_bytes(), re.MULTILINE)] == sizes
    line = ["the", "cat", "sat", "on", "the", "dog", "sat"]
    for end in range(len(line)):
        history = ["<s>", *line[:end]][max(0, end + 2 - order) :] if order > 1 else []
        for word in made.words:
            assert p(history, word) == pytest.approx(q_of(made, word, ["</s>", *line[:end]]), rel=1e-6)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kenlm_reads_the_same_from_an_arpa_file(tmp_path, order, capfd):
    """Its own look-up of n-grams and histories against ours, over texts that go on over lines and beyond the vocabulary."""
    pytest.importorskip("kenlm")
    made = made_of(TEXT.replace("<unk>", "the").replace("\udcff", "dog"), order)
    save_arpa(tmp_path / "model.arpa", made.ngrams, made.words)
    found = WordNGrams(*open_arpa(tmp_path / "model.arpa"))
    assert capfd.readouterr().err == ""  # no bar of kenlm's
    assert sorted(found.words) == sorted(made.words) and found.ngrams.order == order
    text = "</s> the cat sat on </s> the zebra nobody the dog sat on the cat </s> </s> cat".split()
    both = []
    for one in (made, found):
        numbers = np.array([one.words.index(word) if word in one.words else -1 for word in text])
        state, parts = np.full(order - 1, -1), []
        for part in np.split(numbers, [1, 5, 6]):
            parts.append(one.ngrams.histories(part, state))
            state = parts[-1][:, -1]
        histories = np.concatenate(parts, 1)
        whole = one.ngrams.distributions(histories)
        np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-5)
        at = one.ngrams.probabilities(histories[:, :-1], numbers[1:])
        np.testing.assert_allclose(at, np.where(numbers[1:] >= 0, whole[np.arange(len(at)), numbers[1:]], 0), rtol=1e-6)
        both.append(whole[:, [one.words.index(word) for word in made.words]])
    np.testing.assert_allclose(*both, rtol=2e-5)


def test_what_is_no_arpa_file_says_so(tmp_path):
    pytest.importorskip("kenlm")
    path = tmp_path / "model.arpa"
    broken = "\\data\\\n\\1-grams:\n-1\t</s>\n"
    for text, why in (("the cat\n", "no </s> among its words"), (broken, "is no ARPA file that kenlm reads")):
        path.write_text(text)
        with pytest.raises(DataError, match=why):
            open_arpa(path)
    made = made_of(TEXT, order=1)
    save_arpa(path, made.ngrams, made.words)
    with pytest.raises(DataError, match="is not UTF-8"):
        open_arpa(path)


def test_without_kenlm_an_arpa_file_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    (tmp_path / "model.arpa").write_text("\\data\\\n")
    settings = AdapterSettings(ngram_weight=W, ngram_path=str(tmp_path / "model.arpa"))
    with pytest.raises(OptionError, match="pip install kenlm"):
        settings.open(SimpleNamespace(dictionary=None), tmp_path)


def test_without_a_folder_it_says_what_to_do():
    adapter = Adapter(AdapterSettings(ngram_weight=W), torch.ones(5, dtype=torch.bool), torch.zeros(5, dtype=torch.bool))
    with pytest.raises(OptionError, match="--ngram-path FOLDER"):
        Memory(adapter)
