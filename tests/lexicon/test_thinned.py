import pytest

from fairseq_groc.lexicon import Entry, Relation, ThinnedLexicon

ENTRY = Entry((Relation("other", "here"),), ("a", "gloss"), "there")


class Everything:
    name = "everything"

    def fingerprint(self):
        return "everything"

    def lookup(self, word, max_relations, max_definition):
        return ENTRY


def kept(share, seed=1):
    thinned = ThinnedLexicon(Everything(), share, seed)
    entries = [thinned.lookup(f"word{i}", 3, 10) for i in range(4_000)]
    return [{i for i, e in enumerate(entries) if getattr(e, part)} for part in ("relations", "definition")]


def test_a_share_is_kept_of_each_part_independently_and_nested():
    relations, definitions = kept(0.3)
    assert len(relations) == pytest.approx(1_200, abs=90) and len(definitions) == pytest.approx(1_200, abs=90)
    assert len(relations & definitions) == pytest.approx(360, abs=60)
    assert relations < kept(0.5)[0] and definitions < kept(0.5)[1]
    assert kept(0.3, seed=2)[0] != relations
    assert kept(0) == [set(), set()]
    assert ThinnedLexicon(Everything(), 1).lookup("word", 3, 10) == ENTRY


def test_fingerprints_differ():
    prints = {ThinnedLexicon(Everything(), share, seed).fingerprint() for share in (0.3, 0.5) for seed in (1, 2)}
    assert len(prints | {"everything"}) == 5


def test_other_shares_do_not_look_words_up_again():
    class Counting(Everything):
        looked_up = 0

        def lookup(self, word, max_relations, max_definition):
            self.looked_up += 1
            return ENTRY

    lexicon = Counting()
    whole = ThinnedLexicon(lexicon, 1)
    assert whole.lookup("word", 3, 10) == whole.with_share(1).lookup("word", 3, 10) == ENTRY
    assert not whole.with_share(0).lookup("word", 3, 10).relations
    assert lexicon.looked_up == 1
    assert whole.with_share(0.3).fingerprint() == ThinnedLexicon(Everything(), 0.3).fingerprint()
