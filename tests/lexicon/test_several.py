import pytest

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon import FileLexicon, NoLexicon, find_wordnet, open_lexicon, open_lexicons
from fairseq_groc.lexicon.tables import Origin, known_source


@pytest.fixture
def glossary(tmp_path):
    path = tmp_path / "glossary.tsv"
    path.write_text("Cat\tmachine\ta tracked vehicle\ndog\t\t\n")
    return path


def test_the_first_that_has_a_word_wins(glossary, data):
    both = open_lexicons([str(glossary), str(data / "mini.tsv")])
    first, second = FileLexicon(glossary), FileLexicon(data / "mini.tsv")
    assert both.lookup("cat", 3, 10) == first.lookup("cat", 3, 10) != second.lookup("cat", 3, 10)
    assert both.lookup("dog", 3, 10).relations == () != second.lookup("dog", 3, 10).relations  # an empty entry is one
    assert both.lookup("lion", 1, 2) == second.lookup("lion", 1, 2) != NoLexicon().lookup("lion", 1, 2)
    assert both.lookup("gnu", 3, 10) == NoLexicon().lookup("gnu", 3, 10)
    assert both.name == "glossary.tsv, then mini.tsv"


def test_one_is_itself_and_order_matters(glossary, data):
    paths = [str(glossary), str(data / "mini.tsv")]
    assert open_lexicons(paths[:1]).fingerprint() == FileLexicon(glossary).fingerprint()
    assert len({open_lexicons(chosen).fingerprint() for chosen in (paths, paths[::-1], paths[:1], paths[1:])}) == 4
    with pytest.raises(LexiconError, match="nowhere.tsv: no such file"):
        open_lexicons([*paths, "nowhere.tsv"])


def test_this_machines_wordnet_has_a_name(glossary):
    wordnet = open_lexicon()
    assert open_lexicons().fingerprint() == open_lexicon("wordnet").fingerprint() == wordnet.fingerprint()
    assert open_lexicon(f"wordnet:{find_wordnet()}").fingerprint() == wordnet.fingerprint()
    both = open_lexicons([str(glossary), "wordnet"])
    assert both.lookup("cat", 3, 10).definition == ("a", "tracked", "vehicle")
    assert both.lookup("lion", 3, 10) == wordnet.lookup("lion", 3, 10)


def test_lexicons_of_the_package_are_known_by_their_fingerprints():
    for name in ("none", "wordnet", "wordnet_nouns_first", "synonyms"):
        assert known_source(Origin.of(open_lexicon(name), 3, 10).lexicon) == name
    assert known_source(Origin.of(open_lexicons(["none", "wordnet"]), 3, 10).lexicon) is None
