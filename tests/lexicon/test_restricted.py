from fairseq_groc.lexicon import Entry, Relation, RestrictedLexicon

RELATIONS = tuple(Relation(word, f"from {word}") for word in ("a", "b", "c", "d"))


class Everything:
    name = "everything"

    def fingerprint(self):
        return "everything"

    def lookup(self, word, max_relations, max_definition):
        return Entry(RELATIONS[:max_relations], ("c", "x", "d", "a")[:max_definition], "there")


def test_words_of_the_vocabulary_are_kept_in_order_up_to_the_limits():
    lexicon = RestrictedLexicon(Everything(), ["d", "b", "c"])
    assert lexicon.lookup("word", 2, 2) == Entry(RELATIONS[1:3], ("c", "d"), "there")
    assert lexicon.lookup("word", 9, 1) == Entry(RELATIONS[1:], ("c",), "there")
    assert RestrictedLexicon(Everything(), ["z"]).lookup("word", 3, 10) == Entry()


def test_another_vocabulary_is_another_lexicon():
    prints = [RestrictedLexicon(Everything(), words).fingerprint() for words in (["a", "b"], ["b", "a"], ["a"])]
    assert prints[0] == prints[1] != prints[2] and "everything" not in prints
