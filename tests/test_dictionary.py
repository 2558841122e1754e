"""What a ``dict.txt`` may be, and which of its entries are words."""

import pytest

from fairseq_groc.dictionary import is_filler, load_dictionary, predictable_words, real_words
from fairseq_groc.errors import DataError

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "sat", "madeupword0000"]


def test_only_words_eos_and_unk_are_predictable():
    assert predictable_words(WORDS) == [False, False, True, True, True, True, True, False]
    assert real_words(WORDS) == [False, False, False, False, True, True, True, False]


@pytest.mark.parametrize(
    "word, filler",
    [
        ("madeupword0000", True),
        ("madeupword0007", True),
        ("madeupword", False),
        ("madeupword12", False),
        ("madeupword00000", False),
        ("madeupwordish", False),
        ("madeupwordabcd", False),
        ("Madeupword0000", False),
        ("xmadeupword0000", False),
        ("", False),
    ],
)
def test_fillers_are_what_fairseq_makes(word, filler):
    assert is_filler(word) is filler


def test_fillers_of_fairseqs_own_dictionary_are_recognised(dictionary):
    dictionary.finalize(padding_factor=64)
    assert len(dictionary) % 64 == 0
    made_up = [word for word in dictionary.symbols if word.startswith("madeupword")]
    assert made_up and all(map(is_filler, made_up))
    assert sum(predictable_words(dictionary.symbols)) == 2 + 400


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no words"),
        (b"madeupword0000 0\nmadeupword0001 0\n", "no words"),
        (b"the -3\n", "'the' has the count -3"),
        (b"hot dog 3\n", "'hot dog' has blanks"),
        ("hot\u00a0dog 3\n".encode(), "has blanks"),
        ("hot\u2028dog 3\n".encode(), "has blanks"),
        (b"the 1\nd\x00g 3\n", r"'d\\x00g' has a NUL character"),
        (b"the 1\n 3\n", "'' has blanks or nothing in it"),
        (b"the 1\nthe 1\n", "Duplicate word found"),
        (b"the 1\nthe 1 #fairseq:overwrite\n", "has 'the' twice"),
        (b"the\n", "Incorrect dictionary format"),
        (b"the 1\nd\xffg 2\n", "can't decode byte 0xff"),
    ],
)
def test_a_dictionary_that_no_text_can_have_is_refused(tmp_path, content, message):
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        load_dictionary(path)
    assert str(error.value).startswith(f"{path}: ") and "Mend the file" in str(error.value)


def test_a_dictionary_is_loaded_as_fairseq_does(tmp_path):
    (tmp_path / "dict.txt").write_bytes(b"\xef\xbb\xbfthe 3\r\ncat 0\n")
    dictionary = load_dictionary(tmp_path / "dict.txt")
    assert dictionary.symbols == WORDS[:6] and dictionary.count[4:] == [3, 0]
