"""Words enter the vocabulary when they are first met: read in pieces or word by word, a text has one probability."""

import math

import pytest
import torch

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.embeddings.rows import NewRows, WordRows
from fairseq_groc.errors import DataError
from fairseq_groc.models.changing_vocabulary import offer_vocabulary_changes
from fairseq_groc.open_vocabulary.new_words import NewWordMass, NewWords
from fairseq_groc.open_vocabulary.scorer import OpenVocabularyScorer
from fairseq_groc.open_vocabulary.spelling_model import SpellingModel

pytestmark = pytest.mark.usefixtures("encoder_path")

WORDS = ["cat", "lion", "swim", "run", "feline", "zebra", "madeupword0000"]
LINES = ["cat dog cat dog", "", "puppy run dog puppy wolf", "wolf ape cat", "naïve run"]
ALL = AdapterSettings(0.1, 0.1, unigram_weight=0.1, local_weight=0.2, cache_theta=2.0, cache_size=5)
MODELS = [("groc_lstm_lm", head) for head in ("compositional_output", "tied", "mixture_of_softmaxes", "bins")]
MODELS += [("transformer_lm", "compositional_output")]


@pytest.fixture
def model_with(model_of, stock_model):
    """Return a function from architecture, head and adapters to a model; rows of new words are drawn, so that they count."""

    def build(arch, head, adapters):
        options = dict(head="adaptive", adaptive_scoring="bins") if head == "bins" else dict(head=head)
        model = model_of(WORDS, **options) if arch == "groc_lstm_lm" else stock_model(arch, head, WORDS)
        for rows in model.modules():
            if isinstance(rows, WordRows):
                rows.new = NewRows(drawn=True)
        for parameter in model.decoder.matrices.parameters():
            parameter.data.mul_(3)  # far from uniform
        if adapters is not None:
            new = torch.arange(len(model.decoder.dictionary)) >= 9
            model.decoder.adapter = Adapter(adapters, model.decoder.real_words(), new)
        offer_vocabulary_changes(model)
        return model

    return build


@torch.no_grad()
def word_by_word(model, lines, lexicon, mass, running, unk=False):
    """The same the slow way: for every word the whole beginning is read again, over the vocabulary as it is then."""
    dictionary = model.decoder.dictionary
    new_words = NewWords(SpellingModel([w.encode() for w in WORDS[:-1]]), dictionary.symbols)
    scores, history = [], [dictionary.eos()]
    for line in lines:
        if not running:
            history = [dictionary.eos()]
        total = 0.0
        for word in [*line.split(), "</s>"]:
            new = word not in dictionary.indices
            lprobs = model.get_normalized_probs(model(torch.tensor([history])), log_probs=True)[0, -1].double()
            real = lprobs[lprobs > -1e29]
            assert real.exp().sum().item() == pytest.approx(1, abs=1e-5)
            if new:
                total += (lprobs[dictionary.unk()].item() if unk else math.log(mass.now())) + new_words.log_share(word)
                new_words.add(word)
                model.add_words([word], lexicon)
            else:
                total += lprobs[dictionary.index(word)].item() + (0.0 if unk else math.log1p(-mass.now()))
            mass.saw(new)
            history.append(dictionary.index(word))
        scores.append(total)
    return scores


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("adapters", [None, ALL])
@pytest.mark.parametrize("arch, head", MODELS)
def test_pieces_are_word_by_word(model_with, lexicon, arch, head, adapters, running):
    if arch == "transformer_lm" and running:
        pytest.skip("a transformer's context ends with its block")
    reference = word_by_word(model_with(arch, head, adapters), LINES, lexicon, NewWordMass(0.3), running)
    blocks = (512,) if arch == "transformer_lm" else (1, 3, 512)
    for block in blocks:
        scorer = OpenVocabularyScorer(model_with(arch, head, adapters), NewWordMass(0.3), lexicon, running, block)
        found = [scorer.score(line) for line in LINES]
        assert [score for score, _ in found] == pytest.approx(reference, rel=1e-5)
        assert [tokens for _, tokens in found] == [5, 1, 6, 4, 3]


def test_the_mass_may_be_that_of_unk(model_with, lexicon):
    model = model_with("groc_lstm_lm", "compositional_output", ALL)
    reference = word_by_word(model, LINES, lexicon, NewWordMass(0.3), False, unk=True)
    scorer = OpenVocabularyScorer(model_with("groc_lstm_lm", "compositional_output", ALL), None, lexicon)
    assert [scorer.score(line)[0] for line in LINES] == pytest.approx(reference, rel=1e-5)
    with pytest.raises(DataError, match="<unk> is a word of the text, and its probability goes to new words"):
        scorer.score("cat <unk>")


def test_what_comes_later_changes_nothing(model_with, lexicon):
    """The first words of a line cost the same, whatever new words follow in it."""
    figures = []
    for line in ("cat dog lion", "cat dog lion gnu zebu emu", "cat dog lion zebra zebra zebra"):
        scorer = OpenVocabularyScorer(model_with("groc_lstm_lm", "compositional_output", ALL), NewWordMass(0.3), lexicon)
        piece = scorer._read(line.split())
        with torch.no_grad():
            figures.append(scorer._lprobs(piece)[:3, :12].tolist())
    assert figures[0][2][:12] == pytest.approx(figures[1][2][:12], abs=1e-5)
    assert figures[0] == [pytest.approx(row, abs=1e-5) for row in figures[2]]
    assert figures[1][0][11] < -1e29 and figures[1][1][11] < -1e29 < figures[1][2][11]  # "dog" is possible after it was met


def test_totals_are_sums_of_what_was_paid(model_with):
    scorer = OpenVocabularyScorer(model_with("groc_lstm_lm", "compositional_output", None), NewWordMass(0.25, fixed=True))
    scores = [scorer.score(line)[0] for line in LINES]
    totals = scorer.totals
    assert (totals.tokens, totals.new, totals.impossible) == (19, 5, 0)
    assert totals.characters == sum(len(line) + 1 for line in LINES)  # a blank or line end after every word
    assert totals.log_probability == pytest.approx(sum(scores))
    assert totals.perplexity() == pytest.approx(math.exp(-sum(scores) / 19))
    assert totals.first - totals.spelled == pytest.approx(5 * math.log(0.25))
    assert totals.bits_per_character() == pytest.approx(-sum(scores) / math.log(2) / totals.characters)
    q = SpellingModel([w.encode() for w in WORDS[:-1]])
    known = NewWords(q, [*WORDS, "<s>", "<pad>", "</s>", "<unk>", "dog", "puppy", "wolf", "ape", "naïve"])
    assert scorer._new_words.log_share("gnu") - known.log_share("gnu") == pytest.approx(0, abs=1e-12)  # all of them entered q(V)
    assert totals.report().startswith("19 tokens, 5 new words met; perplexity ")


def test_what_each_word_costs_adds_up_to_the_line(model_with):
    mass, build = NewWordMass(0.25, fixed=True), lambda: model_with("groc_lstm_lm", "compositional_output", None)
    lines, words = OpenVocabularyScorer(build(), mass, block=2), OpenVocabularyScorer(build(), mass, block=2)
    for line in LINES:
        total, count = lines.score(line)
        paid = words.score_tokens(line)
        assert len(paid) == count == len(line.split()) + 1 and sum(paid) == pytest.approx(total, abs=1e-9)
    assert words.totals == lines.totals and words.score_tokens("dog")[0] > words.score_tokens("gnu")[0]


def test_a_known_text_costs_what_it_costs_in_the_closed_vocabulary(model_with):
    model = model_with("groc_lstm_lm", "compositional_output", None)
    scorer = OpenVocabularyScorer(model, NewWordMass(0.25, fixed=True))
    with torch.no_grad():
        lprobs = model.get_normalized_probs(model(torch.tensor([[2, 4, 5]])), log_probs=True)[0]
    expected = lprobs[[0, 1, 2], [4, 5, 2]].sum().item() + 3 * math.log(0.75)
    assert scorer.score("cat lion") == (pytest.approx(expected, rel=1e-5), 3) and len(model.decoder.dictionary) == 11
    assert scorer.totals.report().endswith("; 0.0% of the bits for first occurrences (0.0% for their spelling)")


def test_a_word_met_again_without_a_row_is_impossible(model_of):
    model = model_of(WORDS, "tied")
    scorer = OpenVocabularyScorer(model, NewWordMass(0.25))
    assert math.isfinite(scorer.score("cat dog")[0]) and scorer.score("a dog dog") == (-math.inf, 4)
    assert scorer.totals.impossible == 2 and scorer.totals.perplexity() == math.inf
    assert math.isfinite(scorer.totals.log_probability)
    with pytest.raises(DataError, match="madeupword0007. is a symbol"):
        scorer.score("cat gnu madeupword0007")
    assert "gnu" not in model.decoder.dictionary.indices and scorer.totals.tokens == 7
