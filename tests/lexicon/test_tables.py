import json
import os
import signal
import stat

import numpy as np
import pytest

from fairseq_groc.errors import TablesError
from fairseq_groc.lexicon import NoLexicon
from fairseq_groc.lexicon.tables import _DTYPES, FOLDER, FORMAT, build_tables, load_tables, save_tables

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "cat", "dog", "zzz"]
REMEDY = "Rebuild them: python -m fairseq_groc tables"


@pytest.fixture
def tables(lexicon):
    return build_tables(WORDS, lexicon, lambda index: index >= 4, max_definition=3)


@pytest.fixture
def saved(tables, tmp_path):
    save_tables(tmp_path, tables, WORDS)
    return tmp_path


def same(one, other):
    return one.lexicon == other.lexicon and all(np.array_equal(getattr(one, n), getattr(other, n)) for n in _DTYPES)


def test_by_hand(tables, lexicon):
    forms = [form.decode() for form in tables.forms()]
    assert forms == WORDS + ["feline", "kitty", "a", "small", "domesticated", "hound", "animal"]
    assert tables.relation_offsets.tolist() == [0, 0, 0, 0, 0, 2, 3, 3]
    assert tables.relations.tolist() == [7, 8, 12]  # cat: feline, kitty; dog: hound
    assert tables.definition_offsets.tolist() == [0, 0, 0, 0, 0, 3, 6, 6]
    assert tables.definitions.tolist() == [9, 10, 11, 9, 11, 13]  # a small domesticated; a domesticated animal
    assert (tables.num_words, tables.num_forms) == (7, 14)
    assert tables.coverage() == {"relations": 2, "definitions": 2}
    assert tables.lexicon == lexicon.fingerprint() + "-r3-d3"


def test_forms_of_the_dictionary_are_shared(lexicon):
    tables = build_tables(["kitty", "cat"], lexicon, max_definition=0)
    assert tables.relations.tolist() == [1, 2, 0]  # kitty: cat; cat: feline, kitty
    assert tables.forms()[:3] == [b"kitty", b"cat", b"feline"]


def test_forms_are_utf8_and_undecodable_bytes_survive():
    words = ["naïve", "\N{GRINNING FACE}", b"d\xffg".decode("utf-8", "surrogateescape"), ""]
    tables = build_tables(words, NoLexicon())
    assert tables.forms() == ["naïve".encode(), "\N{GRINNING FACE}".encode(), b"d\xffg", b""]


def test_every_word_has_its_own_form_even_if_the_dictionary_repeats_one(lexicon):
    words = ["cat", "cat", "dog"]  # fairseq allows it in a dict.txt with #fairseq:overwrite
    assert build_tables(words, lexicon).forms()[:3] == [b"cat", b"cat", b"dog"]


def test_words_that_are_none_are_never_looked_up(lexicon):
    tables = build_tables(["cat", "dog"], lexicon, lambda index: index == 1)
    assert np.diff(tables.relation_offsets).tolist() == [0, 1]


def test_a_round_trip(tables, saved):
    loaded = load_tables(saved, WORDS)
    assert same(loaded, tables)
    assert {n: getattr(loaded, n).dtype for n in _DTYPES} == {n: np.dtype(d) for n, d in _DTYPES.items()}
    assert os.listdir(saved) == [FOLDER]


def test_a_round_trip_of_empty_arrays(tmp_path):
    tables = build_tables(["a"], NoLexicon())
    save_tables(tmp_path, tables, ["a"])
    assert same(load_tables(tmp_path, ["a"]), tables)


def test_saving_again_replaces(saved, lexicon):
    other = build_tables(WORDS[:6], lexicon)
    save_tables(saved, other, WORDS[:6])
    assert same(load_tables(saved, WORDS[:6]), other) and os.listdir(saved) == [FOLDER]


def test_whoever_may_read_the_data_may_read_the_tables(saved):
    plain = saved / "plain"
    plain.mkdir()
    assert stat.S_IMODE((saved / FOLDER).stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_missing_tables_name_the_command(tmp_path):
    with pytest.raises(TablesError, match=f"{FOLDER}: no lexicon tables. {REMEDY} {tmp_path}"):
        load_tables(tmp_path, WORDS)


@pytest.mark.parametrize("words", [WORDS[:-1] + ["yyy"], WORDS[::-1], WORDS[:-1], WORDS + ["new"]])
def test_another_dictionary_is_refused(saved, words):
    with pytest.raises(TablesError, match=f"made for another dictionary than .*dict.txt. {REMEDY} {saved}"):
        load_tables(saved, words)


@pytest.mark.parametrize("number", [0, FORMAT + 1, None, "1"])
def test_another_format_is_refused(saved, number):
    path = saved / FOLDER / "header.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number}))
    with pytest.raises(TablesError, match=f"tables of format {number}, expected {FORMAT}. {REMEDY} {saved}"):
        load_tables(saved, WORDS)


@pytest.mark.parametrize("header", [b"", b"{", b"\xff\xfe", b"[]", b"3"])
def test_a_corrupt_header_is_refused(saved, header):
    (saved / FOLDER / "header.json").write_bytes(header)
    with pytest.raises(TablesError, match=f"{REMEDY} {saved}"):
        load_tables(saved, WORDS)


def test_a_header_that_lacks_the_lexicon_is_refused(saved):
    path = saved / FOLDER / "header.json"
    header = json.loads(path.read_text())
    del header["lexicon"]
    path.write_text(json.dumps(header))
    with pytest.raises(TablesError, match=f"{REMEDY} {saved}"):
        load_tables(saved, WORDS)


@pytest.mark.parametrize("length", [None, 0, 5, 130])
def test_a_missing_or_cut_array_is_refused(saved, length):
    path = saved / FOLDER / "relations.npy"
    content = path.read_bytes()
    path.unlink()
    if length is not None:
        path.write_bytes(content[:length])
    with pytest.raises(TablesError, match=f"{REMEDY} {saved}"):
        load_tables(saved, WORDS)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_a_save_that_dies_leaves_nothing_half_written(tables, tmp_path, monkeypatch, lexicon, error):
    monkeypatch.setattr(np, "save", dying(np.save, error))
    with pytest.raises(error if isinstance(error, type) else type(error)):
        save_tables(tmp_path, tables, WORDS)
    assert os.listdir(tmp_path) == []
    with pytest.raises(TablesError, match="no lexicon tables"):
        load_tables(tmp_path, WORDS)
    monkeypatch.undo()
    save_tables(tmp_path, tables, WORDS)
    monkeypatch.setattr(np, "save", dying(np.save, error))
    with pytest.raises(error if isinstance(error, type) else type(error)):
        save_tables(tmp_path, build_tables(WORDS[:5], lexicon), WORDS[:5])
    assert os.listdir(tmp_path) == [FOLDER] and same(load_tables(tmp_path, WORDS), tables)


@pytest.mark.parametrize("moment", ["save", "rename"])
@pytest.mark.parametrize("before", [False, True])
def test_a_killed_save_is_never_trusted(tables, tmp_path, lexicon, moment, before):
    """Killed for good, so that nothing can clean up: the old tables or none, and the next save works."""
    if before:
        save_tables(tmp_path, build_tables(WORDS[:5], lexicon), WORDS[:5])
    child = os.fork()
    if child == 0:
        try:
            kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
            if moment == "save":
                np.save = dying(np.save, kill)
            else:
                os.rename = kill
            save_tables(tmp_path, tables, WORDS)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(TablesError, match=REMEDY):
        load_tables(tmp_path, WORDS)
    if before and moment == "save":
        load_tables(tmp_path, WORDS[:5])
    save_tables(tmp_path, tables, WORDS)
    assert same(load_tables(tmp_path, WORDS), tables)


def dying(save, error):
    calls = []

    def wrapped(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3 and callable(error) and not isinstance(error, type):
            error()
        elif len(calls) == 3:
            raise error
        save(*args, **kwargs)

    return wrapped


def test_the_format_number_goes_with_the_arrays(saved):
    described = {path.stem: np.load(path).dtype.name for path in (saved / FOLDER).glob("*.npy")}
    header = json.loads((saved / FOLDER / "header.json").read_text())
    assert (header["format"], sorted(described.items()), sorted(header)) == (
        1,
        [
            ("definition_offsets", "int64"),
            ("definitions", "int32"),
            ("form_bytes", "uint8"),
            ("form_offsets", "int64"),
            ("relation_offsets", "int64"),
            ("relations", "int32"),
        ],
        ["dictionary", "format", "lexicon"],
    ), "what is stored changed: raise FORMAT, then this test"
