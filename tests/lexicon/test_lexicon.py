import json

import numpy as np
import pytest

from fairseq_groc.errors import LexiconError, TablesError
from fairseq_groc.lexicon import FileLexicon, WordNetLexicon, find_wordnet, open_lexicon, wordnet
from fairseq_groc.lexicon.base import gloss_words
from fairseq_groc.lexicon.tables import _DTYPES, FOLDER, FORMAT, build_tables, load_tables, save_tables

WORDS = ["<s>", "<pad>", "</s>", "<unk>", "cat", "dog", "zzz"]


@pytest.fixture
def tables(data):
    return build_tables(WORDS, FileLexicon(data / "mini.tsv"), lambda i: i >= 4, max_definition=3)


def test_tables_by_hand(tables):
    forms = [form.decode() for form in tables.forms()]
    assert forms == WORDS + ["feline", "kitty", "a", "small", "domesticated", "hound", "animal"]
    named = lambda items, starts, v: [forms[i] for i in items[starts[v] : starts[v + 1]]]  # noqa: E731
    assert named(tables.relations, tables.relation_offsets, 4) == ["feline", "kitty"]
    assert named(tables.definitions, tables.definition_offsets, 5) == ["a", "domesticated", "animal"]
    assert [named(tables.relations, tables.relation_offsets, v) for v in (0, 1, 2, 3, 6)] == [[]] * 5
    assert tables.coverage() == {"relations": 2, "definitions": 2}


def test_tables_survive_a_round_trip(tables, tmp_path):
    save_tables(tmp_path, tables, WORDS)
    loaded = load_tables(tmp_path, WORDS)
    for name in _DTYPES:
        assert np.array_equal(getattr(loaded, name), getattr(tables, name))
    assert [p.name for p in tmp_path.iterdir()] == [FOLDER]


def test_foreign_tables_are_refused_with_the_command_that_rebuilds(tables, tmp_path):
    remedy = "python -m fairseq_groc tables"
    with pytest.raises(TablesError, match=f"no lexicon tables. .*{remedy}"):
        load_tables(tmp_path, WORDS)
    save_tables(tmp_path, tables, WORDS)
    with pytest.raises(TablesError, match=f"another dictionary .*{remedy}"):
        load_tables(tmp_path, WORDS[:-1] + ["yyy"])
    header = tmp_path / FOLDER / "header.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), "format": 99}))
    with pytest.raises(TablesError, match=f"format 99, expected 1. .*{remedy}"):
        load_tables(tmp_path, WORDS)
    header.write_text("{")
    with pytest.raises(TablesError, match=f"not readable. .*{remedy}"):
        load_tables(tmp_path, WORDS)


def test_a_kill_while_writing_leaves_the_old_tables(tables, tmp_path, monkeypatch):
    save_tables(tmp_path, tables, WORDS)
    calls, save = [], np.save

    def dying(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        save(*args, **kwargs)

    monkeypatch.setattr(np, "save", dying)
    with pytest.raises(KeyboardInterrupt):
        save_tables(tmp_path, tables, WORDS)
    assert [p.name for p in tmp_path.iterdir()] == [FOLDER] and load_tables(tmp_path, WORDS).num_words == 7
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        save_tables(tmp_path / "..", tables, WORDS)
    with pytest.raises(TablesError, match="no lexicon tables"):
        load_tables(tmp_path / "..", WORDS)


def test_the_format_number_goes_with_the_arrays():
    described = {name: np.dtype(dtype).name for name, dtype in _DTYPES.items()}
    assert (FORMAT, described) == (
        1,
        {
            "form_bytes": "uint8",
            "form_offsets": "int64",
            "relations": "int32",
            "relation_offsets": "int64",
            "definitions": "int32",
            "definition_offsets": "int64",
        },
    ), "the arrays changed: raise FORMAT, then this test"


def test_tsv_and_jsonl_say_the_same(data, tmp_path):
    records = [line.split("\t") for line in (data / "mini.tsv").read_text().splitlines()]
    path = tmp_path / "mini.jsonl"
    path.write_text("\n".join(json.dumps({"word": w, "relations": r.split(), "definition": d}) for w, r, d in records))
    one, other = FileLexicon(data / "mini.tsv"), FileLexicon(path)
    for word in ("cat", "CAT", "run", "lion", "nowhere"):
        a, b = one.lookup(word, 3, 10), other.lookup(word, 3, 10)
        assert [r.word for r in a.relations] == [r.word for r in b.relations] and a.definition == b.definition
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.tsv", "cat\tx\ty\ndog only\n", "a.tsv:2: cannot read this line"),
        ("a.tsv", "cat\tx\ty\ncat\tx\ty\n", "a.tsv:2: 'cat' is already on line 1"),
        ("a.jsonl", '{"word": "cat"}\n{"word": 3}\n', "a.jsonl:2: cannot read this line"),
        ("a.jsonl", "{", "a.jsonl:1: cannot read this line"),
    ],
)
def test_a_broken_line_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(LexiconError, match=message):
        open_lexicon(str(tmp_path / name))


def test_invalid_utf8_is_named(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"cat\tx\ty\nd\xffg\tx\ty\n")
    with pytest.raises(LexiconError, match="a.tsv:2"):
        open_lexicon(str(tmp_path / "a.tsv"))


def test_gloss_words():
    assert gloss_words("One's well-known (4) car; -- 'x'") == ["one's", "well-known", "4", "car", "'x'"]


def fake_wordnet(folder):
    folder.mkdir(parents=True)
    for name in wordnet._DATA_FILES:
        (folder / name).touch()
    return folder


def test_wordnet_is_found_in_order(tmp_path, monkeypatch):
    import nltk

    given, system = fake_wordnet(tmp_path / "given"), fake_wordnet(tmp_path / "system")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])
    monkeypatch.setattr(wordnet, "system_directories", lambda: [system])
    monkeypatch.setattr(wordnet, "_download_nltk", lambda: tmp_path / "downloaded")
    assert find_wordnet() == system
    corpus = fake_wordnet(tmp_path / "nltk" / "corpora" / "wordnet")
    assert find_wordnet() == corpus
    assert find_wordnet(str(given)) == given
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(wordnet, "system_directories", lambda: [])
    assert find_wordnet() == tmp_path / "downloaded"
    monkeypatch.setattr(wordnet, "_download_nltk", lambda: None)
    with pytest.raises(LexiconError, match="no WordNet found. Run one of: .*nltk.downloader wordnet.*apt-get install wordnet-base"):
        find_wordnet()
    with pytest.raises(LexiconError, match="no WordNet there"):
        find_wordnet(str(tmp_path))


def test_wordnet_entries_follow_the_rules():
    try:
        lexicon = WordNetLexicon(find_wordnet(download=False))
    except LexiconError as error:
        pytest.skip(str(error))
    entry = lexicon.lookup("Dogs", 3, 10)
    assert [r.word for r in entry.relations] == ["dog", "frump", "cad"]  # synonyms first, in the order of senses
    assert entry.definition == tuple("a member of the genus canis probably descended from the".split())
    assert "dog" not in [r.word for r in lexicon.lookup("dog", 50, 10).relations]
    assert all("_" not in r.word for r in lexicon.lookup("dog", 50, 10).relations)
    assert not lexicon.lookup("xqzzy", 3, 10).relations and not lexicon.lookup("", 3, 10).definition
