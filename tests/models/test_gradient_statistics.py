"""Sizes of gradients against brute force, in files, and by word in other dictionaries."""

import math

import pytest
import torch
from dynamics import PAD, WORDS, random_statistics

from fairseq_groc.adapters.statistics import load_statistics, path_of, save_statistics
from fairseq_groc.data.stream_dataset import StreamDataset
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.evaluation.gradients import mean_squares, statistics_of
from fairseq_groc.evaluation.scoring import Place


@pytest.mark.parametrize("choice", ["all", "encoder", "features"])
@pytest.mark.parametrize("head", ["tied", "compositional_output"])
def test_statistics_are_the_root_mean_squares_of_gradients(model_of, batches, text, head, choice):
    rates = {"weight_dropout": 0.5, "embedding_dropout": 0.5, "dropout_in": 0.5, "output_dropout": 0.5}  # off
    model = model_of(WORDS, head, init_range=0.3, encoder="awd_lstm", **rates).double().eval()
    dataset = StreamDataset(text, "text", model.decoder.dictionary, independent_lines=False)
    leaves = model.decoder.leaves(choice)
    found = statistics_of(mean_squares(model, leaves, dataset, Place(2, 4), most=3))
    squares = []
    for sample in batches(model, text, streams=2, block=4)[:3]:
        with torch.enable_grad(), leaves.acting():
            lprobs = torch.log_softmax(model(**sample["net_input"])[0], -1)
        lprobs = lprobs.gather(2, sample["target"].unsqueeze(2))[..., 0][sample["target"] != PAD]
        slopes = torch.autograd.grad(-lprobs.mean(), list(leaves.tensors.values()))
        squares.append([slope.square() for slope in slopes])
    assert len(squares) == 3
    expected = [torch.stack(of).mean(0).sqrt() for of in zip(*squares, strict=True)]
    for one, other in zip(found.rms.values(), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-14)
    assert found.mean == pytest.approx(sum(float(one.mean()) for one in expected) / len(expected))


def test_statistics_move_by_word(model_of, tmp_path):
    model = model_of(WORDS, "tied")
    leaves = model.decoder.leaves("all")
    statistics = random_statistics(leaves)
    digest = model.decoder.rowless_fingerprint()
    save_statistics(path_of(tmp_path, digest, "all"), digest, statistics, model.decoder, leaves.rows)
    assert all(
        torch.equal(one, statistics.rms[name]) for name, one in load_statistics(tmp_path, model.decoder, "all").rms.items()
    )
    other = model_of([*WORDS[::-1], "new"], "tied")
    state = {name: one for name, one in model.state_dict().items() if "words" not in name}
    other.load_state_dict(state, strict=False)
    moved = load_statistics(tmp_path, other.decoder, "all")
    assert moved.mean == statistics.mean
    for name in ("words.embedding.weight", "words.head.bias.weight"):
        before, after = statistics.rms[name], moved.rms[name]
        assert torch.equal(after[:4], before[:4]) and torch.equal(after[4:12], before[4:].flip(0))
        torch.testing.assert_close(after[12], before.mean(0))
    name = "encoder.layers.0.weight_hh_l0"
    assert torch.equal(moved.rms[name], statistics.rms[name])


def test_statistics_belong_to_their_model(model_of, tmp_path):
    model = model_of(WORDS, "tied")
    leaves = model.decoder.leaves("all")
    with pytest.raises(OptionError, match="has no gradient statistics of this model.*--dynamic-parameters all"):
        load_statistics(tmp_path, model.decoder, "all")
    digest = model.decoder.rowless_fingerprint()
    path = path_of(tmp_path, digest, "all")
    save_statistics(path, digest, random_statistics(leaves), model.decoder, leaves.rows)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        load_statistics(tmp_path, model.decoder, "all")
    path.write_bytes(whole)
    with torch.no_grad():
        next(model.decoder.encoder.parameters())[0] += 1
    with pytest.raises(OptionError, match="no gradient statistics of this model"):
        load_statistics(tmp_path, model.decoder, "all")
    path.rename(path_of(tmp_path, model.decoder.rowless_fingerprint(), "all"))
    with pytest.raises(DataError, match="another format or model"):
        load_statistics(tmp_path, model.decoder, "all")


def test_gradients_that_are_nothing_are_refused():
    with pytest.raises(DataError, match="mean size of gradients is 0"):
        statistics_of({"a": torch.zeros(3)})
    with pytest.raises(DataError, match="mean size of gradients is nan"):
        statistics_of({"a": torch.full((3,), math.nan)})
