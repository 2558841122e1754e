"""The language model as fairseq holds it, without its commands: what it says does not depend on how it is asked."""

import pytest
import torch

from fairseq_groc.adapters import Adapter, AdapterSettings
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import OptionError
from fairseq_groc.heads import HEADS
from fairseq_groc.lexicon import FileLexicon
from fairseq_groc.lexicon.tables import Origin, build_tables
from fairseq_groc.modules.packed_state import pack, unpack
from fairseq_groc.modules.probabilities import LOG_ZERO
from fairseq_groc.options import OPTIONS_VERSION
from fairseq_groc.registry import Option

pytestmark = pytest.mark.usefixtures("encoder_path")

WORDS = ["cat", "dog", "lion", "swim", "feline", "zebra"]


@pytest.mark.parametrize("head", ["tied", "compositional_output", "deep_residual"])
def test_parameters_begin_in_the_range_and_composed_words_at_its_size(model_of, head):
    wide, narrow = (dict(model_of(WORDS, head, init_range=limit).named_parameters()) for limit in (0.2, 0.05))
    ours = [name for name in wide if "words.embedding" not in name or head != "compositional_output"]
    assert any("encoder.layers" in name for name in ours) and any("words." in name for name in ours)
    for name in ours:
        torch.testing.assert_close(wide[name], 4 * narrow[name])
        assert wide[name].abs().max() <= 0.2
    assert max(wide[name].abs().max() for name in ours) > 0.19
    for name in set(wide) - set(ours):
        scale = 4 if name.endswith("projection.weight") and "highways" not in name else 1
        torch.testing.assert_close(wide[name], scale * narrow[name])


@pytest.fixture
def text():
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(0, 9, (12,), generator=generator).tolist()
    return [[WORDS[i] for i in torch.randint(0, len(WORDS), (n,), generator=generator)] for n in lengths]


def dataset_of(model, text, as_lines):
    dictionary = model.decoder.dictionary
    lines = as_lines(*([dictionary.index(word) for word in line] + [dictionary.eos()] for line in text))
    return StreamDataset(lines, "text", dictionary, independent_lines=False)


@torch.no_grad()
def total(model, dataset, streams, block, shards=1):
    """Return (tokens, log-likelihood) of a text, shard by shard."""
    tokens, sum_ = 0, 0.0
    plans = dataset.plan(1, streams, shards, block)
    for shard in range(shards):
        for plan in plans[shard::shards]:
            batch = dataset[plan]
            lprobs = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
            real = batch["target"] != dataset.dictionary.pad()
            sum_ += lprobs.gather(2, batch["target"].unsqueeze(2)).squeeze(2)[real].double().sum().item()
            tokens += batch["ntokens"]
    return tokens, sum_


def test_one_stream_has_the_same_loss_at_any_block_length(model_of, text, as_lines):
    model = model_of(WORDS)
    dataset = dataset_of(model, text, as_lines)
    tokens, reference = total(model, dataset, 1, 1)
    assert tokens == sum(len(line) + 1 for line in text)
    for block in (2, 7, 35, 1000):
        assert total(model, dataset, 1, block) == (tokens, pytest.approx(reference, rel=1e-5))


def test_streams_and_shards_predict_the_same_tokens(model_of, text, as_lines):
    model = model_of(WORDS)
    dataset = dataset_of(model, text, as_lines)
    tokens = sum(len(line) + 1 for line in text)
    for streams in (2, 4):
        _, reference = total(model, dataset, streams, 1)
        for block in (1, 7, 35):
            assert total(model, dataset, streams, block) == (tokens, pytest.approx(reference, rel=1e-5))
            # two shards of half the streams are the same streams
            assert total(model, dataset, streams // 2, block, 2) == (tokens, pytest.approx(reference, rel=1e-5))


def test_permuting_the_dictionary_permutes_the_scores(model_of, text, as_lines):
    order = torch.randperm(len(WORDS), generator=torch.Generator().manual_seed(1)).tolist()
    permuted = [WORDS[i] for i in order]
    one, two = model_of(WORDS), model_of(permuted)
    source = [torch.tensor([[model.decoder.dictionary.index(w) for w in WORDS + ["</s>", "cat"]]]) for model in (one, two)]
    with torch.no_grad():
        scores = [model.get_normalized_probs(model(s), log_probs=True) for model, s in zip((one, two), source, strict=True)]
    place = [0, 1, 2, 3] + [two.decoder.dictionary.index(word) for word in WORDS]
    torch.testing.assert_close(scores[1][..., place], scores[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("uniform", [0.0, 0.25])
@pytest.mark.parametrize("head", HEADS)
def test_probabilities_sum_to_one_and_no_filler_has_any(model_of, head, uniform):
    model = model_of(WORDS + ["madeupword0000"], head)
    decoder = model.decoder
    decoder.adapter = Adapter(AdapterSettings(uniform_weight=uniform), decoder.real_words(), decoder.matrices.impossible)
    with torch.no_grad():
        lprobs = model.get_normalized_probs(model(torch.tensor([[4, 5, 2]])), log_probs=True)
    assert (lprobs.double().exp().sum(-1) - 1).abs().max() <= 1e-6
    assert bool((lprobs[..., [0, 1, -1]] == LOG_ZERO).all()) and bool(lprobs.isfinite().all())


def test_word_by_word_is_the_whole(model_of):
    model, tokens = model_of(WORDS), torch.tensor([[2, 4, 6, 5], [2, 7, 7, 4]])
    with torch.no_grad():
        whole, state = model(tokens)[0], {}
        for t in range(tokens.size(1)):
            step = model(tokens[:, : t + 1], incremental_state=state)[0]
            torch.testing.assert_close(step[:, 0], whole[:, t], rtol=0, atol=1e-6)
        model.decoder.reorder_incremental_state(state, torch.tensor([1, 0]))
        swapped = model(tokens.flip(0), incremental_state=state)[0]
        longer = model(torch.cat([tokens, tokens[:, -1:]], 1))[0]
    torch.testing.assert_close(swapped[:, 0], longer[:, -1].flip(0), rtol=0, atol=1e-6)


def test_checkpoints_of_other_options_or_of_the_future_are_refused(model_of):
    model = model_of(WORDS)
    model.decoder.origin = Origin("file-2", 3, 10)
    for change, message in [
        (lambda extra: extra["settings"].update(highway_layers=2), "--highway-layers 1 .checkpoint: 2."),
        (lambda extra: extra.update(version=OPTIONS_VERSION + 1), f"version {OPTIONS_VERSION + 1}, newer than"),
        (lambda extra: extra.update(lexicon="wordnet-1"), "come from another lexicon .file-2. than the checkpoint's .wordnet-1."),
        (lambda extra: extra.update(lexicon=f"wordnet-{'0a' * 8}-r3-d10"), "tables DATA --lexicon-path wordnet_nouns_first; or"),
    ]:
        state = model.state_dict()
        saved = unpack(state["decoder._extra_state"])
        change(saved)
        for form in (pack(saved), saved):  # as it is saved, and as it was once
            with pytest.raises(OptionError, match=message):
                model.load_state_dict({**state, "decoder._extra_state": form})
    state = {key: value for key, value in model.state_dict().items() if not key.endswith("_extra_state")}
    model.load_state_dict(state, strict=True)


@pytest.mark.parametrize("bins", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_checkpoints_average(model_of, head, bins):
    options = {"adaptive_scoring": "bins"} if bins else {}
    states = [model_of(WORDS, head, init_range=limit, **options).state_dict() for limit in (0.1, 0.2, 0.3)]
    mean = {name: sum(state[name] for state in states) / 3 for name in states[0]}
    model = model_of(WORDS[::-1] + ["new"], head, **options)
    model.load_state_dict(mean)
    expected = model_of(WORDS, head, init_range=0.2, **options)
    words = [expected.decoder.dictionary.index(word) for word in WORDS]
    places = [model.decoder.dictionary.index(word) for word in WORDS]
    for found, matrix in zip(model.decoder.matrices(), expected.decoder.matrices(), strict=True):
        torch.testing.assert_close(found[places], matrix[words], rtol=1e-5, atol=1e-6)


@pytest.fixture
def made_of(model_of, tmp_path):
    """Return a function from lines of a glossary, words and limits to a model that has its tables."""

    def build(lines, words=WORDS, **limits):
        path = tmp_path / "glossary.tsv"
        path.write_text(lines)
        model = model_of(words)
        tables = build_tables(model.decoder.dictionary.symbols, FileLexicon(path), **limits)
        model.decoder.origin, model.decoder.made = tables.origin, tables.word_digests()
        return model

    return build


def test_entries_of_other_words_change_nothing(made_of, caplog):
    state = made_of("cat\tlion\ta small animal\n").state_dict()
    for lines in ("cat\tlion\ta small animal\nape\tcat\tno cat\n", "ape\tcat\tno cat\n\ncat\tlion\tA  small (animal)\n"):
        caplog.clear()
        made_of(lines, [*WORDS, "ape"]).load_state_dict(state)
        assert "which has the same on all words of training" in caplog.text and "from another lexicon (file-" in caplog.text
    made_of("cat\tlion\ta small animal\n", max_definition=3).load_state_dict(state)
    for lines, words in (
        ("cat\tlion\ta large animal\n", WORDS),
        ("cat\tlion swim\ta small animal\n", WORDS),
        ("cat\tlion\ta small animal\nswim\tcat\t\n", WORDS),  # a word of training that had no entry
        ("ape\t\t\ncat\tlion\ta small animal\n", WORDS[1:] + WORDS[:1]),  # another dictionary: nobody knows
        ("ape\t\t\ncat\tlion\ta small animal\n", WORDS[:-1]),
    ):
        model = made_of(lines, words)
        with pytest.raises(OptionError, match="words of training may be made of something else. Rebuild .* give --any-lexicon"):
            model.load_state_dict(state)
        model.decoder.any_lexicon = True
        model.load_state_dict(state)


def test_a_checkpoint_that_does_not_say_what_its_words_are_made_of(made_of):
    state = made_of("cat\tlion\ta small animal\n").state_dict()
    key = next(key for key in state if key.endswith("_extra_state"))
    saved = unpack(state[key])
    state[key] = {name: value for name, value in saved.items() if name != "made"}  # as version 0.1.0 wrote it
    made_of("cat\tlion\ta small animal\n").load_state_dict(state)
    with pytest.raises(OptionError, match="come from another lexicon"):
        made_of("cat\tlion\ta small animal\nape\tcat\tno cat\n", [*WORDS, "ape"]).load_state_dict(state)


def test_dropout_alone_may_differ_from_the_checkpoints(model_of, monkeypatch):
    monkeypatch.setitem(HEADS.options, "their_dropout", Option(0.1, "", "dropout"))
    monkeypatch.setitem(HEADS.options, "their_rank", Option(4, "", "count"))
    saved, other = model_of(WORDS), model_of(WORDS)
    saved.decoder.settings.update(their_dropout=0.1, their_rank=4, of_earlier=1)
    other.decoder.settings.update(their_dropout=0.2, their_rank=4, output_dropout=0.3, of_earlier=1)
    other.load_state_dict(saved.state_dict())
    other.decoder.settings["their_rank"] = 5
    with pytest.raises(OptionError, match=r"checkpoint's: --their-rank 5 \(checkpoint: 4\)\. Give"):
        other.load_state_dict(saved.state_dict())
