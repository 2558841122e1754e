"""What docs/results.md and the words above its tables say holds for the JSON in the repository."""

import importlib
import itertools
import json
import math
import statistics

import numpy as np
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


def test_bilinear_is_within_the_noise_of_corrections_on_all_of_penn_treebank():
    rows = rows_of("table-2-ptb-cpu")
    ours, *bilinear = (run["uniform"]["test"] for label in (OURS, "bilinear") for run in rows[label]["runs"])
    spread = statistics.stdev(run["uniform"]["test"] for run in rows_of("table-2-ptb-quarter")[OURS]["runs"])
    assert ours < bilinear[0] < ours + spread and round(bilinear[1], 1) == 101.7


def test_steps_in_bfloat16_take_so_much_of_their_time():
    shares = {}
    for name in ("scaling", "scaling-ptb", "scaling-awd"):
        printed = json.loads((ROOT / "benchmarks" / "results" / "printed" / f"{name}.json").read_text())["printed"]
        steps = {line.split()[1]: float(line.split()[2].replace(",", "")) for line in printed[2:]}
        shares[name] = {run: steps[f"{run}-bf16"] / steps[run] for run in steps if f"{run}-bf16" in steps}
        assert name != "scaling" or steps["corrected-0.05-bf16"] < steps["tied"]
        (awd,) = (line.split()[6] for line in printed if "tied-awd" in line)
        assert awd == {"scaling": "1.01", "scaling-ptb": "1.05", "scaling-awd": "1.07"}[name]
        slower = [steps[f"corrected-0.05{how}"] / steps[f"tied{how}"] for how in ("", "-bf16") if "corrected-0.05" in steps]
        assert not slower or (max(slower) < 1.5 and slower[0] < 1.3 and round(min(slower), 1) >= 1.1)
    assert all(0.55 < share < 0.75 for share in shares["scaling"].values()) and len(shares["scaling"]) == 3
    assert shares["scaling-ptb"]["sampled-0.1"] < 0.55
    found = perplexities("corrections-ptb-quarter")
    assert abs(found["products in bfloat16"] / found[OURS] - 1) < 0.005


def test_a_factor_cell_takes_so_many_times_the_time_of_an_lstm():
    lines = json.loads((ROOT / "benchmarks" / "results" / "printed" / "factor_cell.json").read_text())["printed"]
    shown = {"": (1.2, 1.5), ", recurrent dropout": (1.4, 1.5), ", running text": (1.5, 1.7), ", layer norm": (2.8, 3.4)}
    for how, ratios in shown.items():
        found = [line.removeprefix(f"FactorCell{how} ").split()[4] for line in lines if line.startswith(f"FactorCell{how}  ")]
        assert tuple(round(float(ratio), 1) for ratio in found) == ratios


def test_corrections_and_groc_are_close_when_training_lasts_longer():
    rows = rows_of("table-2-ptb-quarter-long")
    ours, groc = ([round(run["uniform"]["test"], 1) for run in rows[label]["runs"]] for label in (OURS, "GroC"))
    assert max(ours) < min(groc) and (ours[1], groc[1]) == (168.7, 169.4)


def test_tied_at_the_papers_size_is_trained_until_its_schedule_ends():
    (run,) = rows_of("table-2-ptb-paper")["tied"]["runs"]
    curve = [perplexity for _, perplexity in run["curve"]]
    assert len(curve) == 50 and [round(found, 1) for found in (run["test"], run["valid"])] == [82.2, 86.7]
    losses = [round(math.log2(perplexity), 3) for perplexity in curve]  # as fairseq compares them
    assert min(losses[:42]) == losses[41] < min(losses[:41]) and losses[41] <= min(losses[42:])
    assert "--patience 8 " in run["made"]["options"] and run["made"]["updates"] is None
    assert round(run["cost"]["seconds"] / 3600, 1) == 13.6


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


def test_composed_pieces_help_a_transformer():
    rows = json.loads((ROOT / "examples" / "subwords" / "results" / "transformers.json").read_text())["rows"]
    for size, least, most in (("2,000", 0, 0.01), ("10,000", 0.01, 0.02)):
        tied, composed = (rows[f"transformer, {name}, {size} pieces"] for name in ("tied", OURS))
        gains = [1 - composed[domain]["bits_per_byte"] / tied[domain]["bits_per_byte"] for domain in tied]
        assert least < min(gains) < max(gains) < most


@pytest.mark.parametrize("text", ["ptb", "wikitext2"])
def test_groc_with_corrections_leads_on_awd_lstm_too(text):
    found, rows = perplexities(f"awd-heads-{text}-awd-adam"), rows_of(f"awd-heads-{text}-awd-adam")
    assert sorted(found, key=found.get)[:2] == [OURS, "tied"]
    ours, tied = (rows[label]["runs"][0]["curve"] for label in (OURS, "tied"))
    assert min(ppl for updates, ppl in ours if updates <= 0.7 * tied[-1][0]) < min(ppl for _, ppl in tied)
    tried = [[one["valid"] for one in rows[label]["tried"]] for label in ("tied", "bilinear", "deep residual") if text == "ptb"]
    by_sgd = {label: row["runs"][0]["uniform"]["test"] for label, row in rows_of("drill-table-4-ptb-awd").items()}
    assert text != "ptb" or by_sgd["4 layers"] < found[OURS] < by_sgd["tied"]
    assert text != "ptb" or rows_of("drill-table-4-ptb-awd")["tied"]["runs"][0]["test"] < rows[OURS]["runs"][0]["test"]
    costs = {label: rows[label]["runs"][0]["cost"] for label in ("tied", "GroC", OURS)}
    seconds = {label: round(cost["seconds"]) for label, cost in costs.items() if cost}
    assert seconds == ({"tied": 809, "GroC": 1210, OURS: 825} if text == "ptb" else {"tied": 2448, OURS: 2516})
    assert all(plain < dropped for plain, dropped in tried)


def test_deep_residual_on_awd_lstm_stops_early_on_wikitext2():
    rows = rows_of("awd-heads-wikitext2-awd-adam")
    curves = {label: row["runs"][0]["curve"] for label, row in rows.items()}
    best, last = min(curves["deep residual"], key=lambda place: place[1])[0], curves["deep residual"][-1][0]
    assert best < last / 2
    for *_, ours in (pair for pair in zip(*curves.values(), strict=True) if pair[0][0] > 747):
        assert ours[1] < min(ppl for label, curve in curves.items() if label != OURS for u, ppl in curve if u == ours[0])


def test_groc_on_awd_lstm_ends_level_with_tied_on_wikitext2():
    tied, groc = (rows_of("awd-heads-wikitext2-awd-adam")[label]["runs"][0] for label in ("tied", "GroC"))
    assert groc["parameters"] < 0.22 * tied["parameters"] and abs(groc["valid"] / tied["valid"] - 1) < 0.01
    behind = [groc["test"] / tied["test"] - 1, groc["uniform"]["test"] / tied["uniform"]["test"] - 1]
    assert [round(one, 2) for one in behind] == [0.03, 0.08]


def test_groc_is_behind_bilinear_on_little_text_and_last_on_much():
    little, much = perplexities("table-2-ptb-quarter"), perplexities("table-2-ptb-cpu")
    assert sorted(little, key=little.get)[:3] == [OURS, "bilinear", "GroC"] and max(much, key=much.get) == "GroC"
    curves = {label: row["runs"][0]["curve"] for label, row in rows_of("table-2-ptb-cpu").items()}
    falls = {label: curve[-1][1] / curve[-3][1] for label, curve in curves.items()}
    assert min(falls, key=falls.get) == "GroC"
    bins = bins_of("figure-3-ptb-quarter")
    bins.pop(OURS)
    assert all(of["0"] > 0 > of["1 to 50"] and of["251 to 2,500"] > 0.04 for of in bins.values()) and len(bins) == 3
    assert {label for label, of in bins.items() if abs(of["> 2,500"]) < 0.015} == {"tied", "adaptive"}


def test_corrections_gain_in_every_band_of_words():
    bins = bins_of("figure-3-corrections-ptb-quarter")
    bins = {label: {band: gain for band, gain in of.items() if band != "<unk>"} for label, of in bins.items()}
    assert set(bins) == {"tied", "adaptive", "bilinear", "GroC"}
    assert {(label, band) for label, of in bins.items() for band, gain in of.items() if gain < 0} == {("bilinear", "1 to 50")}
    assert all(max(of, key=of.get) == "0" for of in bins.values())


def test_tied_and_groc_are_of_another_training_in_the_bins():
    found = json.loads((RESULTS / "figure-3-corrections-ptb-quarter.json").read_text())["found"]
    lost = {label: sum(band["mean"] * band["tokens"] for band in of) / found["tokens"] for label, of in found["bins"].items()}
    there = {label: row["runs"][0]["uniform"]["test"] for label, row in rows_of("table-2-ptb-quarter").items()}
    here = {label: there[OURS] * math.exp(nats) for label, nats in lost.items()}
    assert [round(of[label], 1) for of in (here, there) for label in ("tied", "GroC")] == [201.7, 195.7, 204.4, 195.0]
    assert all(here[label] == pytest.approx(there[label], rel=1e-3) for label in ("bilinear", "adaptive"))


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
        assert (found[f"{model}, {part}"] / both > 1.03) == (model == "GroC + out")
        valid = [rows_of("table-3-ptb-quarter")[label]["runs"][0]["valid"] for label in (model, f"{model}, {part}")]
        assert (valid[1] / valid[0] > 1.01) == (model == "GroC + out")
    assert found["GroC + out"] < found["GroC"]


def test_corrections_need_both_sides_dropout_and_width():
    found = perplexities("corrections-ptb-quarter")
    groc, ours = perplexities("table-2-ptb-quarter")["GroC"], found[OURS]
    assert found["corrections of the output alone"] > groc and found["corrections of the input alone"] > groc
    assert found["correction dropout 0"] - ours > (groc - ours) / 3
    assert 1.02 * ours < found["correction dropout 0.1"] < found["correction dropout 0"]
    tied = perplexities("table-2-ptb-quarter")["tied"]
    assert all(ours < found[f"corrections of {width} numbers"] < tied for width in (16, 32, 64))
    rows = rows_of("corrections-ptb-quarter")
    for width, d in ((16, 48), (32, 64), (64, 88)):
        narrow, table = (rows[label]["runs"][0]["parameters"] for label in (f"corrections of {width} numbers", f"tied, d = {d}"))
        assert abs(1 - table / narrow) < 0.03 and found[f"tied, d = {d}"] > 1.19 * found[f"corrections of {width} numbers"]
    heads = perplexities("table-2-ptb-quarter")
    ahead = [label for label in heads if found["corrections of 16 numbers"] < heads[label]]
    assert {*heads} - {*ahead} == {OURS} and found["corrections of 16 numbers"] > 0.99 * heads["bilinear"]
    assert ours < found["no relations, no definitions"]
    assert 1.015 * ours < found["output network in place of the map"] < found["no map of h"]
    assert found["composed words learn as fast as the rest"] > 1.03 * ours


def test_what_brings_corrections_forward_costs_at_the_end():
    rows, final = rows_of("corrections-ptb-quarter"), perplexities("corrections-ptb-quarter")
    for label in ("correction dropout 0.1", "output network in place of the map"):
        found, ours = ([dict(map(tuple, run["curve"])) for run in rows[row]["runs"]] for row in (label, OURS))
        early = (199, 335, 398)  # of 1,992 updates
        gains = [statistics.mean(1 - a[at] / b[at] for a, b in zip(found, ours, strict=True)) for at in early]
        assert 0.025 < min(gains) < max(gains) < 0.075
        assert 1.015 < final[label] / final[OURS] < 1.035


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


def test_dynamic_evaluation_is_worth_the_most_to_composed_words(module):
    results = json.loads((RESULTS / "table-5-domains-dynamic-cpu.json").read_text())
    found = {model: module("pictures").ways_of(results["rows"], model, "science") for model in ("tied", "GroC", OURS)}
    gains = {model: round(100 * (1 - of["dynamic evaluation"] / of["as trained"])) for model, of in found.items()}
    assert gains == {"tied": 38, "GroC": 47, OURS: 49}
    assert {model: round(of["both"]) for model, of in found.items()} == {"tied": 492, "GroC": 399, OURS: 371}
    assert found[OURS]["both"] < found[OURS]["dynamic evaluation"] < found[OURS]["finetuned"]
    near = {model: module("pictures").ways_of(results["rows"], model, "in-domain") for model in found}
    for way, least, most in (("dynamic evaluation", 0.04, 0.095), ("local cache", 0.04, 0.065)):
        assert all(least < 1 - of[way] / of["as trained"] < most for of in near.values())
    new = [results["rows"][f"tied + {way}"]["science"]["new"]["perplexity"] for way in ("uniform", "dynamic")]
    assert new[0] == pytest.approx(new[1])  # what has no row learns nothing
    learning = [of for row in results["rows"].values() for of in row.values() if "tokens per second" in of]
    assert all(200 < of["tokens per second"] < 280 for of in learning)
    assert all(2_800 < of["static tokens per second"] < 5_600 for of in learning)


def test_a_lexicon_helps_in_portuguese_and_characters_do_not():
    folder = ROOT / "examples" / "languages" / "results"

    def of(path):
        return {
            (name, cache, text): at["all"]["perplexity"]
            for name, caches in json.loads(path.read_text())["rows"].items()
            for cache, texts in caches.items()
            for text, at in texts.items()
        }

    spellings, characters, relations, forms = (
        f"GroC, {how}" for how in ("spellings", "spellings in characters", "relations", "relations by dictionary forms")
    )
    for path in (folder / "portuguese.json", folder / "portuguese-2.json"):
        found = of(path)
        for cache, text in itertools.product(("none", "local"), ("in-domain", "newspapers")):
            at = {name: found[name, cache, text] for name in (spellings, characters, relations, forms)}
            assert 0.03 < 1 - at[relations] / at[spellings] < 0.055 and 0.01 < 1 - at[forms] / at[relations] < 0.03
            assert abs(1 - at[characters] / at[spellings]) < 0.025 or text == "newspapers"
    for name in ("german", "english"):
        captions = [value for (row, cache, _), value in of(folder / f"{name}.json").items() if row != "tied" and cache == "none"]
        assert max(captions) / min(captions) < 1.02


def test_locked_dropout_and_lengths_of_blocks_are_worth_the_most_of_awd_lstm_s_training():
    found = perplexities("awd-ptb-awd")
    whole = found.pop("AWD-LSTM")
    costs = {label: value / whole - 1 for label, value in found.items()}
    assert 0.025 < costs.pop("no locked dropout") < 0.035
    assert 0.015 < costs.pop("blocks of one length") < 0.025
    assert len(costs) == 4 and all(abs(cost) < 0.01 for cost in costs.values())


def test_it_leads_at_equal_time_and_beside_an_ngram():
    results = json.loads((RESULTS / "table-5-domains-cpu.json").read_text())
    found = {label: {domain: at["all"]["perplexity"] for domain, at in of.items()} for label, of in results["rows"].items()}
    for domain in results["domains"]:
        finetuned = [", finetuned"] if domain != results["trained_on"] else []
        for way in (" + uniform", " + local", " + ngram", *finetuned):
            assert found[f"{OURS}{way}"][domain] < found[f"tied at equal time{way}"][domain] < found[f"tied{way}"][domain]
        assert found[f"{OURS} + uniform"][domain] < found["Kneser-Ney 4-gram"][domain]
        behind = [found[f"{model} + uniform"][domain] > found["Kneser-Ney 4-gram"][domain] for model in ("tied", "GroC")]
        assert all(behind) if domain == results["trained_on"] else not any(behind)
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
    rows = {
        label: of["in-domain"]
        for label, of in results["rows"].items()
        if "in-domain" in of and "mass of new words" in of["in-domain"]
    }
    share = rows[OURS]["new"]["tokens"] / rows[OURS]["all"]["tokens"]
    alone = {label for label in rows if " + " not in label.removeprefix(OURS)}
    assert {label for label in alone if rows[label]["mass of new words"] > share} == {ALWAYS} and len(alone) == 4
    assert rows["GroC + uniform"]["mass of new words"] < share < rows[f"{OURS} + uniform"]["mass of new words"] < 1.1 * share


def test_two_models_are_level_at_equal_time_on_all_of_penn_treebank(module):
    equal_time, times = module("equal_time"), ROOT / "benchmarks" / "results" / "step-by-step-small.json"
    curves, _ = equal_time.of_files(RESULTS / "table-2-ptb-cpu.json", times, "tied")
    end = curves["tied"][-1][0]
    for place in (end / 2, 3 * end / 4, end):
        found = {label: equal_time.at(curve, place) for label, curve in curves.items()}
        assert set(sorted(found, key=found.get)[:2]) == {OURS, "bilinear"}
        assert abs(found[OURS] / found["bilinear"] - 1) < 0.02


def test_on_a_quarter_the_lead_at_equal_time_changes_in_the_second_third(module):
    equal_time, times = module("equal_time"), ROOT / "benchmarks" / "results" / "step-by-step-small.json"
    curves, _ = equal_time.of_files(RESULTS / "table-2-ptb-quarter.json", times, "tied")
    leaders = []
    for place in range(3, 25):
        found = {label: equal_time.at(curve, place / 24 * curves["tied"][-1][0]) for label, curve in curves.items()}
        leaders.append(min((label for label in found if found[label]), key=found.get))
    assert {*leaders[:6]} == {"bilinear"} and {*leaders[13:]} == {OURS}  # to 8 / 24, from 16 / 24 on
    assert [head for head, _ in itertools.groupby(leaders)] == ["bilinear", OURS, "bilinear", OURS]


def test_weights_that_begin_small_cost_more_than_the_head():
    pairs = {}
    for label, row in rows_of("table-2-ptb-quarter").items():
        tried = [run for run in row["tried"] if run["setting"]["lr"] == 0.003 and not run["setting"]["output_dropout"]]
        found = {run["setting"]["init_range"]: run["valid"] for run in tried}
        if {0.05, 0.2} <= found.keys():
            pairs[label] = found[0.05], found[0.2]
    heads = max(wide for _, wide in pairs.values()) / min(wide for _, wide in pairs.values())
    assert len(pairs) == 5 and sum(small / wide > heads for small, wide in pairs.values()) >= 4


def in_context(name):
    rows = json.loads((ROOT / "examples" / "context" / "results" / f"{name}.json").read_text())["rows"]
    return {label: list(runs.values()) for label, runs in rows.items()}


def test_the_more_of_a_model_a_context_changes_the_better():
    found = {label: [run["perplexity"] for run in runs] for label, runs in in_context("models-agnews").items()}
    assert all(list(of) == sorted(of, reverse=True) and len(of) == 4 for of in zip(*found.values(), strict=True))
    assert [round(100 * run["accuracy"], 1) for run in in_context("models-agnews")["FactorCell"]] == [75.5, 86.5, 87.6]
    found = {label: statistics.mean(run["perplexity"] for run in runs) for label, runs in in_context("models-dbpedia").items()}
    assert found["Unadapted"] > 1.25 * found["SoftmaxBias"] > 1.25 * found["ConcatCell"]
    assert abs(1 - found["FactorCell"] / found["ConcatCell"]) < 0.02


def test_a_number_for_each_word_and_value_brings_no_accuracy():
    rows, one_hot = in_context("models-dbpedia"), in_context("one-hot-dbpedia")
    assert list(one_hot) == ["SoftmaxBias", "ConcatCell", "FactorCell"]
    shown = [(84.4, 92.6), (85.3, 79.1), (84.2, 77.6)]
    for (label, runs), (accuracy, perplexity) in zip(one_hot.items(), shown, strict=True):
        found = {part: statistics.mean(run[part] for run in runs) for part in ("accuracy", "perplexity")}
        assert (round(100 * found["accuracy"], 1), round(found["perplexity"], 1)) == (accuracy, perplexity)
        assert len(runs) == 3 and found["accuracy"] < statistics.mean(run["accuracy"] for run in rows[label])


def test_a_context_helps_composed_words_as_much_as_tied_ones_and_new_words_not():
    found = {
        label: {part: statistics.mean(run[part] for run in runs) for part in ("perplexity", "known", "new")}
        for label, runs in in_context("heads-domains").items()
    }
    pairs = [[found[f"{head}, {how}"] for how in ("Unadapted", "FactorCell")] for head in ("tied", OURS)]
    assert [round(1 - after["perplexity"] / before["perplexity"], 2) for before, after in pairs] == [0.2, 0.17]
    models = ("Unadapted", "SoftmaxBias", "ConcatCell", "FactorCell")
    before, *others = (found[f"{OURS}, {how}"] for how in models)
    assert all(abs(1 - after["new"] / before["new"]) < 0.035 and after["known"] < 0.9 * before["known"] for after in others)
    runs = {label: [run["perplexity"] for run in of] for label, of in in_context("heads-domains").items()}
    for head, first in (("tied", 3), (OURS, 2)):
        seeds = list(zip(*(runs[f"{head}, {how}"] for how in models), strict=True))
        means = [found[f"{head}, {how}"]["perplexity"] for how in models]
        assert len(seeds) == 3 and means == sorted(means, reverse=True) and all(max(seed) == seed[0] for seed in seeds)
        assert sum(min(seed) == seed[3] for seed in seeds) == first
        assert head != "tied" or all(list(seed) == sorted(seed, reverse=True) for seed in seeds)
    guessed = in_context("heads-domains")[f"{OURS}, FactorCell"]
    bags = [of["accuracy"] for of in guessed[0]["baselines"].values()]
    assert min(bags) - 0.02 < statistics.mean(run["accuracy"] for run in guessed) < max(bags)


def test_in_characters_the_order_is_the_papers_and_contexts_are_guessed():
    found = in_context("models-characters")
    means = [statistics.mean(run["perplexity"] for run in runs) for runs in found.values()]
    assert list(found) == ["Unadapted", "SoftmaxBias", "ConcatCell", "FactorCell"] and means == sorted(means, reverse=True)
    seeds = zip(*([run["perplexity"] for run in runs] for runs in found.values()), strict=True)
    assert sum(min(seed) == seed[3] for seed in seeds) == 2 and 0 < 1 - means[1] / means[0] < 0.01
    best = found["FactorCell"]
    assert min(run["accuracy"] for run in best) > 0.05 + max(of["accuracy"] for of in best[0]["baselines"].values())


def test_years_that_training_lacks_are_helped_nearly_as_much():
    found = {label: [(run["perplexity"], run["unseen"]) for run in runs] for label, runs in in_context("models-speeches").items()}
    plain, *others = ([statistics.mean(of) for of in zip(*runs, strict=True)] for runs in found.values())
    gains = [[1 - after / before for before, after in zip(plain, other, strict=True)] for other in others]
    assert [round(unseen / known, 1) for known, unseen in gains] == [0.9, 0.9, 0.7] and list(found)[-1] == "FactorCell"
    assert all(factor > concat for (factor, _), (concat, _) in zip(found["FactorCell"], found["ConcatCell"], strict=True))
    guessed = {label: [run.get("accuracy", 0) for run in runs] for label, runs in in_context("models-speeches").items()}
    assert all(max(seed) == seed[-1] for seed in zip(*guessed.values(), strict=True)) and list(guessed)[-1] == "FactorCell"
    bags = [of["accuracy"] for of in in_context("models-speeches")["FactorCell"][0]["baselines"].values()]
    assert min(bags) > 1.3 * max(guessed["FactorCell"])
    near = json.loads((ROOT / "examples" / "context" / "results" / "presidents.json").read_text())["nearest"]
    last = {"Clinton", "Bush", "GWBush"}
    assert all(near[name][0][0] in last for name in last)


def test_only_the_papers_rank_is_ahead_of_no_rank():
    found = {label: [run["perplexity"] for run in runs] for label, runs in in_context("ranks-agnews").items()}
    none, *others = ((label, statistics.mean(values)) for label, values in found.items())
    assert [label for label, mean in others if mean < none[1]] == ["rank 12"]
    models = in_context("models-agnews")
    for label, model in (("rank 0", "ConcatCell"), ("rank 12", "FactorCell")):
        assert found[label] == pytest.approx([run["perplexity"] for run in models[model]], rel=1e-6)
    most = max(statistics.stdev(values) for values in found.values())
    assert all(abs(mean - none[1]) < most for label, mean in others)


def test_to_be_told_the_source_is_between_a_cache_and_finetuning():
    rows = json.loads((ROOT / "examples" / "context" / "results" / "against-adaptation.json").read_text())["rows"]
    for source in rows["as trained"]:
        found = {way: statistics.mean(run["all"]["perplexity"] for run in of[source].values()) for way, of in rows.items()}
        assert found["finetuned"] < found["told its source"] < found["local cache"] < found["as trained"] < found["not told it"]
        learned = found["not told it, learns the context's vector"]
        assert abs(1 - learned / found["told its source"]) < 0.1
        assert (found["dynamic evaluation"] < found["told its source"]) == (source != "speeches")


def test_what_fifteen_epochs_at_the_papers_size_leave_open():
    """Dropout of the tied row is another one than that of its training to the end; most models are still improving."""
    short, long = rows_of("table-2-ptb-paper-short"), rows_of("table-2-ptb-paper")["tied"]["runs"][0]
    runs = {label: row["runs"][0] for label, row in short.items()}
    assert [round(runs[label]["uniform"]["test"], 1) for label in ("GroC", OURS, "tied")] == [82.7, 83.1, 93.3]
    assert [round(min(ppl for _, ppl in runs[label]["curve"]), 1) for label in ("GroC", "tied")] == [86.0, 96.4]
    assert abs(dict(map(tuple, long["curve"]))[15 * 1328] - 89.4) < 0.06
    leads = [round(100 * (1 - 86.0 / tied)) for tied in (89.4, 96.4)]
    assert "GroC leads tied by {} to {}% after 15 epochs".format(*leads) in (ROOT / "README.md").read_text()
    improving = {label for label, run in runs.items() if run["curve"][-1][1] < 0.975 * run["curve"][-4][1]}
    assert improving == {"adaptive", "GroC", OURS}


def test_without_smoothing_groc_ends_twelve_epochs_ahead_of_corrections():
    plain, corrected = (rows_of("table-2-ptb-quarter-long")[label]["runs"][0] for label in ("GroC", OURS))
    assert all(plain[key] < corrected[key] and plain["uniform"][key] > corrected["uniform"][key] for key in ("valid", "test"))


def test_averaging_begins_with_the_33rd_epoch():
    run = rows_of("awd-averages-ptb-awd-long")["AWD-LSTM"]["runs"][0]
    curve = [tuple(point) for point in run["curve"] if point[0] % 830]  # at the ends of epochs
    epochs = [perplexity for _, perplexity in curve]
    assert [round(value, 1) for value in epochs[31:33]] == [165.2, 156.9]
    assert min(epochs[:32]) > epochs[32] and epochs[32:] == sorted(epochs[32:], reverse=True)
    assert epochs[31] > min(epochs[:26])  # no better than what is more than five epochs older
    iterates = rows_of("awd-averages-ptb-awd-long")["without averaging"]["runs"][0]["curve"]
    before, after = ([point for point in iterates if (point[0] > 5600) == late] for late in (False, True))
    assert before == run["curve"][: len(before)] and all(163 < perplexity < 168 for _, perplexity in after)
    assert round(run["valid"], 1) == 153.6


def test_finetuning_brings_nothing_and_ends_by_its_rule():
    first, second = (rows_of("awd-finetuned-ptb-awd-long")[label]["runs"][0] for label in ("AWD-LSTM", "finetuned"))
    assert [round(run["valid"], 1) for run in (first, second)] == [154.9, 155.9]
    assert first["test"] < second["test"] and first["uniform"]["test"] < second["uniform"]["test"]
    epochs = [ppl for updates, ppl in second["curve"] if (updates - first["updates"]) % 830]
    assert len(epochs) == 20 and epochs[-1] > min(epochs[:-6]) and epochs[-2] < min(epochs[:-7])


def test_dropped_weights_are_worth_something_in_a_longer_training():
    whole, without = (rows_of("awd-averages-ptb-awd-long")[label]["runs"][0] for label in ("AWD-LSTM", "no dropped weights"))
    worth = [without[key] / whole[key] - 1 for key in ("valid", "test")]
    worth.append(without["uniform"]["test"] / whole["uniform"]["test"] - 1)
    assert [round(one, 2) for one in worth] == [0.02] * 3
    (again,) = rows_of("awd-finetuned-ptb-awd-long")["AWD-LSTM"]["runs"]  # the same training, of other code
    assert again["made"]["options"] == whole["made"]["options"] and round(again["uniform"]["test"], 1) == 149.3
    less = [without["valid"] / again["valid"] - 1, without["uniform"]["test"] / again["uniform"]["test"] - 1]
    assert [round(one, 2) for one in less] == [0.01] * 2
    epochs = [perplexity for updates, perplexity in without["curve"] if updates % 830]
    assert epochs[20] > 1.1 * epochs[21] and epochs[21:] == sorted(epochs[21:], reverse=True)
    short = perplexities("awd-ptb-awd")
    assert abs(short["no dropped weights"] / short["AWD-LSTM"] - 1) < 0.003


def test_another_cpu_changes_as_much_as_most_parts_of_awd_lstm():
    one, other = rows_of("awd-ptb-awd")["AWD-LSTM"]["runs"], rows_of("drill-table-4-ptb-awd")["tied"]["runs"]
    assert all(first["made"]["machine"] != second["made"]["machine"] for first, second in zip(one, other, strict=True))
    lower = [1 - b["uniform"]["test"] / a["uniform"]["test"] for a, b in zip(one, other, strict=True)]
    assert [round(100 * share, 1) for share in lower] == [0.8, 0.4]
    fixed = rows_of("awd-ptb-awd")["blocks of one length"]["runs"]
    assert fixed[0]["made"]["machine"] == other[0]["made"]["machine"]
    costs = [a["uniform"]["test"] / b["uniform"]["test"] - 1 for a, b in zip(fixed, other, strict=True)]
    assert 0.025 < sum(costs) / 2 < 0.03


def test_deep_residual_is_ahead_of_tied_in_drill_s_own_training():
    sgd, adam = perplexities("drill-table-4-ptb-awd"), perplexities("awd-heads-ptb-awd-adam")
    assert 0.96 < sgd["4 layers"] / sgd["tied"] < 0.98 and adam["deep residual"] > 1.1 * adam["tied"]
    depths = [sgd[label] for label in ("1 layer", "2 layers", "3 layers", "4 layers")]
    assert depths[3] == min(sgd.values()) and max(depths) < sgd["tied"] < sgd["bilinear"] < sgd["dual nonlinear"]
    rows = rows_of("drill-table-4-ptb-awd")
    alone = {label: row["runs"][0]["test"] for label, row in rows.items()}
    assert sgd["4 layers"] < 0.92 * sgd["residuals"] and 0.985 < sgd["4 layers"] / sgd["standard dropout"] < 0.995
    assert all(len(row["tried"]) > 1 for row in rows.values())
    assert [found["valid"] for found in rows["standard dropout"]["tried"]] == [182.23, 179.63]  # 0.6 and 0.2
    tied, ours = (rows[label]["runs"][1] for label in ("tied", "4 layers"))
    leads = [1 - ours["uniform"]["test"] / tied["uniform"]["test"], 1 - ours["test"] / tied["test"]]
    assert [round(100 * lead, 1) for lead in leads] == [3.5, 1.8]
    assert {found["setting"]["lr"] for found in rows["dual nonlinear"]["tried"]} == {10, 30}
    assert min(rows, key=lambda label: rows[label]["runs"][0]["valid"]) == "tied"
    leads = {label: 1 - alone[label] / alone["tied"] for label in alone if "layer" in label}
    assert 0.005 < leads.pop("4 layers") < 0.015 and max(map(abs, leads.values())) < 0.006
    assert max(found["valid"] for found in rows["bilinear"]["tried"] if found["setting"]["lr"] == 30) > 1000


def test_the_first_epochs_at_the_papers_size_are_those_of_the_released_logs_or_ahead_of_them():
    released = {"4 layers": [312.2, 200.0, 164.9], "tied": [338.5, 224.3, 182.0]}  # of DRILL's program, on validation text
    change = {
        label: [ours / theirs - 1 for run in row["runs"] for (_, ours), theirs in zip(run["curve"], released[label], strict=True)]
        for label, row in rows_of("drill-table-4-ptb-awd-paper-short").items()
    }
    assert max(map(abs, change["4 layers"])) < 0.03
    assert len(change["tied"]) == 6 and min(change["tied"]) > -0.12 and max(change["tied"]) < -0.075
    runs = rows_of("released-blocks-ptb-awd-paper-short")["tied"]["runs"]
    blocks = [[ours / theirs - 1 for (_, ours), theirs in zip(run["curve"], released["tied"], strict=True)] for run in runs]
    assert [[round(100 * part) for part in of_seed] for of_seed in blocks] == [[-1, -4, -6], [-6, -4, -9]]
    own = change["tied"][:3], change["tied"][3:]
    shares = np.mean(blocks, axis=0) / np.mean(own, axis=0)
    assert shares[0] < 0.35 and 0.4 < shares[1] < 0.6 and shares[2] > 0.95
    pages = [(RESULTS / f"{name}-ptb-awd-paper-short.md").read_text() for name in ("released-blocks", "drill-table-4")]
    figures = [", ".join(f"{found:.1f}" for _, found in run["curve"]) for run in runs]
    assert all(of_seed in page for page in pages for of_seed in figures) and "--settings 1" in pages[0]
    plain, other = json.loads((RESULTS / "plain-awd-lstm.json").read_text()).values()
    assert [round(100 * (ours / theirs - 1)) for ours, theirs in zip(plain, released["tied"], strict=True)] == [7, -8, -9]
    assert "{:.1f}, {:.1f} and {:.1f}".format(*plain) in pages[1] and f"has {other[0]:.1f}." in pages[1]
