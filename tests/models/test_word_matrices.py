import copy

import pytest
import torch
from torch import nn

from fairseq_groc.dictionary import predictable_words
from fairseq_groc.embeddings.compositional import CompositionalEmbedding, SurfaceEncoder
from fairseq_groc.embeddings.rows import WordRows
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import CompositionalOutput, LookupOutput, TiedOutput
from fairseq_groc.heads.mappings import OutputNetwork
from fairseq_groc.lexicon.base import Entry, NoLexicon
from fairseq_groc.models.matrices_file import load_matrices, save_matrices, write_word2vec
from fairseq_groc.models.word_matrices import WordMatrices

pytestmark = pytest.mark.usefixtures("encoder_path")
WORDS = ["cat", "dog", "lion", "swim", "madeupword0000"]


@pytest.fixture
def matrices(vocabulary_of, special):
    torch.manual_seed(0)
    embedding = CompositionalEmbedding(SurfaceEncoder(4, 3, [(1, 2), (2, 3)], 1), 4)
    head = CompositionalOutput(4, OutputNetwork(4, 1, "relu", 0.0), "identity")
    impossible = ~torch.tensor(predictable_words(special + WORDS))
    return WordMatrices(embedding, head, vocabulary_of(WORDS, [1, 2]), impossible).eval()


@pytest.fixture
def calls(matrices, monkeypatch):
    made = []
    encode = matrices._encode
    monkeypatch.setattr(matrices, "_encode", lambda: made.append(1) or encode())
    return made


def fresh(matrices):
    """The matrices, computed with no regard to what is kept."""
    inputs = matrices.embedding(matrices.vocabulary)
    outputs, bias = matrices.head(inputs)
    return inputs, outputs, bias.masked_fill(matrices.impossible, float("-inf"))


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def step(matrices):
    optimizer = torch.optim.SGD(matrices.parameters(), lr=0.1)
    with torch.enable_grad():
        matrices()[1].sum().backward()
    optimizer.step()


def load(matrices):
    state = {k: v + 0.1 if torch.is_tensor(v) else v for k, v in matrices.state_dict().items()}
    matrices.load_state_dict(state)


def scale_data(matrices):
    matrices.embedding.compose.weight.data.mul_(2)


def flip_data(matrices):
    matrices.embedding.compose.weight.data.neg_()  # the norm stays


def exchange_data(matrices):
    weight = matrices.embedding.compose.weight
    weight.data.copy_(weight.data.flip(0).clone())  # the norm stays


def transpose_data(matrices):
    weight = matrices.embedding.surface.highways[0].projection.weight
    square = weight.data[: weight.shape[1]]
    square.copy_(square.t().clone())  # norm and sum stay


def nudge_head_data(matrices):
    matrices.head.bias.bias.data.add_(1e-3)


def replace_data(matrices):
    weight = matrices.embedding.compose.weight
    weight.data = weight.data.roll(1, 0)  # the address changes, the norm stays


def test_computed_once_in_evaluation(matrices, calls):
    with torch.no_grad():
        first, second = matrices(), matrices()
    assert len(calls) == 1 and same(first, second) and same(first, fresh(matrices))


def test_impossible_words_have_no_bias(matrices):
    bias = matrices()[2]
    assert bias.isinf().tolist() == [True, True, False, False, False, False, False, False, True]


@pytest.mark.parametrize(
    "change", [step, load, scale_data, flip_data, exchange_data, transpose_data, nudge_head_data, replace_data]
)
def test_never_stale(matrices, change):
    with torch.no_grad():
        before = [m.clone() for m in matrices()]
        change(matrices)
        assert same(matrices(), fresh(matrices)) and same(matrices(), fresh(matrices))
        assert not same(before, matrices())


def scale_counted(matrices):
    with torch.no_grad():
        matrices.embedding.compose.weight.mul_(2)


@pytest.mark.parametrize("change", [load, scale_counted, replace_data])
def test_ready_for_generation_sees_all_changes_that_pytorch_counts(matrices, calls, change):
    matrices.make_generation_fast_(name="words", beamable_mm_beam_size=5)
    with torch.no_grad():
        before = [m.clone() for m in matrices()]
        assert same(before, matrices()) and len(calls) == 1
        change(matrices)
        assert same(matrices(), fresh(matrices)) and not same(before, matrices())


@pytest.mark.parametrize("change", [step, load, scale_data])
def test_computed_once_after_each_change(matrices, calls, change):
    with torch.no_grad():
        matrices()
        change(matrices)
        calls.clear()
        matrices(), matrices()
    assert len(calls) == 1


def test_computed_again_for_another_vocabulary(matrices, vocabulary_of, special):
    with torch.no_grad():
        matrices()
        matrices.vocabulary = vocabulary_of(["puppy", "cat"], [1, 2])
        matrices.impossible = ~torch.tensor(predictable_words(special + ["puppy", "cat"]))
        assert matrices()[0].shape == (6, 4) and same(matrices(), fresh(matrices))


def test_never_kept_where_gradients_are_needed(matrices, calls):
    matrices()[1].sum().backward()
    matrices()[1].sum().backward()  # the graph of the first is gone: a kept one would fail
    assert len(calls) == 2
    matrices.train()
    with torch.no_grad():
        matrices(), matrices()
    assert len(calls) == 4
    assert all(p.grad is not None for p in matrices.embedding.parameters())


def test_dropout_of_training_is_not_kept_for_evaluation(vocabulary_of):
    torch.manual_seed(0)
    embedding = CompositionalEmbedding(SurfaceEncoder(4, 3, [(1, 2)], 1), 4)
    head = CompositionalOutput(4, OutputNetwork(4, 2, "relu", 0.5), "identity")
    matrices = WordMatrices(embedding, head, vocabulary_of(WORDS, [1]), torch.zeros(9, dtype=torch.bool))
    with torch.no_grad():
        matrices.train()()
        assert same(matrices.eval()(), fresh(matrices))


def test_no_checkpoint_holds_anything_of_the_size_of_the_vocabulary(matrices):
    state = matrices.state_dict()
    sizes = {matrices.vocabulary.num_words, matrices.vocabulary.num_forms, len(matrices.vocabulary.spellings(1)[1].items)}
    assert sizes.isdisjoint({2, 3, 4, 5, 6, 12, 263})  # what the shapes of the parameters are made of
    assert state and all(torch.is_tensor(value) for value in state.values())
    assert not [name for name, value in state.items() if sizes & set(value.shape)]
    assert set(state) == {name for name, _ in matrices.named_parameters()}


@pytest.mark.parametrize("kind", ["tied", "lookup"])
def test_words_without_a_row_are_impossible_until_trained(kind):
    def make(words):
        head = TiedOutput(words) if kind == "tied" else LookupOutput(words, 3)
        return WordMatrices(WordRows(words, 3), head, None, torch.zeros(len(words), dtype=torch.bool))

    old, new = make(["a", "b"]), make(["b", "new", "a"])
    for parameter in old.parameters():
        nn.init.uniform_(parameter)
    state = old.state_dict()
    for name, module in new.named_modules():
        if isinstance(module, WordRows):
            module.upgrade_state_dict_named(state, name)
    new.load_state_dict(state, strict=True)
    with torch.no_grad():
        _, outputs, bias = new.eval()()
        assert bias.tolist()[1] == float("-inf") and bias.isfinite().tolist() == [True, False, True]
        expected = old.eval()()
        assert torch.equal(outputs[[2, 0]], expected[1]) and torch.equal(bias[[2, 0]], expected[2])
        new.train()
        assert new.eval()()[2].isfinite().all()  # as an uncached result would be


def test_matrices_are_read_from_a_file_that_fits(matrices, tmp_path, calls):
    matrices.file = tmp_path / "embeddings.pt"
    with torch.no_grad():
        first = matrices()
        matrices._kept = None  # another process
        assert same(matrices(), first) and len(calls) == 1
        scale_data(matrices)
        assert same(matrices(), fresh(matrices)) and not same(matrices(), first)  # another model: written anew
        for other in (b"", b"something else", matrices.file.read_bytes()[:100]):
            matrices.file.write_bytes(other)
            matrices._kept = None
            with pytest.raises(OptionError, match="holds no embeddings"):
                matrices()
            assert matrices.file.read_bytes() == other
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings.pt"]


def test_words_that_were_added_are_neither_read_nor_written(matrices, tmp_path):
    """Two processes that share a file may have added different words."""
    file, found = tmp_path / "embeddings.pt", {}
    for path in (None, file):
        for word in ("puppy", "kitty"):
            other = copy.deepcopy(matrices)
            other.file = path
            other.add_words({word: Entry()})
            with torch.no_grad():
                found[path, word] = other()
    assert not file.exists() and not same(found[None, "puppy"], found[None, "kitty"])
    assert all(same(found[file, word], found[None, word]) for word in ("puppy", "kitty"))


def test_rows_of_input_and_output_are_written_once(tmp_path):
    rows, bias, path = torch.randn(500, 4), torch.randn(500), tmp_path / "embeddings"
    save_matrices(path, (rows, rows, bias), "digest")
    found = load_matrices(path, "digest", torch.device("cpu"))
    assert same(found, (rows, rows, bias)) and found[0].data_ptr() == found[1].data_ptr() != found[2].data_ptr()
    assert path.stat().st_size < 4 * (2 * rows.numel() + bias.numel())


def test_word2vec_text(tmp_path):
    path = tmp_path / "words.vec"
    write_word2vec(path, ["a", "naïve"], torch.tensor([[1.0, -0.5], [1e-8, 2.0]]))
    assert path.read_text(encoding="utf-8") == "2 2\na 1 -0.5\nnaïve 1e-08 2\n"


def test_a_file_of_another_vocabulary_of_this_size_is_not_read(matrices, vocabulary_of, lexicon, tmp_path):
    others = [*WORDS[:-1], "zebra"], WORDS
    vocabularies = [vocabulary_of(others[0], [1, 2]), vocabulary_of(others[1], [1, 2], NoLexicon())]
    with torch.no_grad():
        for number, vocabulary in enumerate(vocabularies):
            matrices.file = tmp_path / f"{number}.pt"
            first = copy.deepcopy(matrices)()
            other = copy.deepcopy(matrices)
            other.vocabulary = vocabulary
            assert same(other(), fresh(other)) and not same(other(), first)
