"""The fast encoder against a naive one, word by word."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_groc.lexicon import FileLexicon
from fairseq_groc.lexicon.tables import build_tables
from fairseq_groc.modules.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.modules.heads import CompositionalOutput
from fairseq_groc.modules.lstm import LSTMEncoder
from fairseq_groc.modules.vocabulary import BEGIN, END, FILL, FIRST_SPECIAL, Vocabulary

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = ["cat", "a", "dog", "\N{GRINNING FACE}", "x" * 10_000, "kitty", "run", "unheard-of", "lion"]
FILTERS = [(1, 3), (2, 4), (3, 2), (6, 5)]


def vocabulary_of(words, lexicon):
    tables = build_tables(SPECIAL + words, lexicon, lambda i: i >= 4)
    relations, definitions = (tables.relations, tables.relation_offsets), (tables.definitions, tables.definition_offsets)
    return Vocabulary(tables.forms(), relations, definitions, [w for w, _ in FILTERS])


def embedding_of(dim=7, seed=3):
    torch.manual_seed(seed)
    return CompositionalEmbedding(SurfaceEncoder(dim, 5, FILTERS, 1), dim).double()


@pytest.fixture
def lexicon(data):
    return FileLexicon(data / "mini.tsv")


def naive_surface(encoder, word):
    """Conv1d over the characters of one word, maximum over time, relu, highway, projection."""
    body = [FIRST_SPECIAL + SPECIAL.index(word)] if word in SPECIAL else list(word.encode("utf-8"))
    symbols = [BEGIN, *body, END]
    pooled = []
    for linear, (width, count) in zip(encoder.filters, FILTERS):
        padded = torch.tensor(symbols + [FILL] * max(0, width - len(symbols)))
        characters = encoder.characters(padded).t().unsqueeze(0)  # (1, char_embed_dim, L)
        kernel = linear.weight.view(count, width, -1).transpose(1, 2)
        pooled.append(F.conv1d(characters, kernel, linear.bias).amax(2).squeeze(0))
    x = torch.relu(torch.cat(pooled))
    projected = F.linear(x, encoder.highways[0].projection.weight, encoder.highways[0].projection.bias)
    new, gate = projected.chunk(2)
    carry = torch.sigmoid(gate)
    return F.linear(carry * torch.relu(new) + (1 - carry) * x, encoder.projection.weight)


def naive_embedding(embedding, word, lexicon):
    entry = lexicon.lookup(word, 3, 10) if word not in SPECIAL else None
    encode = lambda w: naive_surface(embedding.surface, w)  # noqa: E731
    parts = [encode(word)]
    for related in ([r.word for r in entry.relations] if entry else [], list(entry.definition) if entry else []):
        parts.append(torch.stack([encode(w) for w in related]).mean(0) if related else torch.zeros_like(parts[0]))
    return F.linear(torch.cat(parts), embedding.compose.weight)


def test_equals_a_naive_loop_over_words(lexicon):
    embedding, words = embedding_of(), SPECIAL + WORDS
    fast = embedding(vocabulary_of(WORDS, lexicon))
    naive = torch.stack([naive_embedding(embedding, word, lexicon) for word in words])
    assert fast.shape == (len(words), 7)
    torch.testing.assert_close(fast, naive, rtol=0, atol=1e-6)
    assert len({tuple(row.tolist()) for row in fast}) == len(words)


def test_permuting_the_dictionary_permutes_the_embeddings(lexicon):
    embedding, order = embedding_of(), [3, 1, 8, 0, 2, 4, 7, 6, 5]
    plain = embedding(vocabulary_of(WORDS, lexicon))
    permuted = embedding(vocabulary_of([WORDS[i] for i in order], lexicon))
    torch.testing.assert_close(permuted[4:], plain[4:][order], rtol=0, atol=1e-12)


def test_adding_words_changes_no_other_embedding(lexicon):
    embedding = embedding_of()
    before, after = embedding(vocabulary_of(WORDS, lexicon)), embedding(vocabulary_of(WORDS + ["hound", "new", "fur"], lexicon))
    torch.testing.assert_close(after[: len(before)], before, rtol=0, atol=1e-12)


def test_gradients_in_double_precision(lexicon):
    torch.manual_seed(0)
    embedding = CompositionalEmbedding(SurfaceEncoder(3, 2, FILTERS[:2], 1), 3).double()
    head = CompositionalOutput(3, 2, "tanh", 0.0, "tanh").double()
    tables = build_tables(["cat", "dog", "a", "kitty", "run"], lexicon)
    relations, definitions = (tables.relations, tables.relation_offsets), (tables.definitions, tables.definition_offsets)
    vocabulary = Vocabulary(tables.forms(), relations, definitions, [1, 2])
    parameters = list(embedding.parameters()) + list(head.parameters())

    def run(*values):
        outputs, bias = head(embedding(vocabulary))
        return torch.cat([outputs, bias.unsqueeze(1)], dim=1)

    assert torch.autograd.gradcheck(run, parameters)


def test_parameters_of_the_paper_at_any_vocabulary():
    """GroC, Table 2: 9M at d = 300; 9.79M in detail, k = 0."""
    filters = list(enumerate([32, 32, 64, 128, 256, 512], start=1))
    parts = [
        CompositionalEmbedding(SurfaceEncoder(300, 16, filters, 1), 300),
        CompositionalOutput(300, 0, "relu", 0.0, "identity"),
        LSTMEncoder(300, 1024, 2, 0.65, 0.4, 0.0),
    ]
    lstm = 4 * 1024 * (300 + 1024 + 2) + 4 * 300 * (1024 + 300 + 2)
    convolutions = sum(16 * width * count + count for width, count in filters)
    characters, highway, projection, compose = 263 * 16, 2 * 1024 * 1024 + 2 * 1024, 1024 * 300, 3 * 300 * 300
    expected = lstm + convolutions + characters + highway + projection + compose + 300 + 1
    assert sum(p.numel() for part in parts for p in part.parameters()) == expected == 9_786_861
