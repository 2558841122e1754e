import os
import signal
import stat

import numpy as np
import pytest
import torch

from fairseq_groc import tensor_file
from fairseq_groc.embeddings.vocabulary import GivenLexicon
from fairseq_groc.errors import TablesError
from fairseq_groc.lexicon import Entry, NoLexicon, Relation
from fairseq_groc.lexicon.tables import Origin, build_tables, tables_of_spellings
from fairseq_groc.lexicon.tables_file import ARRAYS, FILE, FOLDER, FORMAT, load_tables, save_tables
from fairseq_groc.tensor_file import open_tensors, save_tensors

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "cat", "dog", "zzz"]
REMEDY = "Rebuild them: python -m fairseq_groc tables"


@pytest.fixture
def tables(lexicon):
    return build_tables(WORDS, lexicon, max_definition=3)


@pytest.fixture
def saved(tables, tmp_path):
    save_tables(tmp_path, tables, WORDS)
    return tmp_path


@pytest.fixture
def rewritten(saved):
    """Return a function that gives the saved file another header, or others of its arrays, with a checksum that fits."""

    def rewrite(header=None, **arrays):
        path = saved / FOLDER / FILE
        about, tensors = open_tensors(path)
        changed = {name: torch.tensor(array) for name, array in arrays.items()}
        save_tensors(path, {**{name: tensor.clone() for name, tensor in tensors.items()}, **changed}, header or about)

    return rewrite


def header_of(saved):
    return open_tensors(saved / FOLDER / FILE)[0]


def same(one, other):
    return one.origin == other.origin and all(np.array_equal(getattr(one, n), getattr(other, n)) for n in ARRAYS)


def test_by_hand(tables, lexicon):
    forms = [form.decode() for form in tables.forms()]
    assert forms == WORDS + ["feline", "kitty", "a", "small", "domesticated", "hound", "animal"]
    assert tables.relation_offsets.tolist() == [0, 0, 0, 0, 0, 2, 3, 3]
    assert tables.relations.tolist() == [7, 8, 12]  # cat: feline, kitty; dog: hound
    assert tables.definition_offsets.tolist() == [0, 0, 0, 0, 0, 3, 6, 6]
    assert tables.definitions.tolist() == [9, 10, 11, 9, 11, 13]  # a small domesticated; a domesticated animal
    assert (tables.num_words, tables.num_forms) == (7, 14)
    assert tables.coverage() == {"relations": 2, "definitions": 2}
    assert tables.origin == Origin(lexicon.fingerprint() + "-r3-d3", 3, 3)
    assert tables.origin.is_of(lexicon) and not tables.origin.is_of(NoLexicon())


@pytest.mark.parametrize("relations", [True, False])
@pytest.mark.parametrize("definitions", [True, False])
def test_parts_have_the_forms_that_they_use(tables, lexicon, relations, definitions):
    some, forms = tables.parts(relations, definitions), tables.forms()
    expected = set()
    for index, word in enumerate(WORDS):
        entry = lexicon.lookup(word, 3, 3) if index >= 4 else Entry()
        related = [r.word.encode() for r in entry.relations] if relations else []
        gloss = [w.encode() for w in entry.definition] if definitions else []
        assert [some.forms()[i] for i in items_of(some.relations, some.relation_offsets, index)] == related
        assert [some.forms()[i] for i in items_of(some.definitions, some.definition_offsets, index)] == gloss
        expected |= {*related, *gloss}
    assert some.forms()[: len(WORDS)] == forms[: len(WORDS)]
    assert set(some.forms()) == {*forms[: len(WORDS)], *expected} and len(set(some.forms())) == some.num_forms


def items_of(items, offsets, index):
    return items[offsets[index] : offsets[index + 1]].tolist()


def test_forms_of_the_dictionary_are_shared(lexicon):
    tables = build_tables(["kitty", "cat"], lexicon, max_definition=0)
    assert tables.relations.tolist() == [1, 2, 0]  # kitty: cat; cat: feline, kitty
    assert tables.forms()[:3] == [b"kitty", b"cat", b"feline"]


def test_forms_are_utf8_and_undecodable_bytes_survive():
    words = ["naïve", "\N{GRINNING FACE}", b"d\xffg".decode("utf-8", "surrogateescape"), ""]
    tables = build_tables(words, NoLexicon())
    assert tables.forms() == ["naïve".encode(), "\N{GRINNING FACE}".encode(), b"d\xffg", b""]


def test_spellings_alone_are_what_an_empty_lexicon_gives():
    words = ["<s>", "the", "c\u00e4t", "\udcff", "the"]
    made, expected = tables_of_spellings(words), build_tables(words, NoLexicon())
    assert made.forms() == expected.forms() and made.origin == expected.origin
    for name in ARRAYS:
        assert np.array_equal(getattr(made, name), getattr(expected, name)), name
        assert getattr(made, name).dtype == getattr(expected, name).dtype


def test_words_that_are_none_are_never_looked_up():
    words = ["<unk>", "madeupword0001", "dog"]
    tables = build_tables(words, GivenLexicon(dict.fromkeys(words, Entry((Relation("cat", "by hand"),)))))
    assert np.diff(tables.relation_offsets).tolist() == [0, 0, 1]


def test_a_round_trip(tables, saved):
    loaded = load_tables(saved, WORDS)
    assert same(loaded, tables)
    assert {n: torch.from_numpy(getattr(loaded, n)).dtype for n in ARRAYS} == ARRAYS
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


@pytest.mark.parametrize("number", [0, 1, FORMAT + 1, None, "2"])
def test_another_format_is_refused(saved, rewritten, number):
    rewritten({**header_of(saved), "format": number})
    with pytest.raises(TablesError, match=f"tables of format {number}, expected {FORMAT}. {REMEDY} {saved}"):
        load_tables(saved, WORDS)


@pytest.mark.parametrize("key", ["format", "dictionary", "lexicon", "max_relations", "sources"])
def test_a_header_that_lacks_something_is_refused(saved, rewritten, key):
    header = header_of(saved)
    del header[key]
    rewritten(header)
    with pytest.raises(TablesError, match=f"{REMEDY} {saved}"):
        load_tables(saved, WORDS)


@pytest.mark.parametrize("name", ["header.json", "tables.zip"])
def test_tables_of_an_earlier_version_name_the_command_that_replaces_them(tables, tmp_path, name):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / name).write_text("{}")
    (tmp_path / FOLDER / "relations.npy").write_text("")
    for litter in (f".{FOLDER}-{'0a' * 16}", f".{FOLDER}-mine"):  # a run of version 0.1.0 was killed
        (tmp_path / litter).mkdir()
    with pytest.raises(TablesError, match=f"tables of an earlier version. {REMEDY} {tmp_path}"):
        load_tables(tmp_path, WORDS)
    save_tables(tmp_path, tables, WORDS)
    assert sorted(os.listdir(tmp_path)) == [f".{FOLDER}-mine", FOLDER]
    assert sorted(os.listdir(tmp_path / FOLDER)) == [".lock", FILE] and same(load_tables(tmp_path, WORDS), tables)


def test_no_byte_may_change_and_none_may_lack(saved):
    path = saved / FOLDER / FILE
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(TablesError, match=f"{REMEDY} {saved}"):
            load_tables(saved, WORDS)
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with pytest.raises(TablesError, match=REMEDY) as refused:
            load_tables(saved, WORDS)
        assert "\n" not in str(refused.value)


DAMAGES = {
    "relations": [
        ([7, 8, 14], "relations of 7 to 14, expected 0 to 13"),
        ([7, -1, 12], "relations of -1 to 12, expected 0 to 13"),
        ([7, 8], "relation_offsets do not rise from 0 to 2"),
    ],
    "definitions": [([9, 10, 2**31 - 1, 9, 11, 13], "definitions of 9 to 2,147,483,647, expected 0 to 13")],
    "relation_offsets": [
        ([0, 0, 0, 0, 0, 2**40, 3, 3], "relation_offsets do not rise"),
        ([1, 1, 1, 1, 1, 2, 3, 3], "relation_offsets do not rise"),
        ([0, 0, 0, 0, 0, -(2**63), 2**63 - 1, 3], "relation_offsets do not rise"),
        ([0, 0, 0, 2, 3, 3], "relation_offsets are of 5 words, expected 7"),
        ([], "relation_offsets do not rise"),
    ],
    "form_offsets": [([0, 3, 8, 75], "form_offsets do not rise from 0 to"), ([0], "form_offsets do not rise")],
    "form_bytes": [([0] * 75, "the first forms are not the words of the dictionary|form_offsets do not rise")],
}


@pytest.mark.parametrize("name, items, message", [(n, *damage) for n, damages in DAMAGES.items() for damage in damages])
def test_arrays_that_point_beyond_are_refused(saved, rewritten, name, items, message):
    rewritten(**{name: np.array(items, dtype=getattr(load_tables(saved, WORDS), name).dtype)})
    with pytest.raises(TablesError, match=f"damaged: ({message}).*{REMEDY} {saved}"):
        load_tables(saved, WORDS)


def test_the_source_is_remembered(tmp_path, lexicon):
    save_tables(tmp_path, build_tables(WORDS, lexicon, sources=["/a/b.tsv", "wordnet"]), WORDS)
    origin = load_tables(tmp_path, WORDS).origin
    assert origin == Origin(f"{lexicon.fingerprint()}-r3-d10", 3, 10, ("/a/b.tsv", "wordnet"))
    assert str(origin) == f"{lexicon.fingerprint()}-r3-d10: /a/b.tsv, wordnet"


def test_something_else_in_the_place_of_the_tables(tables, tmp_path, saved):
    for place, what in (("file", "a file"), ("link", "a link")):
        (tmp_path / place).mkdir()
        if what == "a file":
            (tmp_path / place / FOLDER).write_text("mine")
        else:
            (tmp_path / place / FOLDER).symlink_to(saved / FOLDER)
        with pytest.raises(TablesError, match=f"{place}/{FOLDER}: {what}, expected a folder. Move it away"):
            save_tables(tmp_path / place, build_tables(WORDS[:5], NoLexicon()), WORDS[:5])
    assert same(load_tables(saved, WORDS), tables) and (tmp_path / "file" / FOLDER).read_text() == "mine"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
@pytest.mark.parametrize("before", [False, True])
def test_a_save_that_dies_leaves_the_old_or_none(tables, tmp_path, monkeypatch, lexicon, error, before):
    if before:
        save_tables(tmp_path, tables, WORDS)
    monkeypatch.setattr(tensor_file, "save_file", dying(tensor_file.save_file, error))
    with pytest.raises(error if isinstance(error, type) else TablesError):
        save_tables(tmp_path, build_tables(WORDS[:5], lexicon), WORDS[:5])
    assert sorted(os.listdir(tmp_path / FOLDER)) == [".lock", FILE][: 1 + before]
    if before:
        assert same(load_tables(tmp_path, WORDS), tables)


def test_a_file_that_was_not_wholly_written_does_not_replace_the_old(tables, saved, monkeypatch, lexicon):
    whole = tensor_file.save_file

    def cut(tensors, path, about):
        whole(tensors, path, about)
        os.truncate(path, os.path.getsize(path) - 100)

    monkeypatch.setattr(tensor_file, "save_file", cut)
    with pytest.raises(TablesError, match="the tables could not be written .*Is there room"):
        save_tables(saved, build_tables(WORDS[:5], lexicon), WORDS[:5])
    assert same(load_tables(saved, WORDS), tables)


@pytest.mark.parametrize("moment", ["write", "replace"])
@pytest.mark.parametrize("before", [False, True])
def test_a_killed_save_leaves_the_old_tables(tables, tmp_path, lexicon, moment, before):
    """Killed for good, so that nothing can clean up: the next save does."""
    if before:
        save_tables(tmp_path, build_tables(WORDS[:5], lexicon), WORDS[:5])
    child = os.fork()
    if child == 0:
        try:
            kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
            if moment == "write":
                tensor_file.save_file = dying(tensor_file.save_file, kill)
            else:
                os.replace = kill
            save_tables(tmp_path, tables, WORDS)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(TablesError, match=REMEDY):
        load_tables(tmp_path, WORDS)
    if before:
        assert same(load_tables(tmp_path, WORDS[:5]), build_tables(WORDS[:5], lexicon))
    save_tables(tmp_path, tables, WORDS)
    assert same(load_tables(tmp_path, WORDS), tables) and sorted(os.listdir(tmp_path / FOLDER)) == [".lock", FILE]


def test_digests_are_of_words_and_what_they_are_made_of(tables, lexicon):
    def digests(words, lexicon, **limits):
        return build_tables(words, lexicon, **limits).word_digests()

    whole = tables.word_digests()
    assert whole.dtype == "<u8" and len(set(whole.tolist())) == len(WORDS)
    assert np.array_equal(digests([*WORDS, "lion"], lexicon, max_definition=3)[: len(WORDS)], whole)  # whatever comes after
    assert (digests(WORDS, NoLexicon()) == whole).tolist() == [True] * 4 + [False, False, True]  # cat and dog have entries
    assert (digests(WORDS, lexicon, max_definition=2) == whole).tolist() == [True] * 4 + [False, False, True]


def dying(save, error):
    """Return what writes a file and then raises, or does, *error*."""

    def wrapped(*args):
        save(*args)
        if callable(error) and not isinstance(error, type):
            error()
        raise error

    return wrapped


def test_the_format_number_goes_with_the_arrays(saved):
    described = {name: str(kind) for name, kind in ARRAYS.items()}
    header = header_of(saved)
    assert (header["format"], sorted(described.items()), sorted(header)) == (
        3,
        [
            ("definition_offsets", "torch.int64"),
            ("definitions", "torch.int32"),
            ("form_bytes", "torch.uint8"),
            ("form_offsets", "torch.int64"),
            ("relation_offsets", "torch.int64"),
            ("relations", "torch.int32"),
        ],
        ["dictionary", "format", "lexicon", "max_definition", "max_relations", "piece_mark", "sources"],
    ), "what is stored changed: raise FORMAT, then this test"
