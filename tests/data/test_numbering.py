"""Texts that are read once: equal to fairseq-preprocess's to the byte, in memory that does not grow with them."""

import tracemalloc
from collections import Counter

import pytest
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_groc.data.numbering import Numbering
from fairseq_groc.data.text import cleaner, read_lines
from fairseq_groc.errors import DataError

letters = st.characters(exclude_categories=["Cs"], exclude_characters="\n\0\ufeff") | st.sampled_from("\u2028\x85\x0b\u00a0\r\t ")
words = st.text(letters) | st.sampled_from(["the", "cat", "<unk>", "7 65000"])


@settings(max_examples=10)
@given(lines=st.lists(words, min_size=2, max_size=20), size=st.sampled_from([300, 65_500]))  # tokens of two bytes, and of four
def test_a_text_is_fairseqs_to_the_byte_whatever_its_blanks(tmp_path, lines, size):
    dictionary = Dictionary()
    for word in ["the", "cat", *map(str, range(size))]:
        dictionary.add_symbol(word)
    (tmp_path / "raw").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    clean = list(map(cleaner(None, False), read_lines(tmp_path / "raw")))
    numbering = Numbering(dictionary.eos_word)
    texts = [numbering.write(tmp_path / f"text{i}", some) for i, some in enumerate((clean[1:], clean))]
    for i, text in enumerate(texts):
        numbering.binarise(text, tmp_path / f"ours{i}", dictionary)
    (tmp_path / "clean").write_text("\n".join(clean) + "\n", encoding="utf-8")
    binarizer = VocabularyDatasetBinarizer(dictionary)
    FileBinarizer.multiprocess_dataset(str(tmp_path / "clean"), "mmap", binarizer, str(tmp_path / "theirs"), len(dictionary))
    for ending in ("bin", "idx"):
        assert (tmp_path / f"ours1.{ending}").read_bytes() == (tmp_path / f"theirs.{ending}").read_bytes()
    assert list(texts[1].lengths) == [len(line.split()) + 1 for line in lines]
    assert texts[1].counts == Counter(" ".join(lines).split()) and not list(tmp_path.glob("text*"))


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
