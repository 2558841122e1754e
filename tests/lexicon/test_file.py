import json
import re

import pytest

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon import FileLexicon, NoLexicon, open_lexicon
from fairseq_groc.lexicon.base import Entry, gloss_words


def related(entry):
    return [relation.word for relation in entry.relations]


def test_an_entry_by_hand(lexicon):
    entry = lexicon.lookup("cat", 3, 10)
    assert related(entry) == ["feline", "kitty"]
    assert [relation.source for relation in entry.relations] == ["mini.tsv:1", "mini.tsv:1"]
    assert entry.definition == ("a", "small", "domesticated", "animal", "with", "fur")
    assert lexicon.lookup("well-known", 3, 10).definition == ("known", "to", "one's", "whole", "public")
    assert lexicon.lookup("naïve", 3, 10).definition == ("lacking", "wisdom")


def test_parts_may_be_empty_and_words_missing(lexicon):
    assert related(lexicon.lookup("run", 3, 10)) == [] and lexicon.lookup("run", 3, 10).definition
    assert related(lexicon.lookup("lion", 3, 10)) == ["feline"] and lexicon.lookup("lion", 3, 10).definition == ()
    assert lexicon.lookup("swim", 3, 10).relations == lexicon.lookup("swim", 3, 10).definition == ()
    assert lexicon.lookup("nowhere", 3, 10) == Entry() == NoLexicon().lookup("cat", 3, 10)


def test_the_exact_word_then_lower_case(tmp_path):
    path = tmp_path / "cased.tsv"
    path.write_text("Polish\tWarsaw\t\npolish\tshine\t\n")
    lexicon = FileLexicon(path)
    assert [related(lexicon.lookup(w, 3, 10)) for w in ("Polish", "polish", "POLISH")] == [["Warsaw"], ["shine"], ["shine"]]


def test_case_is_folded_both_ways(tmp_path):
    path = tmp_path / "cased.tsv"
    path.write_text("NASA\tagency\t\nNasa\tother\t\nswim\t\tto move\n")
    lexicon = FileLexicon(path)
    assert [related(lexicon.lookup(w, 3, 10)) for w in ("NASA", "nasa", "nAsA", "Nasa")] == [["agency"]] * 3 + [["other"]]
    assert lexicon.fingerprint().startswith("file-lowered-")  # these answers are not those of version 0.1.0
    path.write_text("swim\t\tto move\nSwim\t\t\n")
    assert re.fullmatch("file-[0-9a-f]{16}", FileLexicon(path).fingerprint())  # these are


def test_entries_that_no_word_gets(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("hot dog\tsausage\t\nNASA\tagency\t\nzebra\thorse\t\nbun\tbread\t\n")
    lexicon = FileLexicon(path)
    assert lexicon.unused(["nasa", "bun", "hot", "dog"]) == {"hot dog": 1, "zebra": 3} and len(lexicon) == 4


def test_limits_count_what_is_kept(tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text("w\tw a a b c d\tone two three\n")
    entry = FileLexicon(path).lookup("w", 3, 2)
    assert related(entry) == ["a", "b", "c"]  # neither the word itself nor a repetition uses a place up
    assert entry.definition == ("one", "two")


def test_tsv_and_jsonl_say_the_same(data, lexicon, tmp_path):
    path = tmp_path / "mini.jsonl"
    lines = [line.split("\t") for line in (data / "mini.tsv").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 12
    records = [{"word": w, "relations": r.split(), "definition": d} for w, r, d in lines]
    path.write_text("\n\n".join(json.dumps(record) for record in records))  # blank lines are skipped
    other = open_lexicon(str(path))
    for word in [w for w, _, _ in lines] + ["CAT", "nowhere"]:
        one, two = lexicon.lookup(word, 3, 10), other.lookup(word, 3, 10)
        assert related(one) == related(two) and one.definition == two.definition
    assert other.lookup("run", 3, 10).definition_source == "mini.jsonl:7"


def test_windows_line_ends_change_no_answer(data, lexicon, tmp_path):
    path = tmp_path / "mini.tsv"
    path.write_bytes((data / "mini.tsv").read_bytes().replace(b"\n", b"\r\n"))
    other = FileLexicon(path)
    assert all(other.lookup(w, 3, 10) == lexicon.lookup(w, 3, 10) for w in ("cat", "run", "lion", "York", "emoji"))


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfcat\tfeline\ta small animal\n")
    assert FileLexicon(path).lookup("cat", 10, 10).relations[0].word == "feline"


def test_the_fingerprint_changes_with_the_content(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("cat\tx\ty\n")
    first = FileLexicon(path).fingerprint()
    assert FileLexicon(path).fingerprint() == first
    path.write_text("cat\tx\tz\n")
    assert FileLexicon(path).fingerprint() != first


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.tsv", "cat\tx\ty\n\ndog only\n", r"a\.tsv:3: cannot read this line .*expected word TAB relations .*Mend the line"),
        ("a.tsv", "cat\tx\ty\tz\n", r"a\.tsv:1: cannot read this line \(4 tab-separated fields"),
        ("a.tsv", " \tx\ty\n", r"a\.tsv:1: cannot read this line"),
        ("a.tsv", "cat\tx\ty\ndog\tx\ty\ncat\tz\t\n", r"a\.tsv:3: 'cat' is already on line 1\. Merge"),
        ("a.jsonl", '{"word": "cat"}\n{"word": 3}\n', r"a\.jsonl:2: cannot read this line .*expected \{\"word\""),
        ("a.jsonl", '{"word": "cat"}\n{"word": "cat"}\n', r"a\.jsonl:2: 'cat' is already on line 1"),
        ("a.jsonl", '{"word": "cat", "relations": "dog"}', r"a\.jsonl:1: .*relations must be a list"),
        ("a.jsonl", '{"relations": []}', r"a\.jsonl:1: cannot read this line"),
        ("a.jsonl", '["cat"]', r"a\.jsonl:1: cannot read this line"),
        ("a.jsonl", '{"word": "\\ud800"}', r"a\.jsonl:1: cannot read this line"),
        ("a.tsv", "cat\tx\ty\ndog\t\x00\x00\ty\n", r"a\.tsv:2: cannot read this line \(a NUL character"),
        ("a.jsonl", '{"word": "cat", "definition": "a \\u0000"}', r"a\.jsonl:1: cannot read this line \(a NUL character"),
        ("a.jsonl", "{", r"a\.jsonl:1: cannot read this line"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl:1: cannot read this line"),
        ("a.jsonl", '{"word": "cat", "relation": ["dog"]}', r"a\.jsonl:1: cannot read this line \(unknown 'relation'\)"),
        ("a.jsonl", '{"word": "cat", "relations": ["hot dog"]}', r"a\.jsonl:1: .*relation 'hot dog' is more than one word"),
        ("a.jsonl", '{"word": "</s>"}', r"a\.jsonl:1: .*</s> is a symbol of fairseq's, not a word"),
        ("a.tsv", "cat\tdog <unk>\ty\n", r"a\.tsv:1: .*<unk> is a symbol of fairseq's"),
        ("a.tsv", "cat\tdog madeupword0001\ty\n", r"a\.tsv:1: .*madeupword0001 is a symbol of fairseq's"),
        ("a.tsv", "", r"a\.tsv: no entries, expected lines of word TAB .* 'none' is the empty lexicon"),
        ("a.jsonl", "\n\n", r"a\.jsonl: no entries"),
    ],
)
def test_a_broken_line_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(LexiconError, match=message):
        open_lexicon(str(tmp_path / name))


def test_invalid_utf8_is_named(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"cat\tx\ty\nd\xffg\tx\ty\n")
    with pytest.raises(LexiconError, match=r"a\.tsv:2: cannot read this line .*in UTF-8"):
        FileLexicon(tmp_path / "a.tsv")


def test_a_lexicon_that_is_not_there(tmp_path):
    with pytest.raises(LexiconError, match="nowhere.tsv: no such file or folder. Give a .tsv or .jsonl file or a WordNet folder"):
        open_lexicon(str(tmp_path / "nowhere.tsv"))
    assert open_lexicon("none").fingerprint() == "none"


def test_gloss_words():
    assert gloss_words("One's well-known (4) car; -- 'x' É") == ["one's", "well-known", "4", "car", "'x'", "é"]
    assert gloss_words(" -- ; ") == []
