"""The experiments with contexts, from texts to a table, at a tiny size."""

import json
import random
import runpy
from argparse import Namespace

from cli_helpers import ROOT

WORDS = {"sports": "run runs sat dog cat lion".split(), "arts": "green blue red big small old".split()}


def write(folder, split, count):
    rng = random.Random(split)
    topics = [rng.choice(list(WORDS)) for _ in range(count)]
    lines = [" ".join(rng.choices(WORDS[topic], k=rng.randint(2, 5))) for topic in topics]
    (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{split}.tsv").write_text("\n".join(["domain", *topics]) + "\n")


def test_models_are_trained_scored_compared_and_adapted(commands, tmp_path):
    texts, work = tmp_path / "domains", tmp_path / "work"
    texts.mkdir()
    for split, count in (("train", 120), ("valid", 30), ("test", 30)):
        write(texts, split, count)
    where = ["--texts", texts, "--workdir", work, "--updates", "12"]
    folder = ROOT / "examples" / "context"
    against = ["python", folder / "against_adaptation.py", *where, "--sources", "arts", "--finetune-updates", "3"]
    assert "run run.py heads" in commands.fails(*against)
    labels = ["GroC + corrections, Unadapted", "GroC + corrections, FactorCell"]
    program = ["python", folder / "run.py", "heads", *where, "--rows", *labels]
    output = commands.ok(*program)
    found = json.loads((work / "heads-domains.json").read_text())
    unadapted, figures = (found["rows"][label]["1"] for label in labels)
    assert list(found["rows"]) == labels and "accuracy" not in unadapted
    assert 0 < figures["accuracy"] <= 1 and figures["perplexity"] < 25 and "naive Bayes" in figures["baselines"]
    assert f"| {labels[1]} | 1 | {figures['perplexity']:.1f} |" in output
    assert f"| Kneser-Ney 4-gram |  | {found['ngram']['perplexity']:.1f} |" in output
    assert "fairseq-train" not in commands.ok(*program)  # what is done is skipped
    tables = ["python", folder / "context_tables.py", work / "heads-domains.json", "--out", tmp_path]
    assert f"| {labels[1]} | 1 |" in commands.ok(*tables) and (tmp_path / "heads-domains.png").exists()
    output = commands.ok(*against)
    found = json.loads((work / "against-adaptation.json").read_text())["rows"]
    assert len({row["arts"]["1"]["all"]["tokens"] for row in found.values()}) == 1 and len(found) == 8
    assert f"| finetuned | {found['finetuned']['arts']['1']['all']['perplexity']:.1f} |" in output
    assert found["dynamic evaluation"]["arts"]["1"]["settings"]["dynamic_rate"] > 0
    assert "fairseq-train" not in commands.ok(*against)


def test_the_best_models_are_at_the_upper_right(monkeypatch, tmp_path):
    drawn, draw = [], runpy.run_path(str(ROOT / "examples" / "context" / "context_tables.py"))["draw"]
    monkeypatch.setitem(draw.__globals__, "save_figure", lambda figure, path: drawn.append((figure, path)))
    series = {"FactorCell": [(92, 0.91), (90, 0.9)], "none": [], "ConcatCell": [(94, 0.89), (93, 0.895)]}
    rows = {name: {str(i): dict(perplexity=x, accuracy=y) for i, (x, y) in enumerate(points)} for name, points in series.items()}
    draw({**rows, "none": {"1": {"perplexity": 90}}}, tmp_path / "picture.png")
    ((figure, path),) = drawn
    (axes,) = figure.axes
    assert path == tmp_path / "picture.png"
    assert axes.get_xlim()[0] > axes.get_xlim()[1] and axes.get_ylim()[0] < axes.get_ylim()[1]
    found = {note.get_text(): note.xy for note in axes.texts if note.get_visible()}
    assert found == {"FactorCell": (92, 0.91), "ConcatCell": (93, 0.895)}
    assert axes.yaxis.get_major_formatter()(0.895, 0) == "89.5%"


def test_each_president_is_guessed_with_the_median_of_their_years(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "examples" / "context")
    program = runpy.run_path(str(ROOT / "examples" / "context" / "run.py"))
    candidates, texts, rows = program["candidates"], program["TEXTS"], ["Ford\t1975", "Carter\t1978", "Ford\t1977", "Ford\t1976"]
    (tmp_path / "train.tsv").write_text("\n".join(["president\tyear", *rows]) + "\n")
    args = Namespace(texts=tmp_path, workdir=tmp_path)
    option, path = candidates(args, texts["speeches"])
    assert option == "--candidates" and path.read_text() == "president\tyear\nFord\t1976.0\nCarter\t1978.0\n"
    assert candidates(args, texts["agnews"]) == ()


def test_seeds_share_no_folder_and_are_averaged(monkeypatch, tmp_path):
    folder = ROOT / "examples" / "context"
    monkeypatch.syspath_prepend(folder)
    program = runpy.run_path(str(folder / "against_adaptation.py"))
    figures, ways = program["figures"], program["WAYS"]
    told = {
        "data_of": lambda *_: "data",
        "finetune": lambda args, save, *_: save,
        "learning_of": lambda args, path, made, *_: [made],
        "score": lambda work, data, path, options, learning: (work, path, *learning),
    }
    for name, function in told.items():
        monkeypatch.setitem(figures.__globals__, name, function)
    args = Namespace(workdir=tmp_path, updates=12)
    for name, way in ways.items():
        first, second = (figures(args, "arts", name, way, seed) for seed in (1, 2))
        assert not set(first) & set(second) and len(first) == (3 if way.learning else 2)
    runs = {seed: {"all": {"perplexity": ppl}, "tokens per second": ppl} for seed, ppl in (("1", 100), ("2", 110))}
    lines = program["against_adaptation"]({"read": {"arts": runs}})
    assert lines[-1] == "| read | 105.0 ± 7.1 | 105 |  |"


def test_models_without_contexts_are_given_no_options_of_contexts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "context")
    program = runpy.run_path(str(ROOT / "examples" / "context" / "run.py"))
    models, options_of = program["EXPERIMENTS"]["models"], program["options_of"]
    for text in program["TEXTS"].values():  # fairseq-train refuses what does nothing
        assert {name for name, row in models.items() if "--context-" in options_of(text, row)} == models.keys() - {"Unadapted"}
        assert all("--context-dim" in options_of(text, row) for name, row in models.items() if name != "Unadapted")
