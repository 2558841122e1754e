"""The parts of the pages of results: commands, columns, names at the ends of curves."""

import importlib
import json
import shlex

import pytest
from cli_helpers import ROOT


@pytest.fixture
def module(monkeypatch):
    """Import a module of examples/papers by its name."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "papers")
    return importlib.import_module


def test_a_long_command_is_the_same_on_several_lines(module):
    command = "python run.py " + " ".join(f"'GroC + out, number {number}'" for number in range(20))
    lines = module("report").typed(command).splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= 120 and all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


def test_what_is_the_same_in_all_rows_is_no_column(module):
    without = module("cells").without_constants
    columns, rows = ["", "test", "weight", "paper", "tried"], [["a", "1", "0.1", "", "2"], ["b", "1", "0.1", "", "3"]]
    left = ["", "test", "tried"], [["a", "1", "2"], ["b", "1", "3"]], {"weight": "0.1"}
    assert without(columns, rows, ("weight", "paper", "tried")) == left
    assert without(columns, rows[:1], ("weight", "paper")) == (["", "test", "weight", "tried"], [["a", "1", "0.1", "2"]], {})


def test_names_move_apart_where_curves_end_close_by(module):
    spaced = module("pictures").spaced
    assert spaced([0.0, 50.0, 100.0]) == [0.0, 50.0, 100.0]
    assert spaced([0.0, 0.0, 0.0]) == pytest.approx([-10, 0, 10], abs=0.1)
    assert spaced([0.0, 4.0, 100.0]) == [-3.0, 7.0, 100.0]


def test_models_that_are_finetuned_in_two_ways_have_the_better_one(module):
    def row(perplexity):
        return {"far": {"all": {"perplexity": perplexity}}}

    rows = {
        "tied + uniform": row(9),
        "tied, finetuned": row(7),
        "tied, drawn rows, finetuned": row(6),
        "tied at last, finetuned": row(1),
    }
    rows |= {"tied + dynamic": row(5), "tied + dynamic + local": row(4), "tied + corrections + local": row(1)}
    found = {"as trained": 9, "dynamic evaluation": 5, "both": 4, "finetuned": 6}
    assert module("pictures").ways_of(rows, "tied", "far") == found
    assert module("pictures").ways_of(rows, "tied", "near") == {}


def test_a_curve_ends_at_a_time_with_its_perplexity_then(module):
    until = module("equal_time").until
    assert until([(10, 400.0), (30, 100.0)], 20) == [(10, 400.0), (20, pytest.approx(200))]
    assert until([(10, 400.0), (15, 100.0)], 20) == [(10, 400.0), (15, 100.0)]


def test_domains_without_figures_have_empty_panels(module, tmp_path):
    found = {"tied + unigram": {"far": {"all": {"perplexity": 9}}}}
    curves = {"far": [{"run": "far-tied", "subset": "far", "points": [[1, "inf"]]}]}
    rows = {**found, "tied, finetuned": {}}
    results = {"domains": ["far"], "learning_rates": {"tied": {}}, "rows": rows, "finetuning": curves}
    for name in ("draw_domains", "draw_finetuning"):
        getattr(module("pictures"), name)(results, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_pictures_are_drawn_from_the_published_numbers(module, tmp_path):
    draw, results = module("report").draw, ROOT / "examples" / "papers" / "results"
    for path in results.glob("*.json"):
        draw(json.loads(path.read_text()), tmp_path / path.name)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    made_elsewhere = {"equal-time-ptb-cpu.png", "equal-time-ptb-quarter.png"}
    assert drawn | made_elsewhere == {path.name for path in results.glob("*.png")}


def test_changes_are_of_the_seeds_that_both_rows_have(module):
    def row(**tests):
        return {"runs": [{"seed": int(seed[1:]), "test": 1.0, "uniform": {"test": test}} for seed, test in tests.items()]}

    rows = {"first": row(s1=100.0, s2=200.0), "one": row(s1=110.0), "both": row(s2=220.0, s1=100.0), "none": row(s3=1.0)}
    found = {"first": "", "one": "+10.0%", "both": "+5.0% (+10.0%, +0.0%)", "none": ""}
    assert module("cells").changes(rows) == found


def test_the_papers_models_are_larger_unless_ours_have_their_size(module):
    about = {"title": "T", "experiment": "table-2", "dataset": "ptb"}
    run = {"seed": 1, "parameters": 1, "test": 2.0, "uniform": {"test": 2.0, "weight": 0.0}, "valid": 3.0}
    run["made"] = {"updates": 13_280, "in_bf16": False, "machine": "CPU"}
    row = {"setting": {"lr": 0.001}, "paper": {"test": 86.2}, "runs": [run], "tried": [{**run, "setting": {"lr": 0.001}}]}
    same = "The paper's models are trained"
    for scale, said in {"cpu": "far larger and trained", "paper-short": same, "paper": same}.items():
        assert said in "\n".join(module("report").experiment({**about, "scale": scale, "rows": {"tied": row}}, "stem"))
    run["made"]["updates"] = None  # to the end of the schedule
    assert "convergence" not in "\n".join(module("report").experiment({**about, "scale": "paper", "rows": {"tied": row}}, "stem"))
