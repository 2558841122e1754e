import json

import numpy as np
import pytest

from fairseq_groc.data.fingerprint import check_dictionary, known_words, note_folder, noted_cleaning, trained_words
from fairseq_groc.errors import DataError

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "the", "cat", "dog"]


@pytest.mark.parametrize(
    "note",
    ["", "{", "[]", "3", "null", '{"trained": "all"}', '{"trained": [2, 3.5]}', '{"trained": [2]}', '{"trained": [-1, 3]}']
    + ['{"texts": 3}', '{"cleaning": "--lower"}', '{"cleaning": [1]}', '{"texts": {"train": "x"}}', '{"texts": {"train": true}}']
    + ['{"trained": [4, 2]}', '{"trained": [2, 2]}', '{"trained": [2, 8]}', '{"trained": {}}', '{"dictionary": 3}', "[" * 10**5],
)
def test_a_note_with_anything_else_in_it_is_refused(tmp_path, note):
    (tmp_path / "binarised.json").write_text(note)
    with pytest.raises(DataError, match="binarised.json is not readable. Binarise the text again"):
        trained_words(tmp_path, len(WORDS))
        noted_cleaning(tmp_path)


def test_a_note_that_is_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "binarised.json").symlink_to(tmp_path / "none")
    with pytest.raises(DataError, match="binarised.json is not readable"):
        check_dictionary(tmp_path, WORDS)


def test_a_note_says_which_words_are_known(tmp_path):
    mask = np.array([False, False, True, False, True, False, True])
    (tmp_path / "dict.txt").write_text("".join(f"{word} 1\n" for word in WORDS[4:]))
    note_folder(tmp_path, WORDS, mask)
    assert json.loads((tmp_path / "binarised.json").read_text())["trained"] == [2, 3, 4, 5, 6, 7]
    check_dictionary(tmp_path, WORDS)
    assert trained_words(tmp_path, len(WORDS)).tolist() == mask.tolist()
    assert known_words(tmp_path) == {"</s>", "the", "dog"}
    note_folder(tmp_path, WORDS, None)
    assert trained_words(tmp_path, len(WORDS)) is None and known_words(tmp_path) == set(WORDS)
