import zipfile

import pytest

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon import NounsFirstLexicon, WordNetLexicon, find_wordnet, open_lexicon, wordnet


def fake_wordnet(folder):
    folder.mkdir(parents=True)
    for name in wordnet._DATA_FILES:
        (folder / name).touch()
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any WordNet, and without a network."""
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])
    monkeypatch.setattr(wordnet, "system_directories", lambda: [tmp_path / "first", tmp_path / "second"])
    monkeypatch.setattr(wordnet, "_download_nltk", lambda: None)
    return tmp_path


@pytest.fixture(scope="module")
def real():
    try:
        return WordNetLexicon(find_wordnet(download=False))
    except LexiconError as error:
        pytest.skip(str(error))


def test_places_are_tried_in_order(machine, monkeypatch):
    monkeypatch.setattr(wordnet, "_download_nltk", lambda: machine / "downloaded")
    assert find_wordnet() == machine / "downloaded"
    second = fake_wordnet(machine / "second")
    assert find_wordnet() == second
    first = fake_wordnet(machine / "first")
    assert find_wordnet() == first
    corpus = fake_wordnet(machine / "nltk" / "corpora" / "wordnet")
    assert find_wordnet() == corpus
    given = fake_wordnet(machine / "given")
    assert find_wordnet(str(given)) == given


def test_a_packed_corpus_of_nltk_is_unpacked(machine):
    folder = machine / "nltk" / "corpora"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "wordnet.zip", "w") as packed:
        for name in wordnet._DATA_FILES:
            packed.writestr(f"wordnet/{name}", "")
    assert find_wordnet() == folder / "wordnet"


def test_a_packed_corpus_that_is_cut_is_passed_over(machine):
    folder = machine / "nltk" / "corpora"
    folder.mkdir(parents=True)
    (folder / "wordnet.zip").write_bytes(b"PK\x03\x04, and the rest did not come")
    first = fake_wordnet(machine / "first")
    assert find_wordnet() == first


def test_a_folder_that_lacks_a_file_is_passed_over(machine):
    second = fake_wordnet(machine / "second")
    (fake_wordnet(machine / "first") / "data.verb").unlink()
    assert find_wordnet() == second


def test_without_any_the_error_names_the_commands(machine):
    remedies = "python -m nltk.downloader wordnet`; `apt-get install wordnet-base`; .*--lexicon-path DIR"
    with pytest.raises(LexiconError, match=f"no WordNet found. Run one of: `{remedies}"):
        find_wordnet()


def test_nothing_is_downloaded_unasked(machine, monkeypatch):
    monkeypatch.setattr(wordnet, "_download_nltk", lambda: pytest.fail("downloaded"))
    with pytest.raises(LexiconError, match="no WordNet found"):
        find_wordnet(download=False)


def test_a_given_folder_is_never_replaced_by_another(machine):
    fake_wordnet(machine / "first")
    with pytest.raises(LexiconError, match=r"--lexicon-path .*: no WordNet there \(expected index.noun.*\.tsv or \.jsonl"):
        open_lexicon(str(machine))


def test_relations_follow_the_order_of_senses(real):
    entry = real.lookup("Dogs", 3, 10)
    assert [r.word for r in entry.relations] == ["dog", "chase", "trail"]  # synonyms first, sense by sense
    assert entry.relations[0].source == "synonym in dog.n.01"
    assert entry.definition == ("a", "member", "of", "the", "genus", "canis", "probably", "descended", "from", "the")


@pytest.mark.parametrize(
    "word, sense, nouns_first",
    [
        ("be", "be.v.01", "beryllium.n.01"),
        ("are", "be.v.01", "are.n.01"),
        ("was", "be.v.01", "washington.n.02"),
        ("as", "equally.r.01", "arsenic.n.02"),
        ("have", "have.v.01", "rich_person.n.01"),
        ("dogs", "dog.n.01", "dog.n.01"),
    ],
)
def test_the_most_used_sense_comes_first_whatever_its_part_of_speech(real, word, sense, nouns_first):
    assert real.lookup(word, 3, 10).definition_source == sense
    assert open_lexicon("wordnet_nouns_first").lookup(word, 3, 10).definition_source == nouns_first


def test_senses_come_by_their_tag_counts(real):
    """Against the file of counts itself: sense keys have the lemma, the part of speech, and where the sense is filed."""
    counts = {key: int(count) for key, _, count in map(str.split, (real.path / "cntlist.rev").open())}
    for word in ("be", "set", "light", "last", "xylophone"):
        used = [counts.get(m.key(), 0) for s in real._senses(word) for m in s.lemmas() if m.name().lower() == word]
        assert used == sorted(used, reverse=True) and len(used) == len(real._senses(word))


def test_the_old_order_is_its_own_lexicon(real):
    old = open_lexicon("wordnet_nouns_first")
    assert [r.word for r in old.lookup("begins", 3, 10).relations] == ["Begin", "begin", "get"]
    assert old.lookup("will", 3, 10).definition[-1] == "george"
    assert open_lexicon(f"wordnet_nouns_first:{real.path}").fingerprint() == old.fingerprint() != real.fingerprint()


def test_relations_do_not_differ_in_case_alone(real):
    for word in ("begins", "begin", "march", "may", "as"):
        related = [r.word.lower() for r in real.lookup(word, 200, 10).relations]
        assert related and len(set(related)) == len(related)


def test_the_author_of_a_quotation_is_no_part_of_the_gloss(real):
    assert real.lookup("will", 3, 10).definition == (
        "the",
        "capability",
        "of",
        "conscious",
        "choice",
        "and",
        "decision",
        "and",
        "intention",
    )
    assert real.lookup("sunlit", 3, 10).definition == ("lighted", "by", "sunlight")


def test_a_wordnet_without_counts_says_what_serves_instead(machine):
    folder = fake_wordnet(machine / "first")
    with pytest.raises(LexiconError, match=r"no cntlist.rev, .*--lexicon-path wordnet_nouns_first"):
        WordNetLexicon(folder)


@pytest.mark.parametrize("word", ["dogs", "dog", "DOG", "car", "run", "well-known", "bank"])
def test_relations_are_single_tokens_and_never_the_word(real, word):
    entry = real.lookup(word, 200, 200)
    related = [r.word for r in entry.relations]
    assert related and len(set(related)) == len(related)
    assert not [r for r in related if "_" in r or " " in r or r.lower() == word.lower()]
    assert entry.definition and all(w == w.lower() for w in entry.definition)


def test_synonyms_come_before_hyponyms(real):
    kinds = [r.source.split()[0] for r in real.lookup("car", 100, 10).relations]
    assert set(kinds) == {"synonym", "hyponym"} and kinds == sorted(kinds, reverse=True)


def test_synonyms_by_the_alphabet(real):
    synonyms, old = open_lexicon("synonyms"), open_lexicon("wordnet_nouns_first")
    for word in ("car", "Dogs", "bank", "xqzzy"):
        theirs, ours = synonyms.lookup(word, 200, 200), old.lookup(word, 200, 200)
        words = [r.word for r in theirs.relations]
        assert words == sorted(words) and set(words) == {r.word for r in ours.relations if r.source.startswith("synonym")}
        assert (theirs.definition, theirs.definition_source) == (ours.definition, ours.definition_source)
    assert [r.word for r in synonyms.lookup("car", 3, 10).relations] == ["auto", "automobile", "gondola"]
    assert open_lexicon(f"synonyms:{real.path}").fingerprint() == synonyms.fingerprint() != old.fingerprint()
    with pytest.raises(LexiconError, match="no WordNet there"):
        open_lexicon("synonyms:/none")


@pytest.mark.parametrize("word", ["xqzzy", "", " ", "</s>", "/", "\N{GRINNING FACE}", "x" * 10_000])
def test_words_that_it_lacks(real, word):
    entry = real.lookup(word, 3, 10)
    assert entry.relations == entry.definition == ()


def test_the_fingerprint_is_that_of_the_files(machine):
    def fingerprint(folder, kind=WordNetLexicon):
        lexicon = object.__new__(kind)  # without NLTK, which would want to read them
        lexicon.path = folder
        return lexicon.fingerprint()

    one, other = fake_wordnet(machine / "one"), fake_wordnet(machine / "other")
    for folder in (one, other):
        (folder / "cntlist.rev").touch()
    assert fingerprint(one) == fingerprint(other) != fingerprint(one, NounsFirstLexicon)
    (other / "cntlist.rev").write_text("changed")
    assert fingerprint(one) != fingerprint(other) and fingerprint(one, NounsFirstLexicon) == fingerprint(other, NounsFirstLexicon)
    (other / "data.adv").write_text("changed")
    assert fingerprint(one, NounsFirstLexicon) != fingerprint(other, NounsFirstLexicon)
