"""Words that are added while a model runs, and limits to what it predicts: as if it had been loaded so, through every door."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from decoders import DECODERS

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.dictionary import real_words
from fairseq_groc.embeddings.rows import NewRows, WordRows
from fairseq_groc.embeddings.sampled_updates import SampledUpdates
from fairseq_groc.errors import DataError, LexiconError, OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.lexicon import Entry, NoLexicon, Relation
from fairseq_groc.models.building import needs_spellings
from fairseq_groc.models.changing_vocabulary import offer_vocabulary_changes
from fairseq_groc.modules.probabilities import LOG_ZERO

pytestmark = pytest.mark.usefixtures("encoder_path")

WORDS = ["cat", "lion", "swim", "feline", "zebra", "run", "madeupword0000"]  # 4 to 10: a filler ends it, as in fairseq
NEW = ["dog", "puppy", "wolf"]  # the first two have entries in the lexicon
ALL = AdapterSettings(0.1, 0.1, unigram_weight=0.1, local_weight=0.2, cache_theta=2.0, cache_size=9)
ANY_MODEL = [("groc_lstm_lm", head) for head in (*HEADS, "bins")] + [(arch, "compositional_output") for arch in DECODERS]
TOKENS = torch.tensor([[2, 4, 6, 5, 4, 9], [2, 7, 7, 4, 8, 7]])


@pytest.fixture
def models(model_of, stock_model):
    """Return a function from an architecture and a head to a model, and one with the same weights loaded over more words."""

    def build(arch, head, adapters=ALL, more=NEW):
        built = []
        for words in (WORDS, WORDS + more):
            options = dict(head="adaptive", adaptive_scoring="bins") if head == "bins" else dict(head=head)
            model = model_of(words, **options) if arch == "groc_lstm_lm" else stock_model(arch, head, words)
            offer_vocabulary_changes(model)
            built.append(model)
        built[1].load_state_dict(built[0].state_dict())
        for model in built:
            new = torch.arange(len(model.decoder.dictionary)) >= 11
            model.decoder.adapter = Adapter(adapters, torch.tensor(real_words(model.decoder.dictionary.symbols)), new)
        return built

    return build


@torch.no_grad()
def lprobs_of(model, tokens=TOKENS):
    return model.get_normalized_probs(model(tokens), log_probs=True)


@pytest.fixture
def encoded(monkeypatch):
    """How many forms were encoded, call by call."""
    from fairseq_groc.embeddings.compositional import SurfaceEncoder

    counts, encode = [], SurfaceEncoder.forward
    monkeypatch.setattr(SurfaceEncoder, "forward", lambda self, v: counts.append(v.num_forms) or encode(self, v))
    return counts


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_a_grown_model_is_one_that_was_loaded_with_the_words(models, lexicon, arch, head, used):
    model, reference = models(arch, head)
    before = lprobs_of(model) if used else None  # embeddings that are kept already, or not yet
    assert model.add_words(NEW[:1], lexicon) == [11]
    if used:
        lprobs_of(model)
    assert model.add_words(["cat", *NEW[1:], "dog", "puppy"], lexicon) == [4, 12, 13, 11, 12]
    assert model.decoder.dictionary.symbols == reference.decoder.dictionary.symbols
    tokens = torch.cat([TOKENS, torch.tensor([[11, 13], [13, 12]])], dim=1)  # new words are context, too
    torch.testing.assert_close(lprobs_of(model, tokens), lprobs_of(reference, tokens), rtol=0, atol=1e-5)
    impossible, reference = model.decoder.matrices.unpredictable().tolist(), reference.decoder.matrices.unpredictable().tolist()
    assert impossible == reference and impossible[:4] + impossible[10:11] == [True, True, False, False, True]
    assert impossible[11:] == [not needs_spellings(model.decoder.settings)] * 3
    if used:
        assert before.shape[2] == 11 and bool((before[..., 10] == LOG_ZERO).all())


@pytest.mark.parametrize("head", ["compositional_output", "convolutional"])
def test_words_that_are_added_are_spelled_in_the_same_units(model_of, lexicon, head):
    model, reference = (model_of(words, head, spelling_units="characters") for words in (WORDS, [*WORDS, "naïve", "größe"]))
    reference.load_state_dict(model.state_dict())
    offer_vocabulary_changes(model)
    model.add_words(["naïve", "größe"], lexicon)
    torch.testing.assert_close(lprobs_of(model), lprobs_of(reference), rtol=0, atol=1e-5)


@pytest.mark.parametrize("head", ["compositional_output", "convolutional"])
def test_only_the_new_words_are_encoded(models, lexicon, encoded, head):
    model, _ = models("groc_lstm_lm", head)
    with torch.no_grad():
        old = [matrix.clone() for matrix in model.decoder.matrices()]
        encoded.clear()
        model.add_words(NEW, lexicon)
        computed = list(model.decoder.matrices())
    forms = len({*NEW, "hound", "a", "domesticated", "animal", "that", "barks", "whelp", "young"})  # in mini.tsv
    assert encoded == [forms if head == "compositional_output" else len(NEW)]
    assert all(torch.equal(new[:11], before) and len(new) == 14 for new, before in zip(computed, old, strict=True))


def test_many_small_additions_rarely_copy_what_is_there(models):
    model, _ = models("groc_lstm_lm", "compositional_output")
    with torch.no_grad():
        places, words = set(), [f"word{i}" for i in range(400)]
        for word in words:
            places.add(model.decoder.matrices()[1].data_ptr())
            model.add_words([word])
    assert len(places) < 50  # a logarithm of 411, and a buffer's address may come again


def test_changed_parameters_are_seen_after_words_were_added(models, lexicon):
    model, reference = models("groc_lstm_lm", "compositional_output")
    for new in (NEW[:1], NEW[1:]):
        lprobs_of(model)
        model.add_words(new, lexicon)
        for changed in (model, reference):
            changed.decoder.matrices.embedding.compose.weight.data.mul_(-2)
    torch.testing.assert_close(lprobs_of(model), lprobs_of(reference), rtol=0, atol=1e-5)
    model.decoder.matrices.sampled = SampledUpdates(0.3, 1, seed=1)  # of the words of the tables alone
    model.decoder.matrices.begin_step(0, TOKENS)
    model.train()(TOKENS)[0][..., 4:10].sum().backward()  # and it can be trained
    assert all(p.grad is not None for p in model.decoder.matrices.parameters())


def test_entries_of_its_own_or_spelling_alone(models):
    model, _ = models("groc_lstm_lm", "compositional_output")
    given = Entry((Relation("cat", "mine"),), ("a", "dog"))
    model.add_words(["one", "two"], {"one": given})
    other, _ = models("groc_lstm_lm", "compositional_output")
    other.add_words(["one", "two"])
    third, _ = models("groc_lstm_lm", "compositional_output")
    third.add_words(["one", "two"], NoLexicon())
    inputs = [m.decoder.matrices()[0][11:] for m in (model, other, third)]
    assert not torch.allclose(inputs[0][0], inputs[1][0]) and torch.equal(inputs[1], inputs[2])
    torch.testing.assert_close(inputs[0][1], inputs[1][1], rtol=0, atol=1e-6)


def test_a_lexicon_that_fails_adds_nothing(models):
    class Broken:
        def lookup(self, *_):
            raise LexiconError("broken")

    model, _ = models("groc_lstm_lm", "compositional_output")
    before = lprobs_of(model)
    with pytest.raises(LexiconError):
        model.add_words(NEW, Broken())
    assert torch.equal(lprobs_of(model), before) and NEW[0] not in model.decoder.dictionary.indices


def test_models_that_share_a_dictionary_are_told_one_after_the_other(models):
    first, _ = models("groc_lstm_lm", "compositional_output")
    second, _ = models("groc_lstm_lm", "tied")
    second.decoder.dictionary = first.decoder.dictionary
    assert first.add_words(NEW) == [11, 12, 13]
    with pytest.raises(OptionError, match="words were added to another model of an ensemble: call add_words of each"):
        lprobs_of(second)
    assert second.add_words(NEW) == [11, 12, 13]
    assert lprobs_of(first).shape == lprobs_of(second).shape


@pytest.mark.parametrize("head", ["tied", "bins", "mixture_of_softmaxes"])
def test_a_drawn_row_is_a_word_s_own(models, head):
    model, _ = models("groc_lstm_lm", head)
    for rows in model.modules():
        if isinstance(rows, WordRows):
            rows.new = NewRows(drawn=True)
    model.add_words(NEW[:1])
    model.add_words(NEW[1:])
    drawn, lprobs = model.decoder.matrices()[0][11:], lprobs_of(model)
    assert len(drawn.unique(dim=0)) == 3 and bool((lprobs[..., 11:] > LOG_ZERO).all())
    targets = torch.tensor([[11, 12, 13, 4, 2, 9], [13, 11, 12, 11, 5, 6]])
    with torch.no_grad():
        h, extra, matrices = model.decoder.without_scores(model, {"src_tokens": TOKENS})
        losses = model.decoder.losses(h, extra, matrices, targets, 4)[0]
    torch.testing.assert_close(-losses, lprobs.gather(2, targets.unsqueeze(2))[..., 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("head", ["tied", "lookup", "adaptive", "bins", "convolutional", "mixture_of_softmaxes"])
def test_drawn_rows_are_those_of_a_model_loaded_with_the_words(model_of, head, used):
    options = dict(head="adaptive", adaptive_scoring="bins") if head == "bins" else dict(head=head)
    state, real = model_of(WORDS, **options).state_dict(), WORDS[:6]

    def new_rows(words, *additions):
        model = model_of(words, **options)
        for rows in model.modules():
            if isinstance(rows, WordRows):
                rows.new = NewRows(drawn=True)
        model.load_state_dict(dict(state))
        if used:
            lprobs_of(model, TOKENS.clamp(max=7))
        offer_vocabulary_changes(model)
        for words in additions:
            model.add_words(words)
        tables = [rows for rows in model.modules() if isinstance(rows, WordRows) and NEW[0] in rows.words]
        assert all(rows.unknown() is None for rows in tables)
        return torch.cat([rows.weight.detach()[[rows.words.index(word) for word in NEW]] for rows in tables], dim=1)

    expected = new_rows(real + NEW)  # as in a union dictionary: fewer fillers
    assert expected.size(1) > 1 and len(expected.unique(dim=0)) == 3  # rows and biases
    for words, *additions in (
        [WORDS, NEW],
        [WORDS, NEW[2:], NEW[1::-1]],
        [NEW[::-1] + real[::-1]],
        [real[::-1] + NEW[:1], NEW[:0:-1]],
    ):
        assert torch.equal(new_rows(words, *additions), expected)


def test_a_checkpoint_of_a_grown_model_says_which_words_have_no_row(models):
    model, _ = models("groc_lstm_lm", "tied", AdapterSettings())
    model.add_words(NEW)
    _, other = models("groc_lstm_lm", "tied", AdapterSettings())
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(lprobs_of(other), lprobs_of(model), rtol=0, atol=1e-6)
    assert bool((lprobs_of(other)[..., 11:] == LOG_ZERO).all())


@pytest.mark.parametrize(
    "words, message",
    [
        (["a b"], "'a b' is no word: expected characters without blanks"),
        ([""], "'' is no word"),
        (["<unk>"], "'<unk>' is a symbol of fairseq's, not a word"),
        (["madeupword0000"], "'madeupword0000' is a symbol of fairseq's"),
        ("dog", "expected a list of words, not one text: .'dog'."),
    ],
)
def test_what_is_no_word_is_refused_and_nothing_added(models, words, message):
    model, _ = models("groc_lstm_lm", "tied")
    with pytest.raises(DataError, match=message):
        model.add_words([*NEW, *words] if isinstance(words, list) else words)
    assert len(model.decoder.dictionary) == 11


@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_a_limited_vocabulary_is_the_whole_one_renormalised(models, arch, head):
    model, _ = models(arch, head, AdapterSettings())
    whole, allowed = lprobs_of(model), [2, 3, 4, 6, 9]
    model.limit_vocabulary(["cat", "swim", "run"])
    limited = lprobs_of(model)
    others = [i for i in range(11) if i not in allowed]
    assert bool((limited[..., others] == LOG_ZERO).all())
    torch.testing.assert_close(limited[..., allowed], whole[..., allowed].log_softmax(-1), rtol=0, atol=1e-5)
    assert (limited.double().exp().sum(-1) - 1).abs().max() <= 1e-6
    model.limit_vocabulary(None)
    assert torch.equal(lprobs_of(model), whole)


@pytest.mark.parametrize("head", ["compositional_output", "tied", "mixture_of_softmaxes", "bins"])
def test_a_limit_binds_adapters_losses_and_generation(models, head):
    model, _ = models("groc_lstm_lm", head)
    model.limit_vocabulary(["cat", "swim", "run"])
    limited, allowed = lprobs_of(model), [2, 3, 4, 6, 9]
    others = [i for i in range(11) if i not in allowed]
    assert bool((limited[..., others] == LOG_ZERO).all()) and (limited.double().exp().sum(-1) - 1).abs().max() <= 1e-6
    targets, state = torch.cat([TOKENS[:, 1:], TOKENS[:, :1]], 1), {}
    with torch.no_grad():
        h, extra, matrices = model.decoder.without_scores(model, {"src_tokens": TOKENS})
        losses = model.decoder.losses(h, extra, matrices, targets, 4)[0]
        torch.testing.assert_close(-losses, limited.gather(2, targets.unsqueeze(2))[..., 0], rtol=1e-6, atol=1e-5)
        for t in range(TOKENS.size(1)):
            step = model.get_normalized_probs(model.decoder(TOKENS[:, : t + 1], incremental_state=state), log_probs=True)
            torch.testing.assert_close(step[:, -1], limited[:, t], rtol=1e-6, atol=1e-5)


def test_words_added_under_a_limit_may_be_predicted(models):
    model, _ = models("groc_lstm_lm", "compositional_output")
    lprobs_of(model)
    model.limit_vocabulary(["cat"])
    model.add_words(NEW[:2])
    assert (lprobs_of(model)[0, 0] > LOG_ZERO).nonzero().flatten().tolist() == [2, 3, 4, 11, 12]
    with pytest.raises(DataError, match="2 words, 'ape' first, are not in the vocabulary: call add_words first"):
        model.limit_vocabulary(["cat", "ape", "gnu"])
    with pytest.raises(DataError, match="expected a list of words"):
        model.limit_vocabulary("cat")


def test_a_limit_has_one_holder(models):
    """Another thread, or a limit within a limit, would change what the first holder predicts."""
    model, _ = models("groc_lstm_lm", "tied", AdapterSettings())
    whole = lprobs_of(model)
    model.limit_vocabulary(["cat"])
    limited = lprobs_of(model)

    def refused(words):
        with pytest.raises(OptionError, match="the vocabulary is limited already, by .*: lift that limit first"):
            model.limit_vocabulary(words)
        return True

    assert refused(["swim"])
    with ThreadPoolExecutor(1) as other:
        assert other.submit(refused, ["swim"]).result() and other.submit(refused, None).result()
        assert torch.equal(lprobs_of(model), limited)
        model.limit_vocabulary(None)
        other.submit(model.limit_vocabulary, ["swim"]).result()
        assert refused(["cat"]) and refused(None)
    model.limit_vocabulary(None)  # its thread has ended: nobody else could
    assert torch.equal(lprobs_of(model), whole)
    model.limit_vocabulary(None)


def test_of_many_threads_one_gets_the_limit(models):
    model, _ = models("groc_lstm_lm", "tied", AdapterSettings())
    begin, end, count = threading.Barrier(8), threading.Barrier(8), []

    def hold(word):
        begin.wait()
        try:
            model.limit_vocabulary([word])
            count.append(word)
        except OptionError:
            pass
        end.wait()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, ["cat", "swim"] * 4))
    assert len(count) == 1
    predicted = (lprobs_of(model)[0, 0] > LOG_ZERO).nonzero().flatten().tolist()
    assert predicted == [2, 3, model.decoder.dictionary.indices[count[0]]]


def test_a_limit_to_nothing_is_refused(models):
    model, _ = models("groc_lstm_lm", "tied", AdapterSettings())
    with pytest.raises(DataError, match="no word to limit the vocabulary to"):
        model.limit_vocabulary([])
    assert model.decoder.matrices.limit is None
