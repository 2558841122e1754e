"""The task's training step: whose state it carries, and what a repeated or an empty step may touch."""

import itertools
from argparse import Namespace
from contextlib import nullcontext

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.tasks import FairseqTask
from fairseq.utils import apply_to_sample

from fairseq_groc.criterions.chunked_cross_entropy import ChunkedCrossEntropyCriterion
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.embeddings.base import WordEmbedding
from fairseq_groc.embeddings.rows import NewRows, WordRows, rows_below
from fairseq_groc.embeddings.sampled_updates import Updates, is_frozen
from fairseq_groc.embeddings.sampled_words import SampledWords
from fairseq_groc.encoders import ENCODERS
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.results import bf16_is_emulated
from fairseq_groc.heads import HEADS
from fairseq_groc.models.building import embedding_of
from fairseq_groc.tasks.building import begin_corrections, computation_of
from fairseq_groc.tasks.config import WordnetLexiconConfig
from fairseq_groc.tasks.resuming import ResumedTask
from fairseq_groc.tasks.wordnet_lexicon import WordnetLexiconTask

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]


class Backward:
    """As much of an optimizer as a training step sees."""

    def backward(self, loss):
        loss.backward()


class WithMomentum(Backward):
    """Adam, as fairseq's trainer holds it."""

    def __init__(self, parameters):
        self.adam = torch.optim.Adam(parameters, lr=0.1)

    def get_lr(self):
        return self.adam.param_groups[0]["lr"]

    def set_lr(self, lr):
        self.adam.param_groups[0]["lr"] = lr

    def step(self):
        self.adam.step()


def reading(model, lines, vary_bptt=False, autocast_bf16=False):
    """Return a task that trains the model, blocks of 5 tokens of two streams, and the criterion."""
    dictionary = model.decoder.dictionary
    task = WordnetLexiconTask(Namespace(vary_bptt=vary_bptt, tokens_per_sample=5, autocast_bf16=autocast_bf16), dictionary)
    task._decoders.append(model.decoder)
    dataset = StreamDataset(lines, "train", dictionary, independent_lines=False)
    return task, [dataset[plan] for plan in dataset.plan(1, 2, 1, 5)], CrossEntropyCriterion(task, False)


@pytest.mark.parametrize("carries", [True, False])
def test_blocks_of_a_model_without_state_are_shuffled_in_training_alone(model_of, as_lines, carries):
    model = model_of(WORDS, "tied")
    task, text, _ = reading(model, as_lines([*[4, 5, 6, 7] * 12, 2]))
    task.cfg.train_subset = "train"
    model.decoder.carried = model.decoder.carried if carries else None
    dataset = StreamDataset(as_lines([*[4, 5, 6, 7] * 12, 2]), "train", model.decoder.dictionary, independent_lines=False)
    blocks = [plan.block for (plan,) in task.get_batch_iterator(dataset, max_sentences=2).frozen_batches]
    ordered = [sample["net_input"]["block"] for sample in text]
    assert (blocks == ordered) is carries and sorted(blocks, key=lambda block: block.begin) == ordered
    validated = task._iterate(dataset, 2).frozen_batches
    assert [plan.block for (plan,) in validated] == ordered
    lines = StreamDataset(as_lines(*[[4, 5, 2]] * 20), "train", model.decoder.dictionary, independent_lines=True)
    drawn, given = ([plan.rows for (plan,) in task._iterate(lines, 2, of).frozen_batches] for of in (True, False))
    assert drawn != given  # with a state, too


@pytest.fixture
def trained(model_of, as_lines):
    """A task, its model, and a function that takes a step on blocks of a text."""
    model = model_of(WORDS, "tied")
    generator = torch.Generator().manual_seed(1)
    lines = as_lines(*(torch.randint(4, 10, (11,), generator=generator).tolist() + [2] for _ in range(6)))
    task, text, criterion = reading(model, lines, vary_bptt=True)

    def update(number, *blocks, dummy=False):
        model.zero_grad(set_to_none=True)
        return [task.train_step(text[b], model, criterion, Backward(), number, dummy)[0].item() for b in blocks]

    return task, model, update


def test_a_repeated_update_is_the_same_update(trained, caplog):
    task, _, update = trained
    update(0, 0, 1)
    first = update(1, 2, 3)
    assert update(1, 2, 3) == first == update(1, 2, 3)
    assert task._block_lengths == [5, 5]  # of the last attempt alone
    assert update(2, 4) != first[:1] and "no state is carried" not in caplog.text


def test_a_dummy_batch_and_validation_touch_nothing(trained, caplog):
    _, model, update = trained
    update(0, 0, 1)
    expected = update(1, 2)
    update(1, 0, dummy=True)  # fairseq does so when a worker runs out of text
    with torch.no_grad():
        model.eval()(torch.tensor([[4, 5]]))
    assert update(1, 2) == expected and "no state is carried" not in caplog.text


def test_the_state_matters(trained):
    _, model, update = trained
    update(0, 0, 1)
    carried = update(1, 2)
    model.decoder.carried[True].load_state_dict({}, "cpu", torch.float32)
    assert update(1, 2) != carried


def test_a_frozen_step_moves_the_rest_alone(model_of, as_lines):
    model = model_of(WORDS).train()
    model.decoder.matrices.updates = Updates(probability=0.5)
    task, text, criterion = reading(model, as_lines([4, 5, 6, 7, 8] * 6 + [2]))
    optimizer = WithMomentum(model.parameters())
    kinds = []
    for number in range(8):
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        model.zero_grad()
        task.train_step(text[number % 2], model, criterion, optimizer, number)
        task.optimizer_step(optimizer, model, number)
        moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
        of_words = {name for name in moved if ".words." in name}
        frozen = is_frozen(0.5, 1, number)
        assert moved - of_words and bool(of_words) != frozen
        kinds.append(frozen)
    assert True in kinds[kinds.index(False) :]  # by then it has momentum


def types_of(sample):
    found = set()
    apply_to_sample(lambda tensor: found.add(tensor.dtype), sample)
    return found


SEED = next(seed for seed in itertools.count() if is_frozen(0.5, seed, 2))  # the last step that is taken
ROUNDED = {
    **{head: {"head": head} for head in HEADS},
    **{encoder: {"head": "tied", "encoder": encoder} for encoder in ENCODERS},
    "sparse": {"computation": {"updates": Updates(probability=0.5, seed=SEED)}},
    "sampled": {"computation": {"updates": Updates(fraction=0.3, interval=2)}},
    "sampled and corrected": {"computation": {"updates": Updates(fraction=0.3, interval=2)}, "corrections": "both"},
}


def test_a_cpu_without_bfloat16_stays_in_float32(model_of, as_lines, monkeypatch):
    losses = []
    for rounded in (False, True):
        task, text, criterion = reading(model := model_of(WORDS, "tied"), as_lines([4, 5, 6, 2]), autocast_bf16=rounded)
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": False}, raising=False)
        losses.append(task.train_step(text[0], model, criterion, Backward(), 0)[0])
    assert torch.equal(*losses)


@pytest.mark.skipif(bf16_is_emulated(), reason="this CPU has no bfloat16")
@pytest.mark.parametrize("options", ROUNDED.values(), ids=ROUNDED)
def test_products_in_bfloat16_change_a_step_by_little(model_of, as_lines, options):
    """Also where a step computes with a weight without its gradient before it does with it. Evaluation is as it was."""
    lines = as_lines([4, 5, 6, 7, 8, 9] * 6 + [2])
    losses, evaluated, gradients = [], [], []
    for rounded in (False, True):
        model = model_of(WORDS, **options, init_range=0.5)
        task, text, criterion = reading(model, lines, autocast_bf16=rounded)
        if "encoder" in options:
            criterion = ChunkedCrossEntropyCriterion(task, False, 100, 2.0, 1.0)
        for number in range(3):
            model.zero_grad()
            losses.append(task.train_step(text[number], model, criterion, Backward(), number)[0])
        assert types_of(model.decoder.carried[True].state_dict()) == {torch.float32}  # as a resumed run reads it
        evaluated.append(task.valid_step(text[0], model, criterion)[0])
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    exact, near = torch.stack(losses[:3]), torch.stack(losses[3:])
    assert exact.dtype == near.dtype == torch.float32 and evaluated[0] == evaluated[1]
    assert not torch.equal(exact, near) and torch.allclose(near, exact, rtol=0.02, atol=0)
    for name, exact in gradients[0].items():
        near = gradients[1][name]
        assert (exact is None) == (near is None)
        if exact is not None:
            assert near.dtype == exact.dtype == torch.float32
            if exact.norm() > 1e-4:  # the loss does not depend on an offset of all words' biases
                assert (near - exact).norm() <= 0.1 * exact.norm(), name


OPTIONS = dict(encoding_chunk=9, full_update_prob=0.3, sampled_update_fraction=0.2, refresh_interval=5, seed=7)


def matrices_of(model_of, head="compositional_output", corrections="none", **options):
    """Return the matrices of a model whose task has some options."""
    settings = {"output_head": head}
    computation = {**computation_of(WordnetLexiconConfig(**options), embedding_of(settings)), "new_rows": NewRows(True, 0.3)}
    return model_of(WORDS, head, computation, **({} if head == "tied" else {"corrections": corrections})).decoder.matrices


def test_options_reach_the_word_embeddings(model_of):
    words = matrices_of(model_of, **OPTIONS)
    assert words.updates == (0.3, 0.2, 5, 7)
    assert (words.sampled.fraction, words.sampled.interval, words.sampled.seed) == (0.2, 5, 7)
    assert words.embedding.surface.chunk == 9
    corrected = matrices_of(model_of, corrections="both", **OPTIONS)
    assert isinstance(corrected.sampled, SampledWords) and corrected.sampled.embeddings.interval == 5
    assert corrected.corrections.rows.new == (False, 0.0)  # a word that is new is its composed self
    plain = matrices_of(model_of)
    assert plain.sampled is None
    rows = matrices_of(model_of, "tied", **OPTIONS)
    assert rows.updates.probability == 1 and rows.sampled is None
    assert rows.embedding.new == (True, 0.3)


def test_words_of_all_folders_get_a_correction(model_of, monkeypatch):
    decoder = model_of(WORDS, corrections="both").decoder
    texts = {"a/train": [torch.tensor([4, 4, 5])], "b/train": [torch.tensor([5]), torch.tensor([6, 2])]}
    monkeypatch.setattr("fairseq_groc.tasks.building.open_text", lambda path, combine: texts[str(path)])
    cfg = WordnetLexiconConfig(data="a:b", train_subset="train", correction_min_count=2)
    begin_corrections(decoder.matrices.corrections, cfg, decoder.dictionary)
    decoder.matrices.train()
    decoder.matrices.corrections.begin_step(torch.Generator())
    assert decoder.matrices.corrections._have.nonzero().squeeze(1).tolist() == [4, 5]


def test_embeddings_are_not_for_a_folder_that_is_not_there(model_of, tmp_path):
    with pytest.raises(OptionError, match="--export-embeddings .*: there is no folder"):
        matrices_of(model_of, export_embeddings=str(tmp_path / "none" / "file.pt"))


@pytest.mark.parametrize("updates", [Updates(fraction=0.3, interval=3), Updates(probability=0.5)], ids=["sampled", "sparse"])
@pytest.mark.parametrize("corrections", ["none", "both"])
def test_words_that_are_not_read_are_computed_kept_and_predicted_as_others(model_of, updates, corrections):
    options = dict(computation={"updates": updates}, corrections=corrections)
    whole, dropping = (model_of(WORDS, embedding_dropout=rate, **options).decoder.train() for rate in (0.0, 0.5))
    tokens = torch.arange(4, 10)
    for number in range(7):
        rows, matrices = [], []
        for decoder in (whole, dropping):
            decoder.matrices.begin_step(number, tokens[:2])
            torch.manual_seed(number)
            rows.append(decoder.embed_tokens(tokens))
            matrices.append(decoder.matrices.end())
            for parameter in decoder.parameters():
                parameter.data.mul_(0.99)
        dropped = (rows[1] == 0).all(1)
        assert 0 < int(dropped.sum()) < 6
        torch.testing.assert_close(rows[1], 2 * rows[0] * ~dropped.unsqueeze(1), rtol=0, atol=0)
        torch.testing.assert_close(matrices[0], matrices[1], rtol=0, atol=0)


@pytest.mark.parametrize("state", [{"state": {}}, {"state": {0: {}}}, {}])
def test_rows_that_moved_go_on_without_what_an_optimizer_has_of_each(model_of, monkeypatch, state):
    """One of several optimizers, the last here, has no state of its own; where no row moved, nobody asks."""
    monkeypatch.setattr(FairseqTask, "train_step", lambda *_: "stepped")
    model = model_of(WORDS, "tied")

    def stepped(update):
        return ResumedTask(None).train_step({}, model, None, Namespace(optimizer=Namespace(**state)), update)

    assert stepped(1) == "stepped"
    next(iter(rows_below(model).values())).moved = True
    assert stepped(0) == "stepped"
    with nullcontext() if state == {"state": {}} else pytest.raises(OptionError, match="had another dictionary"):
        assert stepped(1) == "stepped"


@pytest.mark.parametrize(
    "option, kind, named",
    [
        ("sampled_update_fraction", WordEmbedding, ["--sampled-update-fraction"]),  # one of a user's, which is computed
        ("full_update_prob", WordEmbedding, []),
        ("full_update_prob", WordRows, ["--full-update-prob"]),
    ],
)
def test_updates_that_an_embedding_does_not_take_are_named(option, kind, named, caplog):
    computation_of(WordnetLexiconConfig(**{option: 0.5}), kind)
    assert caplog.messages == [f"{one} changes nothing with word embeddings of this kind ({kind.__name__})" for one in named]
