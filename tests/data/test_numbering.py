"""Texts that are read once: equal to fairseq-preprocess's to the byte, in memory that does not grow with them."""

import tracemalloc

import pytest
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from fairseq_groc.data.numbering import Numbering
from fairseq_groc.errors import DataError

LINES = ["the cat sat", "", "a cat <unk> \N{SNOWMAN}", "the the"]


@pytest.mark.parametrize("words", [300, 65_500])  # of which tokens have two bytes, and four
def test_a_text_is_fairseqs_to_the_byte(tmp_path, words):
    dictionary = Dictionary()
    for word in ["the", "cat", *map(str, range(words)), "\N{SNOWMAN}"]:
        dictionary.add_symbol(word)
    numbering = Numbering(dictionary.eos_word)
    texts = [numbering.write(tmp_path / f"text{i}", lines) for i, lines in enumerate((LINES[2:], LINES))]
    for i, text in enumerate(texts):
        numbering.binarise(text, tmp_path / f"ours{i}", dictionary)
    (tmp_path / "raw").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    binarizer = VocabularyDatasetBinarizer(dictionary)
    FileBinarizer.multiprocess_dataset(str(tmp_path / "raw"), "mmap", binarizer, str(tmp_path / "theirs"), len(dictionary))
    for ending in ("bin", "idx"):
        assert (tmp_path / f"ours1.{ending}").read_bytes() == (tmp_path / f"theirs.{ending}").read_bytes()
    assert list(texts[1].lengths) == [4, 1, 5, 3] and texts[1].counts.most_common(2) == [("the", 3), ("cat", 2)]
    assert not list(tmp_path.glob("text*"))


def test_no_line_is_no_text(tmp_path):
    with pytest.raises(DataError, match="the valid text is empty"):
        Numbering("</s>").write(tmp_path / "valid", [])


def test_memory_grows_by_little_more_than_an_index(tmp_path):
    def peak(count):
        tracemalloc.start()
        numbering = Numbering("</s>")
        text = numbering.write(tmp_path / "text", (f"the cat sat {i % 9}" for i in range(count)))
        numbering.binarise(text, tmp_path / "made", Dictionary())
        return [tracemalloc.get_traced_memory()[1], tracemalloc.stop()][0]

    assert peak(100_000) - peak(50_000) < 50_000 * 16  # a line: its length, and where it begins
