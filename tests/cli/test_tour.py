"""The tour on a few lines: each step prints what it should, and its page shows the code that ran."""

import importlib.util
import logging
import re
import sys

import forked_programs
import pytest
from cli_helpers import ROOT

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.wordnet import find_wordnet

STEPS = ["train", "add_words", "neighbours", "definition", "sample", "rank", "adapt"]


def loaded():
    spec = importlib.util.spec_from_file_location("tour", ROOT / "examples" / "tour" / "tour.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def toured(tmp_path_factory):
    """Return the folder of a tour and its page, with what the steps printed by name."""
    try:
        find_wordnet(download=False)
    except LexiconError:
        pytest.skip("no WordNet on this machine")
    tour, folder = loaded(), tmp_path_factory.mktemp("tour")
    work, copy = folder / "work", folder / "README.md"
    copy.write_text(tour.README.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairseq_groc.programs.BIN", forked_programs.folder())
        patch.setattr(tour, "README", copy)
        patch.setattr(sys, "argv", f"tour.py --workdir {work} --lines 400 --updates 3 --readme".split())
        try:
            tour.main()
        finally:
            logging.disable(logging.NOTSET)
    blocks = tour.BLOCK.finditer(copy.read_text())
    return work, {block[2]: tour.PRINTED.findall(block[0])[0].splitlines() for block in blocks}


def words_of(path):
    return set(path.read_text().split())


def numbers(line):
    return [float(found.replace(",", "")) for found in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", line)]


def test_the_page_shows_the_code_that_runs():
    tour = loaded()
    page = tour.README.read_text()
    assert [found[2] for found in tour.BLOCK.finditer(page)] == STEPS
    assert tour.readme(page, {}) == page, "python examples/tour/tour.py --readme"
    assert all(printed.strip() for printed in tour.PRINTED.findall(page))


def test_training_and_new_words(toured):
    work, printed = toured
    lines, words, parameters = numbers(printed["train"][0])
    assert lines == 400 and words == len(words_of(work / "train.txt")) and parameters > 100_000
    new, texts = numbers(printed["add_words"][0])
    assert new == len(words_of(work / "valid.txt") - words_of(work / "train.txt")) > 0
    assert texts == len((work / "valid.txt").read_text().splitlines())
    unknown, given = (numbers(line)[0] for line in printed["add_words"][1:])
    assert 1 < unknown < 1e6 and 1 < given < 1e6 and unknown != given


def test_neighbours_are_words_of_the_training_text(toured):
    work, printed = toured
    spelled, described = (line.partition(": ")[2].split(", ") for line in printed["neighbours"])
    assert all(len(set(found)) == 6 and set(found) <= words_of(work / "train.txt") for found in (spelled, described))
    assert spelled != described


def test_a_definition_changes_probabilities(toured):
    drink, person = (
        [float(p) for p in re.findall(r"p\(zorb \| [^)]+\) = (\S+?)(?:,|$)", line)] for line in toured[1]["definition"]
    )
    assert len(drink) == len(person) == 2 and all(0 < p < 1 for p in drink + person)
    assert all(a != b for a, b in zip(drink, person, strict=True))


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
