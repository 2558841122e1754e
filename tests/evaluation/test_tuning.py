"""The search of settings against the adapters themselves."""

import math

import pytest
import torch

from fairseq_groc.adapters import ADAPTERS, CACHES, OPTIONS, Adapter, AdapterSettings, LocalCache, Option
from fairseq_groc.cli import tune
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.grid import Grid
from fairseq_groc.evaluation.tuning import Pass, best, heat_map, search
from fairseq_groc.tasks.checks import check_needed

V, NEW, WORDS = 9, torch.arange(9) >= 7, torch.arange(9) >= 4


@pytest.fixture
def text():
    """Log-probabilities (50, V) and targets (50)."""
    random = torch.Generator().manual_seed(1)
    return torch.randn(50, V, dtype=torch.double, generator=random).log_softmax(-1), torch.randint(4, V, (50,), generator=random)


def found_in(text, *settings):
    lprobs, targets = text
    own = lprobs[torch.arange(50), targets]
    mass = torch.linspace(0.05, 0.5, len(settings) * 50, dtype=torch.double).log().view(len(settings), 50)
    mass[:, 0] = -math.inf
    present = torch.arange(50) > 0
    return Pass(
        own, lprobs[:, NEW].logsumexp(-1), targets, WORDS, NEW, {s: (m, present) for s, m in zip(settings, mass, strict=True)}
    )


def grid_of(cache, **values):
    return Grid.of(cache, values)


def test_discounts_and_the_uniform_distribution_are_the_adapters(text):
    lprobs, targets = text
    grid = grid_of("none", uniform_weight=(0.0, 0.2), new_word_discount=(3.0, 1.0, 0.1))
    tried = dict(search(found_in(text), grid, {}))
    assert len(tried) == 6
    for settings, ppl in tried.items():
        adapted = Adapter(settings, WORDS, NEW).adapt_model(lprobs.clone())[torch.arange(50), targets]
        assert ppl == pytest.approx((-adapted.mean()).exp().item(), rel=1e-6)


def test_an_ngram_shares_out_what_the_model_gives_to_its_words(text):
    """Whatever the discount and the uniform distribution make of that."""
    lprobs, targets = text
    known = (torch.arange(V) >= 2) & (torch.arange(V) < 8)  # one of the new words among them
    q = torch.linspace(0.1, 0.9, 50, dtype=torch.double)
    found = found_in(text)
    found.mass["folder",] = torch.where(known[targets], q.log(), -math.inf), known[targets]
    found.known = known, torch.stack([lprobs[:, known & words].logsumexp(-1) for words in (~NEW, NEW)])
    grid = grid_of(
        "ngram", ngram_path=("folder",), ngram_weight=(0.0, 0.3), uniform_weight=(0.0, 0.2), new_word_discount=(1.0, 0.1)
    )
    tried = dict(search(found, grid, {}))
    assert len(tried) == 8
    for settings, ppl in tried.items():
        p = Adapter(settings, WORDS, NEW).adapt_model(lprobs.clone()).exp()
        own, w = p[torch.arange(50), targets], settings.ngram_weight
        mixed = torch.where(known[targets], (1 - w) * own + w * p[:, known].sum(-1) * q, own)
        assert ppl == pytest.approx((-mixed.log().mean()).exp().item(), rel=1e-6)


LOCAL = {"cache_theta": (0.0, 1.0), "cache_size": (5, 9)}
MASSES = [(0.0, 5), (0.0, 9), (1.0, 5), (1.0, 9)]


def test_a_cache_is_mixed_in_where_it_remembers(text):
    found, grid = found_in(text, *MASSES), grid_of("local", local_weight=(0.0, 0.1, 0.4), **LOCAL)
    tried = dict(search(found, grid, {}))
    assert len(tried) == 9 and tried[AdapterSettings()] == pytest.approx((-found.lprobs.mean()).exp().item(), rel=1e-6)
    p = 0.6 * found.lprobs.exp() + 0.4 * found.mass[1.0, 5][0].exp()
    p[0] = found.lprobs[0].exp()  # nothing is remembered yet
    settings = AdapterSettings(local_weight=0.4, cache_theta=1.0, cache_size=5)
    assert tried[settings] == pytest.approx((-p.log().mean()).exp().item(), rel=1e-6)
    assert not list(search(found, grid, tried))  # what was tried is not tried again


def test_the_heat_map_has_the_winner_and_its_neighbours(text):
    grid = grid_of("local", local_weight=(0.0, 0.1, 0.4), new_word_discount=(1.0, 0.1), **LOCAL)
    tried = dict(search(found_in(text, *MASSES), grid, {}))
    axis, across, lambdas, table = heat_map(tried, "local")
    winner, ppl = best({settings: value for settings, value in tried.items() if settings.caches()})
    assert (axis, across, lambdas) == ("cache_theta", [0.0, 1.0], [0.6, 0.9])
    assert table[lambdas.index(1 - winner.local_weight)][across.index(winner.cache_theta)] == ppl
    assert ppl == min(value for row in table for value in row)
    assert heat_map({AdapterSettings(): 3.0}, "local") is None


def test_of_equals_what_changes_least_is_best(text):
    """A text and a vocabulary without new words; a cache that knows as much as the model."""
    found = found_in(text, (3.0, 5))
    found.new, found.new_words = torch.full_like(found.new, -math.inf), torch.zeros(V, dtype=torch.bool)
    grid = grid_of("none", uniform_weight=(0.0,), new_word_discount=(3.0, 1.0, 0.1))
    assert best(dict(search(found, grid, {})))[0] == AdapterSettings()
    mass, present = found.mass[3.0, 5]
    found.mass[3.0, 5] = torch.where(present, found.lprobs, mass), present
    for weights, expected in (((0.1, 0.3), 0.1), ((0.0, 0.1, 0.3), 0.0)):
        grid = grid_of("local", local_weight=weights, cache_theta=(3.0,), cache_size=(5,))
        assert best(dict(search(found, grid, {})))[0].local_weight == expected


def test_a_grid_grows_where_the_best_is_at_its_edge_and_so_far_only():
    first = grid_of("local", local_weight=(0.1, 0.3, 0.7), cache_theta=(0.0, 1.0), cache_size=(5, 9))

    def at(weight, theta, size):
        return AdapterSettings(local_weight=weight, cache_theta=theta, cache_size=size)

    assert first.edges(at(0.3, 0.0, 5), 50) == ["cache_size"] and first.edges(at(0.3, 1.0, 9), 9) == ["cache_theta"]
    assert first.edges(AdapterSettings(), 50) == []  # without the cache its options do nothing
    grown = first.grown(at(0.7, 1.0, 9), 10, first)
    assert grown.values["local_weight"] == (0.1, 0.3, 0.7, 0.85)  # never 1
    assert grown.values["cache_theta"] == (0.0, 1.0, 2.0) and grown.values["cache_size"] == (5, 9, 10)  # all of the text
    assert grown.grown(at(0.3, 1.0, 10), 10, first) is None
    down = first.grown(at(0.1, 1.0, 5), 50, first)
    assert down.values["local_weight"] == (0.0, 0.0333, 0.1, 0.3, 0.7) and down.values["cache_size"] == (2, 5, 9)
    grid, steps = first, 0
    while grid is not None:
        last, steps = grid, steps + 1
        grid = grid.grown(at(0.3, grid.values["cache_theta"][-1], 6), 50, first)
    assert last.values["cache_theta"] == (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    mixed = grid_of("none", uniform_weight=(0.1, 0.2))  # without any of it a head with rows makes new words impossible
    assert mixed.grown(AdapterSettings(uniform_weight=0.1), 50, mixed).values["uniform_weight"] == (0.05, 0.1, 0.2)
    assert grid_of("none", uniform_weight=(0.1,)).edges(AdapterSettings(uniform_weight=0.1), 50) == []  # one value is no grid


@pytest.mark.parametrize(
    "axis, across, label", [("cache_theta", [0.3, 1.0], "theta"), ("their_kind", ["flat", "steep"], "their_kind")]
)
def test_the_heat_map_of_any_cache(axis, across, label, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(tune, "save_figure", lambda figure, path: drawn.append(figure.axes[0]))
    tune.draw(axis, across, [0.9, 0.7], [[3.0, 2.0], [1.0, 4.0]], tmp_path / "map.png")
    ticks = [tick.get_text() for tick in drawn[0].get_xticklabels()]
    assert drawn[0].get_xlabel() == label and ticks == [str(value).removesuffix(".0") for value in across]


@pytest.fixture
def theirs(monkeypatch):
    """Register the local cache again, as a user may: its options are those of both."""
    options = {"theirs_weight": Option(0.0, "", "weight", "weights"), **LocalCache.options}
    for registry, entry in ((ADAPTERS, LocalCache), (CACHES, LocalCache), (ADAPTERS.taken, options)):
        monkeypatch.setitem(registry, "theirs", entry)
    monkeypatch.setitem(OPTIONS, "theirs_weight", options["theirs_weight"])


@pytest.mark.parametrize("cache", ["local", "theirs"])
def test_an_option_of_two_caches_acts_with_either(theirs, cache):
    check_needed(AdapterSettings(**{f"{cache}_weight": 0.1}, cache_theta=1.0))
    with pytest.raises(OptionError, match="--cache-theta does nothing without --local-weight or --theirs-weight: give both"):
        check_needed(AdapterSettings(cache_theta=1.0))
    grid = grid_of(cache, **{f"{cache}_weight": (0.1,)}, cache_theta=(1.0, 3.0))
    assert grid.edges(AdapterSettings(**{f"{cache}_weight": 0.1}, cache_theta=3.0), 50) == ["cache_theta"]


def test_a_folder_of_two_caches_goes_with_either(theirs, monkeypatch):
    monkeypatch.setitem(ADAPTERS.taken, "theirs", ADAPTERS.taken["unbounded"])
    given = {name: (option.default,) for name, option in OPTIONS.items()} | {"cache_text": ("folder",)}
    for cache in ("unbounded", "theirs"):
        tune.refuse_idle(cache, given)
    with pytest.raises(OptionError, match="--cache-text does nothing without --cache unbounded: give both"):
        tune.refuse_idle("local", given)
