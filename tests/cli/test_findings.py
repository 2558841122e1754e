"""What docs/results.md and the words above its tables say holds for the JSON in the repository."""

import importlib
import json
import statistics

import pytest
from cli_helpers import ROOT

RESULTS = ROOT / "examples" / "papers" / "results"
OURS, ALWAYS = "GroC + corrections", "corrections always there"
CACHES = ("unigram", "local", "unbounded")


@pytest.fixture
def module(monkeypatch):
    """Import a module of examples/papers by its name."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "papers")
    return importlib.import_module


def rows_of(name):
    return json.loads((RESULTS / f"{name}.json").read_text())["rows"]


def perplexities(name):
    return {label: statistics.mean(run["uniform"]["test"] for run in row["runs"]) for label, row in rows_of(name).items()}


@pytest.mark.parametrize("text", ["ptb-cpu", "ptb-quarter", "ptb-quarter-long", "wikitext2-quarter"])
def test_small_groc_with_corrections_leads_on_every_text(text):
    found = perplexities(f"table-2-{text}")
    assert min(found, key=found.get) == OURS
    assert max(found.values()) < json.loads((RESULTS / f"table-2-{text}.json").read_text())["ngram"]["test"]


def test_corrections_and_groc_are_close_when_training_lasts_longer():
    rows = rows_of("table-2-ptb-quarter-long")
    ours, groc = ([round(run["uniform"]["test"], 1) for run in rows[label]["runs"]] for label in (OURS, "GroC"))
    assert max(ours) < min(groc) and (ours[1], groc[1]) == (168.7, 169.4)


def test_at_the_papers_size_groc_leads_with_corrections_or_without():
    found = {label: row["runs"][0]["test"] for label, row in rows_of("table-2-ptb-paper-short").items()}
    assert sorted(found, key=found.get) == ["GroC", OURS, "tied", "adaptive", "bilinear"]
    assert found[OURS] < 0.9 * found["tied"]
    rows = rows_of("table-2-ptb-paper-short")
    curves = {label: [ppl for _, ppl in row["runs"][0]["curve"]] for label, row in rows.items()}
    ahead = [ours < groc for ours, groc in zip(curves[OURS], curves["GroC"], strict=True)]
    assert ahead == [True] * 12 + [False] * 3
    falls = {label: 1 - curve[-1] / curve[-4] for label, curve in curves.items()}
    assert {label for label, fall in falls.items() if fall > 0.02} == {"GroC", OURS, "adaptive"}
    with_dropout = {run["setting"].get("dropout_out", 0): run["valid"] for run in rows["tied"]["tried"]}
    assert with_dropout[0] < with_dropout[0.4]


def test_words_in_an_open_vocabulary_cost_fewer_bits_than_pieces():
    results = json.loads((ROOT / "examples" / "subwords" / "results" / "reviews.json").read_text())
    kinds = ("open vocabulary", "pieces")
    open_words, pieces = ([of for label, of in results["rows"].items() if kind in label] for kind in kinds)
    ours, listed = (results["rows"][f"{OURS}, words, {how} vocabulary"] for how in ("open", "union"))
    for domain in results["domains"]:
        least = min(of[domain]["bits_per_byte"] for of in pieces)
        assert ours[domain]["bits_per_byte"] == min(of[domain]["bits_per_byte"] for of in open_words) < least
        assert listed[domain]["bits_per_byte"] == min(of[domain]["bits_per_byte"] for of in results["rows"].values())
        for part in ("known", "new"):
            assert ours[domain][part]["bits"] < min(of[domain][part]["bits"] for of in pieces)
        for size in ("2,000", "10,000"):
            tied, composed = (results["rows"][f"{name}, {size} pieces"][domain]["bits_per_byte"] for name in ("tied", OURS))
            assert 0.005 < 1 - composed / tied < 0.03
    leads = [1 - ours[d]["bits_per_byte"] / min(of[d]["bits_per_byte"] for of in pieces) for d in results["domains"]]
    assert min(leads) == leads[0] and round(ours["science"]["bits_per_byte"], 2) == 2.02
    speeds = [of["in-domain"]["words_per_second"] for of in pieces]
    assert min(speeds) > 7 * ours["in-domain"]["words_per_second"]
    updates = {label: model["updates"] for label, model in results["models"].items()}
    assert updates["GroC, words"] < 0.6 * updates["tied, words"]


def test_groc_with_corrections_leads_on_awd_lstm_too():
    found = perplexities("awd-heads-ptb-awd-adam")
    assert min(found, key=found.get) == OURS and sorted(found, key=found.get)[1] == "tied"


def test_groc_is_behind_bilinear_on_little_text_and_last_on_much():
    little, much = perplexities("table-2-ptb-quarter"), perplexities("table-2-ptb-cpu")
    assert sorted(little, key=little.get)[:3] == [OURS, "bilinear", "GroC"] and max(much, key=much.get) == "GroC"
    curves = {label: row["runs"][0]["curve"] for label, row in rows_of("table-2-ptb-cpu").items()}
    falls = {label: curve[-1][1] / curve[-3][1] for label, curve in curves.items()}
    assert min(falls, key=falls.get) == "GroC"
    bins = bins_of("figure-3-ptb-quarter")
    assert all(of["0"] > 0 > of["1 to 50"] for label, of in bins.items() if label != OURS)


def test_corrections_gain_in_every_band_of_words():
    bins = bins_of("figure-3-corrections-ptb-quarter")
    bins = {label: {band: gain for band, gain in of.items() if band != "<unk>"} for label, of in bins.items()}
    assert set(bins) == {"tied", "adaptive", "bilinear", "GroC"}
    assert {(label, band) for label, of in bins.items() for band, gain in of.items() if gain < 0} == {("bilinear", "1 to 50")}
    assert all(max(of, key=of.get) == "0" for of in bins.values())


def bins_of(name):
    """Return the mean gain of the model over each baseline, by occurrences."""
    bins = json.loads((RESULTS / f"{name}.json").read_text())["found"]["bins"]
    return {label: {band["label"]: band["mean"] for band in of} for label, of in bins.items()}


@pytest.mark.parametrize("model", ["GroC", "GroC + out"])
def test_both_parts_of_the_lexicon_help(model):
    found = perplexities("table-3-ptb-quarter")
    both, surface = found[model], found[f"{model}, surface"]
    for part in ("no relations", "no definitions"):
        assert both < found[f"{model}, {part}"] < (both + surface) / 2
    assert found["GroC + out"] < found["GroC"]


def test_corrections_need_both_sides_dropout_and_width():
    found = perplexities("corrections-ptb-quarter")
    groc, ours = perplexities("table-2-ptb-quarter")["GroC"], found[OURS]
    assert found["of the output alone"] > groc and found["of the input alone"] > groc
    assert found["left out with a chance of 0"] - ours > (groc - ours) / 3
    tied = perplexities("table-2-ptb-quarter")["tied"]
    assert all(ours < found[f"{width} numbers a word"] < tied for width in (16, 32, 64))
    assert ours < found["no relations, no definitions"]
    assert 1.015 * ours < found["an output network in place of the map"] < found["no map of h"]
    assert found["composed words learn as fast as the rest"] > 1.03 * ours


def test_groc_with_corrections_leads_in_other_domains(module):
    ways_of = module("pictures").ways_of
    results = json.loads((RESULTS / "table-5-domains-cpu.json").read_text())
    for domain in results["domains"]:
        ours, tied = (ways_of(results["rows"], model, domain) for model in (OURS, "tied"))
        gains = {way: 1 - ours[way] / tied[way] for way in ours}
        assert min(gains.values()) > 0
        if domain != results["trained_on"]:
            assert max(gains, key=gains.get) == "finetuned"
        for model in ("tied", "GroC", OURS):
            of = {
                cache: results["rows"][f"{model} + {cache}"][domain]["all"]["perplexity"]
                for cache in ("unigram", "local", "unbounded")
            }
            assert min(of, key=of.get) == "local"


def test_locked_dropout_is_worth_the_most_of_awd_lstm_s_training():
    found = perplexities("awd-ptb-awd")
    whole = found.pop("AWD-LSTM")
    costs = {label: value / whole - 1 for label, value in found.items()}
    assert 0.025 < costs.pop("no locked dropout") < 0.035
    assert len(costs) == 4 and all(abs(cost) < 0.01 for cost in costs.values())


def test_it_leads_at_equal_time_and_beside_an_ngram():
    results = json.loads((RESULTS / "table-5-domains-cpu.json").read_text())
    found = {label: {domain: at["all"]["perplexity"] for domain, at in of.items()} for label, of in results["rows"].items()}
    for domain in results["domains"]:
        finetuned = [", finetuned"] if domain != results["trained_on"] else []
        for way in (" + uniform", " + local", " + ngram", *finetuned):
            assert found[f"{OURS}{way}"][domain] < found[f"tied at equal time{way}"][domain] < found[f"tied{way}"][domain]
        assert found[f"{OURS} + uniform"][domain] < found["Kneser-Ney 4-gram"][domain]
        assert found[f"{OURS} + ngram"][domain] < min(found[f"{OURS} + uniform"][domain], found["Kneser-Ney 4-gram"][domain])
    gains = {domain: 1 - found[f"{OURS} + ngram"][domain] / found[f"{OURS} + uniform"][domain] for domain in results["domains"]}
    assert max(gains, key=gains.get) == results["trained_on"]
    ours, always = (results["rows"][f"{label} + uniform"]["in-domain"]["new"]["perplexity"] for label in (OURS, ALWAYS))
    assert always > 2 * ours
    for domain in set(results["domains"]) - {results["trained_on"]}:
        assert found[f"{ALWAYS}, finetuned"][domain] < found[f"{OURS}, finetuned"][domain]
    ours, always = (
        [found["settings"]["new_word_discount"] for found in results["rows"][f"{label} + uniform"].values()]
        for label in (OURS, ALWAYS)
    )
    assert min(ours) >= 1 > max(always)


def test_bilinear_leads_at_equal_time_on_all_of_penn_treebank(module):
    equal_time, times = module("equal_time"), ROOT / "benchmarks" / "results" / "step-by-step-small.json"
    curves, _ = equal_time.of_files(RESULTS / "table-2-ptb-cpu.json", times, "tied")
    end = curves["tied"][-1][0]
    for place in (end / 4, end / 2, end):
        found = {label: equal_time.at(curve, place) for label, curve in curves.items()}
        assert min((label for label in found if found[label]), key=found.get) == "bilinear"
    assert sorted(found, key=found.get)[1] == OURS and found[OURS] < 1.02 * found["bilinear"]


def test_weights_that_begin_small_cost_more_than_the_head():
    pairs = {}
    for label, row in rows_of("table-2-ptb-quarter").items():
        tried = [run for run in row["tried"] if run["setting"]["lr"] == 0.003 and not run["setting"]["output_dropout"]]
        found = {run["setting"]["init_range"]: run["valid"] for run in tried}
        if {0.05, 0.2} <= found.keys():
            pairs[label] = found[0.05], found[0.2]
    heads = max(wide for _, wide in pairs.values()) / min(wide for _, wide in pairs.values())
    assert len(pairs) == 5 and sum(small / wide > heads for small, wide in pairs.values()) >= 4
