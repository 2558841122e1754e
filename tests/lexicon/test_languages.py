"""Lexicons of languages other than English: tab files, the package wn, and dictionary forms."""

import re
import sys

import pytest

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon import LEXICONS, WordNetLexicon, find_wordnet, omw, open_lexicon, sources_of
from fairseq_groc.lexicon.base import Entry
from fairseq_groc.lexicon.numbered import NumberedSenses
from fairseq_groc.lexicon.tables import build_tables
from fairseq_groc.options import HeadConfig, head_settings
from fairseq_groc.tasks.building import warn_of_empty_parts

# numbers of WordNet 3.0
CAT, DOG, PUPPY, KITTY = "02121620-n", "02084071-n", "01322604-n", "02122298-n"
FORGET, RUN = "00613018-v", "01926311-v"
GERMAN = [
    "# Wörterbuch\tdeu\thttps://example.org\tMIT",
    f"{CAT}\tdeu:lemma\tKater",
    f"{CAT}\tdeu:lemma\tKatze",
    f"{CAT}\tdeu:lemma\tzahme Katze",
    f"{KITTY}\tdeu:lemma\tMieze",
    f"{DOG}\tdeu:lemma\tHund",
    f"{DOG}\tdeu:def\t0\tein treuer Freund; er bellt",
    f"{DOG}\tdeu:exe\t0\tDer Hund bellt.",
    f"{PUPPY}\tdeu:lemma\tWelpe",
    f"{PUPPY}\tdeu:lemma\tjunger_Hund",
    f"{RUN}\tdeu:lemma\tlaufen",
    f"{RUN}\tdeu:lemma\trennen",
    f"{FORGET}\tdeu:lemma\tvergessen",
]


@pytest.fixture(scope="module")
def english():
    try:
        return WordNetLexicon(find_wordnet(download=False))
    except LexiconError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def senses(english):
    return NumberedSenses(english.path)


@pytest.fixture
def tab(tmp_path, senses, monkeypatch):
    """Return a function that opens a tab file of some lines; WordNet is read once for all of them."""
    monkeypatch.setattr(omw, "NumberedSenses", lambda path: senses)

    def opened(lines, form="omw:{}"):
        path = tmp_path / "wn.tab"
        path.write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
        return open_lexicon(form.format(path))

    return opened


def related(entry):
    return [relation.word for relation in entry.relations]


def test_synonyms_then_hyponyms_of_the_language_and_its_own_definition(tab):
    lexicon = tab(GERMAN)
    assert related(lexicon.lookup("Katze", 5, 10)) == ["Kater"]  # neither the word nor several words
    dog = lexicon.lookup("Hund", 5, 3)
    assert related(dog) == ["Welpe"] and dog.relations[0].source == "hyponym puppy.n.01 of dog.n.01"
    assert dog.definition == ("ein", "treuer", "freund") and dog.definition_source == "dog.n.01"
    cat = lexicon.lookup("Kater", 5, 10)
    assert cat.definition == () and cat.definition_source == ""  # not the English one
    assert lexicon.language == "deu" and lexicon.lookup("cat", 5, 10) == lexicon.lookup(" ", 5, 10) == Entry()


def test_a_word_in_small_letters_has_relations_in_small_letters(tab):
    lexicon = tab([*GERMAN, f"{RUN}\tdeu:lemma\tWelpe"])
    assert related(lexicon.lookup("katze", 5, 10)) == ["kater"] and related(lexicon.lookup("KATZE", 5, 10)) == ["Kater"]
    assert related(lexicon.lookup("rennen", 5, 10)) == ["laufen", "welpe"]


def test_senses_come_by_their_use_in_english(tab, english):
    """Against WordNet's counts: to run (verb) is used more than dogs, and dogs more than puppies."""
    lines = [f"{sense}\tlemma\t{word}" for word, senses in (("x", (PUPPY, DOG, RUN)), ("y", (PUPPY,))) for sense in senses]
    lines += [f"{DOG}\tlemma\tz", f"{RUN}\tlemma\tw"]
    used = [sum(m.count() for m in english.database.synset(f"{name}.01").lemmas()) for name in ("run.v", "dog.n", "puppy.n")]
    assert used == sorted(set(used), reverse=True)
    assert related(tab([GERMAN[0], *lines]).lookup("x", 5, 10)) == ["w", "z", "y"]


@pytest.mark.parametrize("word", ["car", "see", "quick", "well"])
def test_a_file_of_wordnets_own_words_has_wordnets_relations(tab, english, word):
    senses = english.database.synsets(word)
    known = {*senses, *(below for sense in senses for below in sense.hyponyms())}
    lines = [f"{s.offset():08d}-{s.pos()}\teng:lemma\t{name}" for s in known for name in s.lemma_names()]
    ours, theirs = (lexicon.lookup(word, 1000, 10) for lexicon in (tab(["# WordNet\teng", *lines]), english))
    assert {r.word.lower() for r in ours.relations} == {r.word.lower() for r in theirs.relations}
    assert ours.relations and ours.definition == ()


def test_numbers_are_those_of_the_first_wordnet_3_0(tab, english):
    """Debian has mended its texts, which moved verbs from 00613018 on by 18 bytes."""
    source = tab([*GERMAN, f"{FORGET}\tdeu:lemma\tliegenlassen"]).lookup("vergessen", 1, 1).relations[0].source
    assert source == "synonym in forget.v.04"
    assert english.database.synset(source.split()[-1]).definition() == "leave behind unintentionally"


def test_senses_that_wordnet_lacks_are_counted(tab, caplog):
    lexicon = tab([*GERMAN, "99999999-n\tdeu:lemma\tDing", "99999999-n\tdeu:lemma\tSache"])
    assert "wn.tab: 1 senses are none of WordNet 3.0's and are left out: 99999999-n" in caplog.text and "Ding" not in lexicon


def test_the_fingerprint_is_that_of_the_content(tab):
    first = tab(GERMAN).fingerprint()
    assert tab(GERMAN).fingerprint() == first != tab(GERMAN[:-1]).fingerprint()


@pytest.mark.parametrize(
    "lines, message",
    [
        ([f"{CAT}\tdeu:lemma\tKatze"], r"wn\.tab:1: .*\(no line # NAME TAB LANGUAGE before it\); expected SYNSET"),
        ([GERMAN[0], f"{CAT}\tKatze"], r"wn\.tab:2: .*\(2 tab-separated fields\); .* Mend the line or remove it"),
        ([GERMAN[0], f"{CAT}\tdeu:lemma\tKatze\t1"], r"wn\.tab:2: .*'deu:lemma' before 2 fields"),
        ([GERMAN[0], f"{CAT}\tdeu:word\tKatze"], r"wn\.tab:2: .*'deu:word' before 1 fields"),
        ([*GERMAN[:2], f"{CAT}\tfra:lemma\tchat"], r"wn\.tab:3: .*language 'fra' after 'deu': one language a file"),
        ([GERMAN[0], f"{CAT}\tdeu:lemma\t "], r"wn\.tab:2: .*' ' is no word"),
        ([GERMAN[0], f"{CAT}\tdeu:lemma\t</s>"], r"wn\.tab:2: .*'</s>' is no word"),
        ([GERMAN[0], f"{CAT}\tdeu:lemma\tK\x00"], r"wn\.tab:2: .*is no word"),
        (GERMAN[:1], r"wn\.tab: no word of WordNet 3\.0's senses; expected # NAME TAB LANGUAGE, then SYNSET"),
        ([], r"wn\.tab: no word"),
        (
            b"# W\tdeu\n" + f"{CAT}\tdeu:lemma\tK".encode() + b"\xff\n",
            r"wn\.tab:2: cannot read this line \('utf-8' codec .*in UTF-8",
        ),
    ],
)
def test_a_broken_tab_file_is_named(tab, lines, message):
    with pytest.raises(LexiconError, match=message):
        tab(lines)


def test_a_tab_file_that_is_not_there(tmp_path):
    for path, why in ((tmp_path / "nowhere.tab", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(LexiconError, match=f"--lexicon-path omw:{path}: {why}.*Give a tab file"):
            open_lexicon(f"omw:{path}")


def test_another_wordnet_numbers_senses_otherwise(english, monkeypatch):
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    monkeypatch.setattr(WordNetCorpusReader, "get_version", lambda self: "3.1")
    with pytest.raises(LexiconError, match=r"WordNet 3\.1, expected 3\.0"):
        NumberedSenses(english.path)


def test_sources_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wn.tab").touch()
    (tmp_path / "omw-fr").mkdir()
    monkeypatch.setitem(LEXICONS, "mine", lambda path: None)
    monkeypatch.setitem(LEXICONS, "text", lambda text: None)
    assert sources_of(["mine:wn.tab", "text:wn.tab"]) == [f"mine:{tmp_path / 'wn.tab'}", "text:wn.tab"]
    given = ["wn:omw-fr", "omw:wn.tab", "lemmas:omw:wn.tab", "wn:omw-fr:2.0", "lemmas:wn:omw-fr", "lemmas:", "none", "wn.tab"]
    there = tmp_path / "wn.tab"
    assert sources_of(given) == [
        "wn:omw-fr",
        f"omw:{there}",
        f"lemmas:omw:{there}",
        "wn:omw-fr:2.0",
        "lemmas:wn:omw-fr",
        "lemmas:",  # of the machine's WordNet
        "none",
        str(there),
    ]


def test_an_inflected_word_has_the_entry_of_its_dictionary_form(tab):
    pytest.importorskip("simplemma")
    plain, lexicon = tab(GERMAN), tab(GERMAN, "lemmas:omw:{}")
    assert plain.lookup("Hunde", 5, 10) == Entry()
    dogs = lexicon.lookup("Hunde", 5, 10)
    assert related(dogs) == ["Hund", "Welpe"] and dogs.relations[0].source == "dictionary form of Hunde"
    assert dogs.definition == plain.lookup("Hund", 5, 10).definition
    assert related(lexicon.lookup("hunde", 1, 10)) == ["hund"] and lexicon.lookup("Hunde", 0, 10).relations == ()
    for word in ("Hund", "hund", "Katze", "Bäume", "", " ", "</s>"):  # which it has, or has in no form
        assert lexicon.lookup(word, 5, 10) == plain.lookup(word, 5, 10)
    assert related(lexicon.lookup("vergesst", 5, 10)) == ["vergessen"]  # though that has no relations
    assert lexicon.fingerprint().endswith(plain.fingerprint()) and lexicon.fingerprint() != plain.fingerprint()


def test_dictionary_forms_of_a_language_that_has_none(tab):
    pytest.importorskip("simplemma")
    with pytest.raises(LexiconError, match=r"lemmas:wn.tab: simplemma has no .* 'tlh'\. Give the lexicon without"):
        tab(["# W\ttlh", *(line.replace("deu:", "") for line in GERMAN[1:])], "lemmas:omw:{}")
    for name in ("none", "wordnet"):
        with pytest.raises(LexiconError, match=r"lemmas:.*: this lexicon says no language\. Give lemmas:omw:FILE or lemmas:wn"):
            open_lexicon(f"lemmas:{name}")


def test_without_the_packages_the_error_says_what_to_install(tab, monkeypatch):
    for package in ("wn", "simplemma"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LexiconError, match="--lexicon-path wn:omw-fr: .*pip install wn"):
        open_lexicon("wn:omw-fr")
    with pytest.raises(LexiconError, match=r"--lexicon-path lemmas:wn\.tab: .*pip install simplemma"):
        tab(GERMAN, "lemmas:omw:{}")


@pytest.fixture
def database(data, tmp_path, monkeypatch):
    """wn's database in a folder of its own, with the lexicons of a file."""
    wn = pytest.importorskip("wn")
    before, wn.config.data_directory = wn.config.data_directory, tmp_path
    wn.add(data / "languages.xml", progress_handler=None)
    yield wn
    wn.config.data_directory = before


def test_a_lexicon_of_wn(database):
    lexicon = open_lexicon("wn:mini-fr:1.0")
    chat = lexicon.lookup("chat", 5, 10)
    assert related(chat) == ["matou", "félin", "lion"]  # by the entry's senses; those below come from mini-en
    assert [r.source for r in chat.relations] == [
        "synonym in mini-fr-2-n",
        "synonym in mini-fr-1-n",
        "hyponym mini-fr-3-n of mini-fr-1-n",
    ]
    assert chat.definition == ("un", "animal", "agile") and chat.definition_source == "mini-fr-1-n"
    assert lexicon.lookup("matou", 5, 10).definition == ()  # mini-en has one
    assert lexicon.language == "fr" and lexicon.lookup("gnou", 5, 10) == lexicon.lookup(" ", 5, 10) == Entry()


def test_case_accents_and_forms_in_a_lexicon_of_wn(database):
    lexicon = open_lexicon("wn:mini-fr")
    assert related(lexicon.lookup("CHATS", 5, 10)) == ["chat", "matou", "félin", "lion"]  # listed as a form
    assert [related(lexicon.lookup(word, 5, 10)) for word in ("matou", "Matou", "MATOU")] == [["chat"], ["lion"], ["chat"]]
    assert lexicon.lookup("felin", 5, 10) == Entry()  # accents make another word
    assert lexicon.fingerprint() == "wn-mini-fr:1.0-mini-en:1.0"


def test_dictionary_forms_in_a_lexicon_of_wn(database):
    pytest.importorskip("simplemma")
    assert related(open_lexicon("lemmas:wn:mini-fr").lookup("lions", 5, 10)) == ["lion", "matou"]


def test_lexicons_that_wn_lacks(database):
    with pytest.raises(LexiconError, match=r"wn:omw-fr: 0 of .* are mini-en:1\.0, mini-fr:1\.0\. .* wn download omw-fr"):
        open_lexicon("wn:omw-fr")
    database.remove("mini-en:1.0", progress_handler=None)
    with pytest.raises(LexiconError, match=r"wn:mini-fr: it has its relations from mini-en:1\.0, which .* download mini-en:1\.0"):
        open_lexicon("wn:mini-fr")
    database.remove("mini-fr:1.0", progress_handler=None)
    with pytest.raises(LexiconError, match="there is none"):
        open_lexicon("wn:mini-fr")


@pytest.mark.parametrize(
    "text, parts, said",
    [
        ("katze\tkater\t\n", "both", "no word has definitions in the lexicon tables: .* --lexicon-parts relations leaves it out"),
        ("katze\t\tein Tier\n", "both", "no word has relations .* --lexicon-parts definitions leaves"),
        ("katze\t\t\n", "both", "no word has relations or definitions .* --lexicon-parts none leaves"),
        ("katze\tkater\t\n", "definitions", "no word has definitions .* --lexicon-parts none leaves"),
        ("katze\tkater\t\n", "relations", ""),
        ("katze\tkater\tein Tier\n", "both", ""),
    ],
)
def test_a_part_that_the_lexicon_has_nothing_for_is_named(tmp_path, caplog, text, parts, said):
    path = tmp_path / "words.tsv"
    path.write_text(text)
    tables = build_tables(["katze", "hund"], open_lexicon(str(path)))
    warn_of_empty_parts(tables, head_settings(HeadConfig(output_head="compositional_output", lexicon_parts=parts)))
    assert re.search(said, caplog.text) if said else not caplog.text
