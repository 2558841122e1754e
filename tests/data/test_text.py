import os

import pytest

from fairseq_groc.data.text import checked, cleaner, cleaning, decoded, read_lines
from fairseq_groc.errors import DataError


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "raw.txt is empty"),
        (b"a cat\nd\xffg\n", "raw.txt:2: not UTF-8"),
        (b"a cat\n\nthe <pad> end\n", "raw.txt:3: contains <pad>, which fairseq reserves"),
        (b"a <s>\n", "raw.txt:1: contains <s>"),
        (b"a </s> b\n", "raw.txt:1: contains </s>"),
        (b"a\nmadeupword0001 b\n", "raw.txt:2: contains madeupword0001, which fairseq reserves"),
        (b"a\nb\x00\x00 c\n", "raw.txt:2: has a NUL character"),
    ],
)
def test_bad_text_is_refused_with_its_place(tmp_path, content, message):
    raw = tmp_path / "raw.txt"
    raw.write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(checked(read_lines(raw), str(raw)))
    with pytest.raises(DataError, match="none.txt: no such file"):
        list(read_lines(tmp_path / "none.txt"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe: no regular file: save it first"):
        list(read_lines(tmp_path / "pipe"))


def test_what_only_looks_reserved_is_text():
    lines = [b"<unk> <S> x</s> madeupword madeupword00010\n"]
    assert list(checked(decoded(lines, "-"), "-")) == ["<unk> <S> x</s> madeupword madeupword00010"]


def test_a_byte_order_mark_at_the_head_is_left_out_and_noted(caplog):
    lines = list(decoded([b"\xef\xbb\xbfthe\r\n", b"\xef\xbb\xbfend\n"], "-"))
    assert lines == ["the", "end"] and "- begins with a byte-order mark" in caplog.text


def test_lines_are_cleaned(caplog):
    assert cleaner(None, False)(" A\u2028b\x85 C\u00a0") == "A b C"
    assert cleaner("en", True)("Don't, <b> & so.") == cleaner("english", True)("Don't, <b> & so.") == "don 't , < b > & so ."
    assert cleaner("EN-US", True)("a <unk>, <UNK>'ll be.") == "a <unk> , <unk> 'll be ."
    assert cleaning("EN-US", True) == cleaning("english", True) == ["--tokenize en", "--lower"] and cleaning(None, False) == []
    assert caplog.text == "" and cleaner("eng", False)("so.") == cleaner("eng", False)("so.") == "so ."
    assert caplog.text.count("--tokenize eng: sacremoses has no abbreviations of this language") == 1


def test_carriage_returns_within_lines_are_noted_once(caplog):
    assert list(decoded([b"a\rb\r\n", b"c\rd\n"], "raw.txt")) == ["a\rb", "c\rd"]
    assert caplog.text.count("raw.txt:1: carriage returns within a line are blanks") == 1 and "raw.txt:2" not in caplog.text
