"""Damaged files and senseless options: every command says so in one line, or gives the same results; nothing is lost.

``FUZZ_SECONDS`` is how long it goes on (default 30); where the machine is slow, less is tried, but something. The same cases come
first each time, or with ``FUZZ_SEED``, a number, others. A table at the end says what became of them; ``FUZZ_REPORT``, a file,
has each of them.
"""

import os
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from fuzz_mutations import Case, spoils
from fuzz_numbers import LARGE, NUMBERS, VALUES
from fuzz_oracle import BAD, Runner
from fuzz_recipes import RECIPES, make_world
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fairseq_groc.cli import COMMANDS

SECONDS = float(os.environ.get("FUZZ_SECONDS", 30))
SEED = os.environ.get("FUZZ_SEED")
A_SECOND = 12  # cases, at most
OUTS = ("absent/out.json", "text.txt/out.json", "model.pt", "data", "text.txt", "simple.log", "-x", "lexicon.tsv")


@pytest.fixture(scope="module")
def runner(tmp_path_factory, corpus, models, commands):
    world = make_world(tmp_path_factory.mktemp("world"), corpus, models, commands)
    return Runner(world, tmp_path_factory.mktemp("scratch"))


def cases(name: str, runner: Runner) -> st.SearchStrategy:
    """Return a strategy for what may be wrong with a recipe."""
    recipe = RECIPES[name]
    kinds = [of_file(name, file, runner.before[file]) for file in runner.reads(recipe)]
    kinds += [of_option(name, option) for option in NUMBERS[name]]
    for word in recipe.words:
        if word.startswith(("out", "dest")) and name not in ("preprocess", "preprocess-contexts"):  # which are to replace a text
            kinds.append(st.sampled_from(OUTS).map(lambda out, word=word: Case(name, word, f"is {out!r}", instead=out)))
    if not recipe.command.startswith("fairseq-"):  # which write logs, locks and checkpoints of their own
        sizes = st.sampled_from((0, 100, 1000, 5000))
        kinds.append(sizes.map(lambda size: Case(name, "a disk", f"full at {size} bytes", full=size)))
    kinds.append(st.just(Case(name, "--nonsense", "given", more=("--nonsense",))))
    return st.one_of(kinds)


def of_file(name: str, file: str, before: bytes) -> st.SearchStrategy:
    gone = [Case(name, file, "is missing", file=True), Case(name, file, "is a folder", place="folder", file=True)]
    gone.append(Case(name, file, "is a link to nothing", place="link", file=True))
    spoilt = spoils(before).map(lambda spoilt: Case(name, file, spoilt[0], after=spoilt[1], file=True))
    return st.one_of(st.sampled_from(gone), spoilt, spoilt, spoilt)


def of_option(name: str, option: str) -> st.SearchStrategy:
    small = RECIPES[name].command in ("fairseq-train", "training-speed")  # where large ones ask for memory and time
    values = [value for value in VALUES if not small or value not in LARGE]
    whole = st.integers(-100, 50 if small else 10**7)
    numbers = st.one_of(st.sampled_from(values), whole.map(str), st.floats(-2, 2).map(str))
    return numbers.map(lambda value: Case(name, option, repr(value), more=(option, value)))


def test_every_command_is_fuzzed():
    assert set(COMMANDS) <= {recipe.command.replace("-", "_") for recipe in RECIPES.values()}


@pytest.mark.fuzz
@pytest.mark.parametrize("name", RECIPES)
def test_nothing_is_silent(runner, name, request):
    """With time for each command by what it has to spoil."""
    kinds = {name: 2 + len(runner.reads(recipe)) + len(NUMBERS[name]) for name, recipe in RECIPES.items()}
    budget = SECONDS * kinds[name] / sum(kinds.values())
    runner.whole(name)
    end, found = time.monotonic() + budget, defaultdict(dict)

    @settings(
        max_examples=max(2, int(budget * A_SECOND)),
        derandomize=SEED is None,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(name, runner))
    def fuzz(case):
        if not found or time.monotonic() < end:
            outcome, line = runner.outcome(case)
            found[outcome][str(case)] = line.replace("\x00", "\\0").replace("\n", " | ")

    (fuzz if SEED is None else seed(int(SEED))(fuzz))()
    report(name, found, request.config.tried)
    wrong = [f"{outcome}: {case}\n    {line}" for outcome in BAD for case, line in found[outcome].items()]
    assert not wrong, "\n".join(wrong)


def report(name: str, found, tried) -> None:
    tried[name] = Counter({outcome: len(of) for outcome, of in found.items()})
    if path := os.environ.get("FUZZ_REPORT"):
        with Path(path).open("a") as file:
            file.writelines(f"{name}\t{outcome}\t{case}\t{line}\n" for outcome, of in found.items() for case, line in of.items())
