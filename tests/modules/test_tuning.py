"""The search of settings against the adapters themselves."""

import math

import pytest
import torch

from fairseq_groc.evaluation.tuning import Grid, Pass, best, heat_map, search
from fairseq_groc.modules.adapters import Adapter, AdapterSettings

V, NEW, WORDS = 9, torch.arange(9) >= 7, torch.arange(9) >= 4


@pytest.fixture
def text():
    """Log-probabilities (50, V) and targets (50)."""
    random = torch.Generator().manual_seed(1)
    return torch.randn(50, V, dtype=torch.double, generator=random).log_softmax(-1), torch.randint(4, V, (50,), generator=random)


def found_in(text, settings=1):
    lprobs, targets = text
    own = lprobs[torch.arange(50), targets]
    mass = torch.linspace(0.05, 0.5, settings * 50, dtype=torch.double).log().view(settings, 50)
    present = torch.arange(50) > 0
    mass[:, 0] = -math.inf
    return Pass(own, lprobs[:, NEW].logsumexp(-1), targets, mass, present, WORDS, NEW)


def test_discounts_and_the_uniform_distribution_are_the_adapters(text):
    lprobs, targets = text
    tried = list(search(found_in(text), Grid("none", uniform=(0.0, 0.2), discounts=(3.0, 1.0, 0.1))))
    assert len(tried) == 6
    for settings, ppl in tried:
        adapted = Adapter(settings, WORDS, NEW).adapt_model(lprobs.clone())[torch.arange(50), targets]
        assert ppl == pytest.approx((-adapted.mean()).exp().item(), rel=1e-6)


def test_a_cache_is_mixed_in_where_it_remembers(text):
    found, grid = found_in(text, 4), Grid("local", weights=(0.1, 0.4), thetas=(0.0, 1.0), sizes=(5, 9))
    tried = dict(search(found, grid))
    assert len(tried) == 8
    settings = AdapterSettings(local_weight=0.4, cache_theta=1.0, cache_size=5)  # the third of the cache's settings
    p = 0.6 * found.lprobs.exp() + 0.4 * found.mass[2].exp()
    p[0] = found.lprobs[0].exp()  # nothing is remembered yet
    assert tried[settings] == pytest.approx((-p.log().mean()).exp().item(), rel=1e-6)


def test_the_heat_map_has_the_winner_and_its_neighbours(text):
    grid = Grid("local", weights=(0.1, 0.4), thetas=(0.0, 1.0), sizes=(5, 9), discounts=(1.0, 0.1))
    tried = list(search(found_in(text, 4), grid))
    axis, across, lambdas, table = heat_map(tried, grid)
    winner, ppl = best(tried)
    assert (axis, across, lambdas) == ("cache_theta", [0.0, 1.0], [0.6, 0.9])
    assert table[lambdas.index(1 - winner.local_weight)][across.index(winner.cache_theta)] == ppl
    assert ppl == min(value for row in table for value in row)
