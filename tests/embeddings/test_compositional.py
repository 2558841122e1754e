"""The fast encoder against a naive one, word by word."""

import io
import math
import re
import sys

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder, filter_widths
from fairseq_groc.embeddings.vocabulary import BEGIN, END, FILL, FIRST_SPECIAL, Vocabulary
from fairseq_groc.encoders.lstm import LSTMEncoder
from fairseq_groc.heads import CompositionalOutput
from fairseq_groc.heads.mappings import OutputNetwork
from fairseq_groc.lexicon import NoLexicon
from fairseq_groc.models.building import build_embedding, build_head
from fairseq_groc.options import HeadConfig, head_settings

pytestmark = pytest.mark.usefixtures("encoder_path")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = ["cat", "a", "dog", "\N{GRINNING FACE}", "x" * 10_000, "kitty", "run", "unheard-of", "lion", "naïve", "swim"]
FILTERS = [(1, 3), (2, 4), (3, 2), (6, 5)]
WIDTHS = [width for width, _ in FILTERS]


def embedding_of(dim=7, seed=3, highways=1):
    torch.manual_seed(seed)
    return CompositionalEmbedding(SurfaceEncoder(dim, 5, FILTERS, highways), dim).double()


def naive_surface(encoder, word):
    """Conv1d over the characters of one word, maximum over time, relu, highway, projection."""
    body = [FIRST_SPECIAL + SPECIAL.index(word)] if word in SPECIAL else list(word.encode("utf-8"))
    symbols = [BEGIN, *body, END]
    pooled = []
    for linear, (width, count) in zip(encoder.filters, FILTERS, strict=True):
        padded = torch.tensor(symbols + [FILL] * max(0, width - len(symbols)))
        characters = encoder.characters(padded).t().unsqueeze(0)  # (1, char_embed_dim, L)
        kernel = linear.weight.view(count, width, -1).transpose(1, 2)  # (count, char_embed_dim, width)
        pooled.append(F.conv1d(characters, kernel, linear.bias).amax(2).squeeze(0))
    x = torch.relu(torch.cat(pooled))
    for highway in encoder.highways:
        new, gate = F.linear(x, highway.projection.weight, highway.projection.bias).chunk(2)
        carry = torch.sigmoid(gate)
        x = carry * torch.relu(new) + (1 - carry) * x
    return F.linear(x, encoder.projection.weight)


def naive_embedding(embedding, word, lexicon):
    related, gloss = [], []
    if word not in SPECIAL:
        entry = lexicon.lookup(word, 3, 10)
        related, gloss = [relation.word for relation in entry.relations], list(entry.definition)
    parts = [naive_surface(embedding.surface, word)]
    for others in (related, gloss):
        encoded = [naive_surface(embedding.surface, other) for other in others]
        parts.append(sum(encoded) / len(encoded) if encoded else torch.zeros_like(parts[0]))
    return F.linear(torch.cat(parts), embedding.compose.weight)


@pytest.mark.parametrize("highways", [0, 1, 2])
def test_equals_a_naive_loop_over_words(vocabulary_of, lexicon, highways):
    embedding, words = embedding_of(highways=highways), SPECIAL + WORDS
    with torch.no_grad():
        fast = embedding(vocabulary_of(WORDS, WIDTHS))
        naive = torch.stack([naive_embedding(embedding, word, lexicon) for word in words])
    assert fast.shape == (len(words), 7)
    torch.testing.assert_close(fast, naive, rtol=0, atol=1e-12)
    assert len({tuple(row.tolist()) for row in fast}) == len(words)


def test_equals_the_naive_loop_in_single_precision(vocabulary_of, lexicon):
    embedding = embedding_of().float()
    with torch.no_grad():
        fast = embedding(vocabulary_of(WORDS, WIDTHS))
        naive = torch.stack([naive_embedding(embedding, word, lexicon) for word in SPECIAL + WORDS])
    assert (fast - naive).norm() <= 1e-5 * naive.norm()


@pytest.mark.parametrize("relations", [True, False])
@pytest.mark.parametrize("definitions", [True, False])
def test_words_begin_at_the_size_of_rows_whatever_they_are_composed_of(vocabulary_of, relations, definitions):
    torch.manual_seed(3)
    embedding = CompositionalEmbedding(SurfaceEncoder(7, 5, FILTERS, 1), 7, relations, definitions).double()
    vocabulary = vocabulary_of(WORDS, WIDTHS)
    embedding.begin(vocabulary, 0.2)
    with torch.no_grad():
        forms = embedding.surface(vocabulary)
        assert float(forms.square().mean()) == pytest.approx(0.2**2 / 3, rel=1e-12)  # the variance of U(-0.2, 0.2)
        torch.testing.assert_close(forms.mean(0), torch.zeros(7).double(), rtol=0, atol=1e-15)
        torch.testing.assert_close(embedding(vocabulary), forms[: vocabulary.num_words], rtol=0, atol=1e-15)


def test_gradients_equal_those_of_the_naive_loop(vocabulary_of, lexicon):
    words = ["cat", "aaaa", "run", "\N{GRINNING FACE}"]  # an n-gram that occurs twice counts once
    embedding = embedding_of()
    weights = torch.randn(8, 7, dtype=torch.double)
    parameters = list(embedding.parameters())
    fast = torch.autograd.grad((embedding(vocabulary_of(words, WIDTHS)) * weights).sum(), parameters)
    rows = torch.stack([naive_embedding(embedding, word, lexicon) for word in SPECIAL + words])
    for one, other in zip(fast, torch.autograd.grad((rows * weights).sum(), parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_a_word_without_an_entry_is_its_spelling_alone(vocabulary_of):
    embedding, vocabulary = embedding_of(), vocabulary_of(["cat", "dog"], WIDTHS, NoLexicon())
    surface = embedding.surface(vocabulary)
    expected = surface @ embedding.compose.weight[:, :7].t()  # W_c [c_x ; 0 ; 0]
    torch.testing.assert_close(embedding(vocabulary), expected, rtol=0, atol=1e-12)


def test_half_precision_on_a_cpu(vocabulary_of):
    embedding, vocabulary = embedding_of(), vocabulary_of(["cat", "dog"], WIDTHS)
    expected = embedding(vocabulary)
    low = embedding.bfloat16()(vocabulary)
    assert low.dtype == torch.bfloat16
    assert (low.double() - expected).norm() <= 0.05 * expected.norm()


def test_permuting_the_dictionary_permutes_the_embeddings(vocabulary_of):
    embedding, order = embedding_of(), [3, 1, 8, 0, 2, 4, 10, 7, 6, 5, 9]
    plain = embedding(vocabulary_of(WORDS, WIDTHS))
    permuted = embedding(vocabulary_of([WORDS[i] for i in order], WIDTHS))
    torch.testing.assert_close(permuted[:4], plain[:4], rtol=0, atol=1e-12)
    torch.testing.assert_close(permuted[4:], plain[4:][order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("added", [["hound", "new", "fur"], ["feline"], ["madeupword0000"], ["y" * 20_000]])
def test_adding_words_changes_no_other_embedding(vocabulary_of, added):
    embedding = embedding_of()
    before = embedding(vocabulary_of(WORDS, WIDTHS))
    after = embedding(vocabulary_of(WORDS + added, WIDTHS))
    assert len(after) == len(before) + len(added)
    torch.testing.assert_close(after[: len(before)], before, rtol=0, atol=1e-12)


def test_long_words_that_begin_alike_differ(vocabulary_of):
    first = embedding_of()(vocabulary_of(["x" * 5000 + "abc", "x" * 5000 + "abd"], WIDTHS))
    assert (first[4] - first[5]).abs().max() > 1e-6


def test_the_end_of_line_is_no_word_of_four_characters():
    rows = embedding_of()(Vocabulary.of_words(SPECIAL + SPECIAL, WIDTHS))  # again as literal words
    assert ((rows[:4] - rows[4:]).abs().amax(1) > 1e-6).all()


def test_gradients_in_double_precision(vocabulary_of):
    torch.manual_seed(0)
    embedding = CompositionalEmbedding(SurfaceEncoder(2, 1, [(1, 2), (3, 2)], 1), 2).double()
    vocabulary = vocabulary_of(["cat", "kitty", "zz"], [1, 3])
    assert torch.autograd.gradcheck(lambda *_: embedding(vocabulary), list(embedding.parameters()))


PAPER = dict(char_embed_dim=16, char_filters=[32, 32, 64, 128, 256, 512], highway_layers=1)


def count(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


def model(head, words, dim=300, **options):
    lstm = LSTMEncoder(dim, 1024, 2, 0.65, 0.4, 0.0)
    settings = head_settings(HeadConfig(output_head=head, **PAPER, **options))
    return build_embedding(words, dim, settings), build_head(words, dim, settings), lstm


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_long_encodings_show_progress(vocabulary_of, monkeypatch):
    embedding = CompositionalEmbedding(SurfaceEncoder(4, 3, [(2, 3)], 1), 4).eval()
    vocabulary = vocabulary_of(["cat", "dog", "lion"], [2])
    whole = embedding(vocabulary)
    embedding.surface.chunk = 3
    monkeypatch.setattr(sys, "stderr", Terminal())
    torch.testing.assert_close(embedding(vocabulary), whole)
    assert re.search(rf"words:.*/{math.ceil(vocabulary.num_forms / 3)} ", sys.stderr.getvalue())


def test_parameters_of_the_paper_at_any_vocabulary():
    """GroC, Table 2: 9M at d = 300; in detail 9.79M with k = 0."""
    filters = filter_widths(PAPER["char_filters"])
    assert filters == [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512)]
    lstm = 4 * 1024 * (300 + 1024 + 2) + 4 * 300 * (1024 + 300 + 2)
    convolutions = sum(16 * width * n + n for width, n in filters)
    characters, highway, projection, compose = 263 * 16, 2 * 1024 * 1024 + 2 * 1024, 1024 * 300, 3 * 300 * 300
    expected = lstm + convolutions + characters + highway + projection + compose + 300 + 1
    assert 9.78e6 <= expected <= 9.80e6
    for size in (5, 10_001):
        assert count(*model("compositional_output", [str(i) for i in range(size)])) == expected
    deeper = count(*model("compositional_output", ["a"], output_depth=2))
    assert deeper == expected + 2 * (300 * 300 + 300)
    assert 9.27e6 <= count(*model("compositional_output", ["a"], dim=256, output_depth=1)) <= 9.29e6


def test_parameters_of_the_baselines_grow_with_the_vocabulary():
    words = [str(i) for i in range(10_000)]
    lstm = 4 * 1024 * (300 + 1024 + 2) + 4 * 300 * (1024 + 300 + 2)
    tied = count(*model("tied", words))
    assert tied == lstm + 10_000 * (300 + 1) and round(tied / 1e6, 2) == 10.03
    assert count(*model("lookup", words)) == lstm + 10_000 * (300 + 300 + 1)


def test_a_width_without_filters_is_left_out():
    assert filter_widths([3, 0, 2]) == [(1, 3), (3, 2)]


def test_the_head_joins_the_embedding_in_gradcheck(vocabulary_of):
    torch.manual_seed(1)
    embedding = CompositionalEmbedding(SurfaceEncoder(2, 2, [(2, 2)], 1), 2).double()
    head = CompositionalOutput(2, OutputNetwork(2, 1, "tanh", 0.0), "tanh").double()
    vocabulary = vocabulary_of(["cat", "zz"], [2])

    def run(*_):
        outputs, bias = head(embedding(vocabulary))
        return torch.cat([outputs, bias.unsqueeze(1)], dim=1)

    assert torch.autograd.gradcheck(run, [*embedding.parameters(), *head.parameters()])
