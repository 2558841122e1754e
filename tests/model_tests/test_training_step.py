"""The task's training step: whose state it carries, and what a repeated or an empty step may touch."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion

from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.tasks.wordnet_lexicon import WordnetLexiconTask

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]


class Backward:
    """As much of an optimizer as a training step sees."""

    def backward(self, loss):
        loss.backward()


@pytest.fixture
def trained(model_of, as_lines):
    """A task, its model, and a function that takes a step on blocks of a text."""
    model = model_of(WORDS, "tied")
    dictionary = model.decoder.dictionary
    task = WordnetLexiconTask(Namespace(vary_bptt=True, tokens_per_sample=5), dictionary)
    task._decoders.append(model.decoder)
    generator = torch.Generator().manual_seed(1)
    lines = as_lines(*(torch.randint(4, 10, (11,), generator=generator).tolist() + [2] for _ in range(6)))
    dataset = StreamDataset(lines, "train", dictionary, independent_lines=False, carries_state=True)
    plans = dataset.plan(1, 2, 1, 5)
    criterion = CrossEntropyCriterion(task, False)

    def update(number, *blocks, dummy=False):
        model.zero_grad(set_to_none=True)
        return [task.train_step(dataset[plans[b]], model, criterion, Backward(), number, dummy)[0].item() for b in blocks]

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
