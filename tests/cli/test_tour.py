"""The tour on a few lines: each step prints what it should, and its page shows the code that ran."""

import importlib.util
import itertools
import logging
import re
import sys

import forked_programs
import pytest
from cli_helpers import ROOT

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import WordNetLexicon, find_wordnet


@pytest.fixture(scope="module")
def tour():
    """The program; its page is ``tour.page``."""
    folder = ROOT / "examples" / "tour"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield loaded(folder / "tour.py")
    sys.modules.pop("page")


def loaded(path):
    spec = importlib.util.spec_from_file_location("tour", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FirstExamples(WordNetLexicon):
    """WordNet with the first examples of each part of speech alone: to read all of them takes seconds."""

    def examples(self):
        for pos in "nvar":
            senses = self.database.all_synsets(pos)
            yield from itertools.islice(((pos, example) for sense in senses for example in sense.examples()), 250)


@pytest.fixture(scope="module")
def toured(tour, tmp_path_factory):
    """Return the folder of a tour and its page, with what the steps printed by name."""
    try:
        lexicon = FirstExamples(find_wordnet(download=False))
    except LexiconError:
        pytest.skip("no WordNet on this machine")
    folder = tmp_path_factory.mktemp("tour")
    work, copy = folder / "work", folder / "README.md"
    copy.write_text(tour.page.README.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairseq_groc.programs.BIN", forked_programs.folder())
        patch.setattr(tour.page, "README", copy)
        patch.setattr(tour, "lexicon", lambda: lexicon)
        patch.setattr(sys, "argv", f"tour.py --workdir {work} --lines 400 --updates 30 --readme".split())
        try:
            tour.main()
        finally:
            logging.disable(logging.NOTSET)
    blocks = tour.page.BLOCK.finditer(copy.read_text())
    return work, {block[2]: tour.page.PRINTED.findall(block[0])[0].splitlines() for block in blocks}


def words_of(path):
    return set(path.read_text().split())


def numbers(line):
    return [float(found.replace(",", "")) for found in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", line)]


def test_the_page_shows_the_code_that_runs(tour):
    page = tour.page.README.read_text()
    assert [block[2] for block in tour.page.BLOCK.finditer(page)] == [step.__name__ for step in tour.STEPS]
    assert tour.page.renewed(page, tour.STEPS, {}) == page, "python examples/tour/tour.py --readme"
    assert all(printed.strip() for printed in tour.page.PRINTED.findall(page))


def test_training_and_new_words(toured):
    work, printed = toured
    lines, words, parameters = numbers(printed["train"][0])
    assert lines == 400 and words == len(words_of(work / "train.txt")) and parameters > 100_000
    new, texts = numbers(printed["add_words"][0])
    assert new == len(words_of(work / "valid.txt") - words_of(work / "train.txt")) > 0
    assert texts == len((work / "valid.txt").read_text().splitlines())
    unknown, given = (numbers(line)[0] for line in printed["add_words"][1:])
    assert 1 < unknown < 1e6 and 1 < given < 1e6 and unknown != given


def test_neighbours_are_words_of_the_vocabulary(toured):
    work, printed = toured
    known = words_of(work / "train.txt") | words_of(work / "valid.txt")
    found = {word: near.split(", ") for word, _, near in (line.partition(": ") for line in printed["neighbours"])}
    assert len(found) > 1 and not found.keys() & known
    assert all(len(set(near)) == 6 and set(near) <= known for near in found.values())


def test_a_definition_changes_probabilities(toured):
    one, other = ([float(p) for p in re.findall(r"\) = ([\d.e-]+)", line)] for line in toured[1]["definition"])
    assert len(one) == len(other) == 2 and all(0 < p < 1 for p in one + other)
    assert one != other


def test_samples_go_on_from_the_word_in_each_context(toured):
    verb, adjective = (line.partition(": ") for line in toured[1]["sample"])
    assert (verb[0], adjective[0]) == ("verb", "adjective") and verb[2] != adjective[2]
    assert all(line.startswith("the") for said in (verb, adjective) for line in said[2].split(" / "))


def test_the_list_is_ranked(toured):
    scored = [line.split(maxsplit=1) for line in toured[1]["rank"]]
    assert len({text for _, text in scored}) == len(scored) == 4
    scores = [float(score) for score, _ in scored]
    assert scores == sorted(scores, reverse=True) and scores[0] < 0


def test_reading_lowers_the_perplexity(toured):
    work, printed = toured
    definitions, alone, adapted = numbers(printed["adapt"][0])
    assert definitions == len((work / "birds.txt").read_text().splitlines()) > 30
    assert 1 < adapted < alone < 1e6
