import json

import numpy as np
import pytest

from fairseq_groc.data.fingerprint import check_dictionary, known_words, load_dictionary, note_folder, trained_words
from fairseq_groc.errors import DataError

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "dog"]


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


@pytest.mark.parametrize(
    "note",
    ["", "{", "[]", "3", "null", '{"trained": "all"}', '{"trained": [2, 3.5]}', '{"trained": [2]}', '{"trained": [-1, 3]}']
    + ['{"texts": 3}', '{"texts": {"train": "x"}}', '{"texts": {"train": true}}']
    + ['{"trained": [4, 2]}', '{"trained": [2, 2]}', '{"trained": [2, 8]}', '{"trained": {}}', '{"dictionary": 3}', "[" * 10**5],
)
def test_a_note_with_anything_else_in_it_is_refused(tmp_path, note):
    (tmp_path / "binarised.json").write_text(note)
    with pytest.raises(DataError, match="binarised.json is not readable. Binarise the text again"):
        trained_words(tmp_path, len(WORDS))


def test_a_note_that_is_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "binarised.json").symlink_to(tmp_path / "none")
    with pytest.raises(DataError, match="binarised.json is not readable"):
        check_dictionary(tmp_path, WORDS)


def test_a_note_says_which_words_are_known(tmp_path):
    mask = np.array([False, False, True, False, True, False, True])
    note_folder(tmp_path, WORDS, mask)
    assert json.loads((tmp_path / "binarised.json").read_text())["trained"] == [2, 3, 4, 5, 6, 7]
    check_dictionary(tmp_path, WORDS)
    assert trained_words(tmp_path, len(WORDS)).tolist() == mask.tolist()
    assert known_words(tmp_path, WORDS) == {"</s>", "the", "dog"}
    note_folder(tmp_path, WORDS, None)
    assert trained_words(tmp_path, len(WORDS)) is None and known_words(tmp_path, WORDS) == set(WORDS)
