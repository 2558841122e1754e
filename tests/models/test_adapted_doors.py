"""One adapted model through every door of fairseq's: criteria, scorer, generation; for every head and every decoder."""

import copy
import itertools
from argparse import Namespace

import numpy as np
import pytest
import torch
from decoders import DECODERS
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.sequence_scorer import SequenceScorer

from fairseq_groc.adapters import Adapter, AdapterSettings, LocalCache
from fairseq_groc.adapters.ngram import OpenedNGrams
from fairseq_groc.adapters.ngram_file import WordNGrams
from fairseq_groc.criterions.cache_interpolated_cross_entropy import CacheInterpolatedCrossEntropyCriterion
from fairseq_groc.criterions.chunked_cross_entropy import ChunkedCrossEntropyCriterion
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.modules.activation_penalty import activation_penalty
from fairseq_groc.modules.kneser_ney import train

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra", "wolf", "run"]
EVERY = dict(unigram_weight=0.1, local_weight=0.2, unbounded_weight=0.1, ngram_weight=0.4)
ALL = AdapterSettings(0.1, 0.1, **EVERY, cache_theta=2.0, cache_size=9)
ANY_MODEL = [("groc_lstm_lm", head) for head in HEADS] + [(arch, "compositional_output") for arch in DECODERS]

NGRAM_TEXT = (
    "cat dog cat\nlion swim\ncat dog lion hound\n\nfeline cat swim cat\nrun cat dog run\n"  # no zebra, no wolf; hound is new
)


def ngrams_of(text):
    """Return a trigram model of some lines."""
    words = [word for line in text.splitlines() for word in [*line.split(), "</s>"]]
    index = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ngrams, _ = train(np.array([index[word] for word in words]), len(index), index["</s>"], 3)
    return WordNGrams(ngrams, list(index), {})


@pytest.fixture
def adapted_model(model_of, stock_model):
    """Return a function from an architecture and a head to a model with all adapters; the last two words are new."""

    def build(arch, head, settings=ALL):
        model = model_of(WORDS, head) if arch == "groc_lstm_lm" else stock_model(arch, head, WORDS)
        new = torch.arange(len(model.decoder.dictionary)) >= 10
        ngrams = OpenedNGrams(ngrams_of(NGRAM_TEXT), model.decoder.dictionary)
        model.decoder.adapter = Adapter(settings, model.decoder.real_words(), new, {"ngram": ngrams})
        return model

    return build


@pytest.fixture
def batches(as_lines):
    """Return a function from a model, streams and a block length to the batches of a text."""
    random = torch.Generator().manual_seed(5)
    lines = as_lines(*(torch.randint(4, 12, (n,), generator=random).tolist() + [2] for n in (5, 0, 9, 3, 1, 7)))

    def batch(model, streams, block):
        dataset = StreamDataset(lines, "text", model.decoder.dictionary, independent_lines=False)
        return [dataset[plan] for plan in dataset.plan(1, streams, 1, block)]

    return batch


@torch.no_grad()
def by_probabilities(model, batches):
    """Return the log-probability of every target from the full distributions."""
    found = []
    for sample in batches:
        lprobs = model.get_normalized_probs(model(**sample["net_input"]), log_probs=True)
        assert (lprobs.double().exp().sum(-1) - 1).abs().max() <= 1e-6
        found += lprobs.gather(2, sample["target"].unsqueeze(2))[..., 0][sample["target"] != 1].tolist()
    return found


def by_scorer(model, batches, softmax_batch=None):
    scorer = SequenceScorer(model.decoder.dictionary, softmax_batch=softmax_batch)
    return [
        score
        for sample in batches
        for hypotheses in scorer.generate([model], sample)
        for score in hypotheses[0]["positional_scores"].tolist()
    ]


@torch.no_grad()
def by_criterion(criterion, model, batches):
    found = []
    for sample in batches:
        losses = criterion(model, sample, reduce=False)[0]
        found += (-losses.view(sample["target"].shape)[sample["target"] != 1]).tolist()
    return found


@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_criteria_and_scorer_see_the_same_adapted_model(adapted_model, batches, arch, head):
    model = adapted_model(arch, head)
    block = 7
    reference = by_probabilities(model, batches(model, 2, block))
    task = Namespace(target_dictionary=model.decoder.dictionary)
    doors = {
        "stock": by_criterion(CrossEntropyCriterion(task, False), model, batches(model, 2, block)),
        "targets alone": by_criterion(CacheInterpolatedCrossEntropyCriterion(task, False, 5), model, batches(model, 2, block)),
        "scorer": by_scorer(model, batches(model, 2, block)),
        "scorer in parts": by_scorer(model, batches(model, 2, block), softmax_batch=3),
    }
    for name, found in doors.items():
        assert found == pytest.approx(reference, abs=1e-5), name
    plain = adapted_model(arch, head, AdapterSettings())
    assert by_probabilities(plain, batches(plain, 2, block)) != pytest.approx(reference, abs=1e-2)


@pytest.mark.parametrize("arch", ["groc_lstm_lm", "transformer_lm"])
def test_a_cache_may_learn_between_blocks(adapted_model, batches, monkeypatch, arch):
    seen, following = [], []

    def learn(cache, model, tokens, h, targets):
        seen.append(("after", tokens))
        assert torch.equal(targets[:, :-1], tokens[:, 1:])
        following.append(targets[:, -1:])
        weight = model.words.embedding.weight
        (gradient,) = torch.autograd.grad(h.square().sum(), weight)
        with torch.no_grad():
            weight -= gradient / gradient.abs().max()

    model = adapted_model(arch, "tied")
    read = batches(model, 2, 7)
    still = by_probabilities(copy.deepcopy(model), read)
    monkeypatch.setattr(LocalCache, "before_block", lambda cache, model, tokens: seen.append(("before", tokens)))
    monkeypatch.setattr(LocalCache, "after_block", learn)
    monkeypatch.setattr(LocalCache, "learns", True)
    learned = by_probabilities(copy.deepcopy(model), read)
    texts = [sample["net_input"]["src_tokens"] for sample in read]
    told = [("before", texts[0])]
    for before, after in itertools.pairwise(texts):
        told += [("after", before), ("before", after)]
    assert torch.equal(torch.cat(following, 1), torch.cat([text[:, :1] for text in texts[1:]], 1))
    assert [name for name, _ in seen] == [name for name, _ in told]
    assert all(mine is theirs for (_, mine), (_, theirs) in zip(seen, told, strict=True))
    first = int((read[0]["target"] != 1).sum())
    assert learned[:first] == pytest.approx(still[:first], abs=1e-6) and learned[first:] != pytest.approx(still[first:], abs=1e-3)
    task = Namespace(target_dictionary=model.decoder.dictionary)
    for criterion in (CrossEntropyCriterion(task, False), CacheInterpolatedCrossEntropyCriterion(task, False, 5)):
        assert by_criterion(criterion, copy.deepcopy(model), read) == pytest.approx(learned, abs=1e-5)
    assert by_scorer(copy.deepcopy(model), read) == pytest.approx(learned, abs=1e-5)
    seen.clear()
    model.decoder(texts[0], incremental_state={})
    assert seen == []  # generation reads no text


@pytest.mark.parametrize("arch, head", ANY_MODEL)
def test_generation_sees_the_same_adapted_model(adapted_model, arch, head):
    model = adapted_model(arch, head)
    tokens = torch.tensor([[2, 4, 6, 5, 4, 10], [2, 7, 7, 4, 11, 7]])
    with torch.no_grad():
        whole = model.get_normalized_probs(model(tokens), log_probs=True)
        state = {}
        for t in range(tokens.size(1)):
            step = model.get_normalized_probs(model.decoder(tokens[:, : t + 1], incremental_state=state), log_probs=True)
            torch.testing.assert_close(step[:, -1], whole[:, t], rtol=0, atol=1e-5)
        order = torch.tensor([1, 1])
        model.decoder.reorder_incremental_state_scripting(state, order)
        longer = torch.cat([tokens[order], torch.tensor([[5], [6]])], 1)
        step = model.get_normalized_probs(model.decoder(longer, incremental_state=state), log_probs=True)
        whole = model.get_normalized_probs(model(longer), log_probs=True)
    torch.testing.assert_close(step[:, -1], whole[:, -1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("block", [1, 5, 100])
def test_block_length_changes_nothing(adapted_model, batches, block):
    model = adapted_model("groc_lstm_lm", "compositional_output")
    by_stream = [by_probabilities(model, batches(model, 1, length)) for length in (block, 7)]
    assert by_stream[0] == pytest.approx(by_stream[1], abs=1e-5)


def test_training_is_not_adapted(adapted_model, batches):
    model = adapted_model("groc_lstm_lm", "tied").train()
    plain = adapted_model("groc_lstm_lm", "tied", AdapterSettings()).train()
    sample = batches(model, 2, 7)[0]
    scores = [m.get_normalized_probs(m(**sample["net_input"]), log_probs=True) for m in (model, plain)]
    assert torch.equal(*scores)


def test_a_block_out_of_turn_says_so(adapted_model, batches, caplog):
    model = adapted_model("groc_lstm_lm", "tied")
    with torch.no_grad():
        model(**batches(model, 2, 7)[1]["net_input"])
    assert "nothing is remembered" in caplog.text


@pytest.mark.parametrize("criterion", [ChunkedCrossEntropyCriterion, CacheInterpolatedCrossEntropyCriterion])
def test_a_penalty_of_encodings_is_trained_and_not_logged(model_of, batches, criterion):
    model = model_of(WORDS, "tied")
    task = Namespace(target_dictionary=model.decoder.dictionary)
    sample = batches(model, 2, 7)[0]
    plain, with_penalty = criterion(task, False, 5), criterion(task, False, 5, 2.0, 1.0)
    assert torch.equal(with_penalty.eval()(model.eval(), sample)[0], plain(model, sample)[0])
    model.train()
    (loss, size, log), (more, _, also) = (one(model, sample) for one in (plain, with_penalty))
    extra = model(**sample["net_input"])[1]
    penalty = activation_penalty(extra["features"], extra["last"], sample["target"] != 1, 2.0, 1.0)
    torch.testing.assert_close(more, loss + size * penalty, rtol=1e-6, atol=0)
    assert penalty > 0 and also["loss"] == log["loss"] == loss


def test_a_penalty_needs_a_decoder_that_gives_its_encodings(stock_model, batches):
    model = stock_model("transformer_lm", "tied", WORDS).train()
    criterion = ChunkedCrossEntropyCriterion(Namespace(target_dictionary=model.decoder.dictionary), False, 5, 2.0)
    with pytest.raises(OptionError, match="need --arch groc_lstm_lm, not a Transformer"):
        criterion(model, batches(model, 2, 7)[0])


@pytest.mark.parametrize("streams, block", [(4, 7), (2, 7), (4, 1)])
def test_a_penalty_of_half_the_streams_each_is_that_of_all(model_of, batches, streams, block):
    """As of two workers, or of --update-freq 2: gradients are summed, and divided by the tokens."""
    model = model_of(WORDS, "tied").train()
    criterion = ChunkedCrossEntropyCriterion(Namespace(target_dictionary=model.decoder.dictionary), False, 5, 2.0, 1.0)
    whole = batches(model, streams, block)[0]
    assert whole["target"].ne(1).all() and whole["target"].size(1) == block

    def gradients(*rows):
        model.zero_grad()
        tokens = 0
        for part in rows:
            net_input = {"src_tokens": whole["net_input"]["src_tokens"][part]}
            target = whole["target"][part]
            loss, size, _ = criterion(model, {"net_input": net_input, "target": target, "ntokens": target.numel()})
            loss.backward()
            tokens += size
        return [p.grad / tokens for p in model.parameters()]

    half = streams // 2
    for one, other in zip(gradients(slice(None)), gradients(slice(half), slice(half, None)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
