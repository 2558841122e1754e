import os
import pickle
import shutil
import zlib

import numpy as np
import pytest
import torch
from fairseq.data import indexed_dataset

from fairseq_groc.contexts.schema import Contexts
from fairseq_groc.data.fingerprint import note_folder
from fairseq_groc.data.stream_dataset import LinesForInference, StreamDataset, count_occurrences, open_text, text_of
from fairseq_groc.errors import DataError, OptionError

PAD, EOS = 1, 2


@pytest.fixture
def make(dictionary):
    return lambda lines, independent=False: StreamDataset(lines, "test", dictionary, independent)


def batches(dataset, plans):
    return [dataset.collater([dataset[plan]]) for plan in plans]


def test_by_hand(make, as_lines):
    dataset = make(as_lines([10, 11, 2], [12, 2], [13, 14, 15, 2]))
    (first, second) = batches(dataset, dataset.plan(1, 2, 1, 3))
    assert first["net_input"]["src_tokens"].tolist() == [[EOS, 10, 11], [EOS, 2, 13]]
    assert first["target"].tolist() == [[10, 11, 2], [2, 13, 14]]
    assert second["net_input"]["src_tokens"].tolist() == [[2, PAD], [14, 15]]  # the previous token across blocks
    assert second["target"].tolist() == [[12, PAD], [15, 2]]
    assert (first["ntokens"], second["ntokens"]) == (6, 3)
    assert second["net_input"]["src_lengths"].tolist() == [1, 2] and first["nsentences"] == 2


def test_independent_lines_by_hand(make, as_lines):
    dataset = make(as_lines([10, 11, 2], [12, 2], [13, 14, 15, 2]), independent=True)
    first, second = batches(dataset, dataset.plan(1, 2, 1, 35))
    assert first["net_input"]["src_tokens"].tolist() == [[EOS, 13, 14, 15], [EOS, 10, 11, PAD]]  # longest first
    assert first["target"].tolist() == [[13, 14, 15, 2], [10, 11, 2, PAD]]
    assert second["net_input"]["src_tokens"].tolist() == [[EOS, 12]]
    assert second["target"].tolist() == [[12, 2]] and second["ntokens"] == 2
    assert first["id"].tolist() == [2, 0] and second["id"].tolist() == [1]  # the lines' numbers


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("block", [1, 7, 35])
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("vary", [False, True])
def test_every_token_is_a_target_once_after_its_predecessor(make, lines_of, streams, block, shards, independent, vary):
    lines = lines_of(5, 1, 17, 1, 1, 60, 3, 2)
    text = torch.cat(list(lines)).tolist()
    dataset = make(lines, independent)
    plans = dataset.plan(1, streams, shards, block, vary=vary, shuffle=vary and independent)
    assert len(plans) % shards == 0
    seen = [0] * len(text)
    for plan, batch in zip(plans, batches(dataset, plans), strict=True):
        source, target = batch["net_input"]["src_tokens"].tolist(), batch["target"].tolist()
        assert len(source) == len(target) == streams and batch["net_input"]["block"] is plan.block
        for inputs, outputs, (begin, end), start in zip(source, target, plan.rows, plan.streams, strict=True):
            rest = [PAD] * (plan.block.end - plan.block.begin - (end - begin))  # padding on the right only
            assert outputs == text[begin:end] + rest
            assert inputs == [EOS if i == start else text[i - 1] for i in range(begin, end)] + rest
            for i in range(begin, end):
                seen[i] += 1
        assert batch["ntokens"] == sum(end - begin for begin, end in plan.rows)
        assert batch["net_input"]["src_lengths"].tolist() == [end - begin for begin, end in plan.rows]
    assert seen == [1] * len(text)


def test_more_streams_than_tokens(make, as_lines):
    dataset = make(as_lines([10, 2]))
    (batch,) = batches(dataset, dataset.plan(1, 5, 1, 35))
    assert batch["ntokens"] == 2 and sorted(batch["target"].flatten().tolist()) == [1, 1, 1, 2, 10]


def test_tokens_is_a_slice_of_the_text(make, lines_of):
    lines = lines_of(3, 1, 1, 5, 2)
    dataset, text = make(lines), torch.cat(list(lines)).tolist()
    assert dataset.num_tokens_total == len(text) == 12
    for begin in range(12):
        for end in range(begin, 13):
            assert dataset.tokens(begin, end).tolist() == text[begin:end]


def test_the_order_of_lines_is_drawn_from_seed_and_epoch(make, lines_of):
    dataset = make(lines_of(*[3] * 50), independent=True)
    plan = lambda epoch, seed: [p.rows for p in dataset.plan(epoch, 4, 1, 35, shuffle=True, seed=seed)]  # noqa: E731
    assert plan(1, 1) == plan(1, 1)
    assert plan(1, 1) != plan(2, 1) and plan(1, 1) != plan(1, 2)


def test_batches_say_their_block_for_what_remembers(make, as_lines):
    dataset = make(as_lines([10, 2]))
    plan = dataset.plan(1, 1, 1, 35)[0]
    assert dataset[plan]["net_input"]["block"] is plan.block


@pytest.mark.parametrize("special, name", [(0, "<s>"), (1, "<pad>")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_special_symbol_in_the_text_is_refused(make, as_lines, special, name, place):
    line = [5, 6, 7, 2]
    line[place] = special
    with pytest.raises(DataError, match=f"split 'test' contains the special symbol '{name}' as a word.*Remove it"):
        make(as_lines(line))


def test_an_end_of_line_within_a_line_is_refused(as_lines, dictionary):
    with pytest.raises(DataError, match="split 'valid', line 2: contains </s> as a word"):
        StreamDataset(as_lines([4, 5, 2], [4, 2, 5, 2]), "valid", dictionary, False)


def test_unknown_words_are_targets_as_any(make, as_lines):
    dataset = make(as_lines([3, 2]))
    (batch,) = batches(dataset, dataset.plan(1, 1, 1, 35))
    assert batch["target"].tolist() == [[3, 2]]


@pytest.fixture
def contexts():
    """Of three lines, the first and the last have the same one."""
    return Contexts(np.array([[7], [8]]), np.array([[-122.4194155], [np.nan]]), np.array([1, 0, 1]))


def lines_said(batch):
    """Return the category that each row, or each position, is said to have."""
    context = batch["net_input"]["context"]
    assert {name: part.dtype for name, part in context.items()} == {
        "categories": torch.int64,
        "numbers": torch.float64,
        "index": torch.int64,
    }
    return context["categories"][context["index"], 0].tolist()


def test_the_context_of_a_position_is_that_of_its_targets_line(dictionary, as_lines, contexts):
    """``</s>`` is of the line that it ends, what follows it of the next one."""
    dataset = StreamDataset(as_lines([10, 11, 2], [12, 2], [13, 14, 15, 2]), "test", dictionary, False, contexts)
    (first, second) = batches(dataset, dataset.plan(1, 2, 1, 3))
    assert first["target"].tolist() == [[10, 11, 2], [2, 13, 14]]
    assert lines_said(first) == [[8, 8, 8], [7, 8, 8]]
    assert second["target"].tolist() == [[12, PAD], [15, 2]]
    (seven, padding), last = lines_said(second)
    assert seven == 7 and last == [8, 8] and padding in (7, 8)
    assert torch.equal(second["net_input"]["context"]["numbers"][0], torch.tensor([-122.4194155], dtype=torch.float64))


def test_the_context_of_an_independent_line(dictionary, as_lines, contexts):
    dataset = StreamDataset(as_lines([10, 11, 2], [12, 2], [13, 14, 15, 2]), "test", dictionary, True, contexts)
    first, second = batches(dataset, dataset.plan(1, 2, 1, 35))
    assert first["id"].tolist() == [2, 0] and lines_said(first) == [8, 8]
    assert len(first["net_input"]["context"]["categories"]) == 1  # it is the same, and sent once
    assert second["id"].tolist() == [1] and lines_said(second) == [7]
    *_, empty = batches(dataset, dataset.plan(1, 2, 2, 35))  # long lines are in several batches
    assert [lines_said(b) for b in batches(dataset, dataset.plan(1, 2, 1, 2))] == [[8, 8], [8, 8], [7]]
    assert len(lines_said(empty)) == len(empty["target"])


@pytest.mark.parametrize("streams", [1, 2, 4, 40])
@pytest.mark.parametrize("block", [1, 7, 35])
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("independent", [False, True])
def test_every_target_has_the_context_of_its_line(dictionary, lines_of, streams, block, shards, independent):
    sizes = (5, 1, 17, 1, 1, 30, 3, 2)
    lines, index = lines_of(*sizes), np.array([3, 0, 1, 3, 2, 0, 2, 1])
    contexts = Contexts(np.array([[10], [11], [12], [13]]), np.zeros((4, 0)), index)
    dataset = StreamDataset(lines, "test", dictionary, independent, contexts)
    of_token = np.repeat(contexts.categories[index, 0], sizes)
    for plan, batch in zip(plans := dataset.plan(1, streams, shards, block), batches(dataset, plans), strict=True):
        context = batch["net_input"]["context"]
        distinct = context["categories"][:, 0].tolist()
        assert len(set(distinct)) == len(distinct)
        for row, (begin, end) in enumerate(plan.rows):
            said = context["index"][row].expand(end - begin) if independent else context["index"][row, : end - begin]
            assert [distinct[i] for i in said] == of_token[begin:end].tolist()


def test_contexts_of_more_or_fewer_lines_are_refused(dictionary, contexts):
    with pytest.raises(OptionError, match="3 contexts for 2 lines: expected one for each, or one for all"):
        LinesForInference([torch.tensor([4, 2])] * 2, dictionary, contexts)


def test_contexts_of_lines_for_inference(dictionary, contexts):
    lines = [torch.tensor([10, 11, 2]), torch.tensor([2]), torch.tensor([12, 2])]
    dataset = LinesForInference(lines, dictionary, contexts)
    assert lines_said(dataset.collater([dataset[i] for i in (2, 1)])) == [8, 7]
    dataset = LinesForInference(lines, dictionary, contexts._replace(index=np.array([1])))
    assert lines_said(dataset.collater([dataset[i] for i in (2, 1)])) == [8, 8]
    assert "context" not in LinesForInference(lines, dictionary).collater([dataset[0]])["net_input"]


def test_data_that_is_missing_or_empty_is_refused(dictionary, tmp_path):
    with pytest.raises(DataError, match=r"train\.bin or .*train\.idx not found\. Preprocess the split"):
        open_text(tmp_path / "train")
    for kind in ("bin", "idx"):
        (tmp_path / f"train.{kind}").touch()
    with pytest.raises(DataError, match=r"train\.bin holds no text\. Was the raw file empty"):
        open_text(tmp_path / "train")


@pytest.fixture
def binarised(tmp_path):
    """A prefix with three lines of text below it."""
    builder = indexed_dataset.make_builder(str(tmp_path / "test.bin"), impl="mmap", vocab_size=400)
    for line in ([4, 5, 2], [2], [6, 2]):
        builder.add_item(torch.tensor(line))
    builder.finalize(str(tmp_path / "test.idx"))
    return tmp_path / "test"


def test_binarised_text_is_opened_alone_or_with_its_other_parts(binarised, dictionary):
    assert [line.tolist() for line in open_text(binarised)] == [[4, 5, 2], [2], [6, 2]]
    for kind in (".bin", ".idx"):
        shutil.copy(f"{binarised}{kind}", f"{binarised}1{kind}")
    assert len(open_text(binarised, combine=True)) == 6
    for combine in (False, True):  # the tokens outlive the lines, with which fairseq unmaps its own
        text = text_of(open_text(binarised, combine))
        assert text.tolist() == [4, 5, 2, 2, 6, 2] * (1 + combine)
    dataset = StreamDataset(open_text(binarised), "test", dictionary, False)
    kept = pickle.loads(pickle.dumps(dataset))  # as for a worker that is begun anew
    assert dataset.__getstate__()["text"] is None and torch.equal(kept.tokens(0, 6), dataset.tokens(0, 6))
    with open(f"{binarised}1.bin", "wb"):
        pass
    with pytest.raises(DataError, match=r"test1\.bin holds no text"):
        open_text(binarised, combine=True)
    with open(f"{binarised}1.bin", "ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="test1.bin is not the text of"):
        open_text(binarised, combine=True)


@pytest.mark.parametrize(
    "kind, place, raw, message",
    [
        (".bin", 5, None, "test.bin is not the text of .*test.idx, or is cut"),
        (".idx", 5, None, "test.idx is cut or garbled"),
        (".idx", 24, None, "test.idx is cut or garbled"),
        (".idx", 60, None, "test.idx is cut or garbled"),
        (".idx", 0, b"X", "test.idx is cut or garbled"),  # name
        (".idx", 0, b"TNTIDX", "test.idx is of an older form than mmap"),
        (".idx", 9, b"\2", "test.idx is cut or garbled"),  # version
        (".idx", 17, b"\7", "test.idx is cut or garbled"),  # type: floats
        (".idx", 17, b"\4", "test.idx is cut or garbled"),  # type: another size
        (".idx", 20, b"\1", "test.idx is cut or garbled"),  # number of lines
        (".idx", 28, b"\xff", "test.idx is cut or garbled"),  # size of the first line
        (".idx", 38, b"\1", "test.idx is cut or garbled"),  # where the first begins
        (".idx", 46, b"\1", "test.idx is cut or garbled"),  # where the second begins
    ],
)
def test_damaged_text_is_refused_by_its_name(binarised, dictionary, kind, place, raw, message):
    path = binarised.with_suffix(kind)
    content = path.read_bytes()
    path.write_bytes(content[:place] if raw is None else content[:place] + raw + content[place + 1 :])
    with pytest.raises(DataError, match=f"^{path.parent}/{message}.* Binarise (it|the text) again: scripts/preprocess.sh"):
        open_text(binarised)


def test_a_folder_in_the_place_of_an_index_is_refused_by_its_name(binarised, dictionary):
    index = binarised.with_suffix(".idx")
    index.unlink()
    index.mkdir()
    with pytest.raises(DataError, match=f"^{index}: Is a directory"):
        open_text(binarised)


@pytest.mark.parametrize("kind, place", [(".bin", 4), (".idx", 9 + 8 + 1 + 8 + 12 + 1)])
def test_a_text_that_is_not_the_one_noted_is_refused(binarised, dictionary, kind, place):
    open_text(binarised)  # of version 0.1.0, or of fairseq-preprocess: nothing is noted
    note_folder(binarised.parent, dictionary.symbols, None)
    assert len(open_text(binarised)) == 3
    path = binarised.with_suffix(kind)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, (1, 1))  # clocks of files may be slow
    with pytest.raises(DataError, match="test.*(is not as it was binarised|is cut or garbled).* again: scripts/preprocess.sh"):
        open_text(binarised)


def test_a_text_is_read_for_its_checksum_once(binarised, dictionary, monkeypatch):
    read = []
    monkeypatch.setattr(zlib, "crc32", lambda piece, crc, of=zlib.crc32: read.append(len(piece)) or of(piece, crc))
    note_folder(binarised.parent, dictionary.symbols, None)
    for _ in range(2):
        open_text(binarised)
    assert len(read) == 2  # the index and the text


def test_lines_for_inference_begin_and_end_with_the_end_of_line(dictionary):
    dataset = LinesForInference([torch.tensor([10, 11, 2]), torch.tensor([2]), torch.tensor([12, 2])], dictionary)
    batch = dataset.collater([dataset[i] for i in (0, 1, 2)])
    assert batch["net_input"]["src_tokens"].tolist() == [[EOS, 10, 11], [EOS, PAD, PAD], [EOS, 12, PAD]]
    assert batch["target"].tolist() == [[10, 11, 2], [2, PAD, PAD], [12, 2, PAD]]
    assert batch["net_input"]["src_lengths"].tolist() == [3, 1, 2]
    assert batch["ntokens"] == 6 and batch["id"].tolist() == [0, 1, 2]
    cut = dataset.collater([{"id": 0, "tokens": torch.tensor([10, 11])}])
    assert cut["net_input"]["src_tokens"].tolist() == [[EOS, 10]] and cut["target"].tolist() == [[10, 11]]


def test_blocks_are_shuffled_anew_in_each_epoch(make, as_lines):
    text = as_lines([*range(10, 60), 2])
    ordered = make(text).plan(3, 2, 1, 5, seed=1)
    shuffled, again = (make(text).plan(3, 2, 1, 5, shuffle=True, seed=1) for _ in range(2))
    assert shuffled == again != ordered and sorted(shuffled, key=lambda plan: plan.block.begin) == ordered
    assert shuffled != make(text).plan(4, 2, 1, 5, shuffle=True, seed=1)


def test_occurrences_are_counted():
    assert count_occurrences([torch.tensor([3, 1]), torch.tensor([3, 0])], 5).tolist() == [1, 1, 0, 2, 0]
