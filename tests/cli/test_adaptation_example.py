"""examples/adaptation from texts to its tables."""

import importlib
import itertools
import json
import math
import re
import runpy
from argparse import Namespace
from pathlib import Path

import pytest
from cli_helpers import PLUGIN, ROOT, WORDS, write
from fairseq import options

from fairseq_groc.adapters import OPTIONS

DYNAMIC = " + dynamic + local"


def test_the_example_makes_its_table_and_skips_what_is_done(commands, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        write(texts / f"{split}.txt", WORDS, count, count)
    with open(texts / "test.txt", "a") as file:
        file.write("a wug and a wug\n")
    write(tmp_path / "far.txt", [*WORDS, "Hound", "Zebra,", "don't"], 80, 7)
    command = ["python", ROOT / "examples" / "adaptation" / "run.py", "--texts", texts, "--workdir", tmp_path / "work"]
    command += [
        "--domain",
        f"far={tmp_path / 'far.txt'}",
        "--updates",
        "4",
        "--finetune-updates",
        "2",
        "--caches",
        "none",
        "local",
        "ngram",
        "dynamic+local",
        "--dynamic-parameters",
        "encoder",
    ]
    output = commands.ok(*command)
    table = output[output.index("| | in-domain | far | tokens per second | static tokens per second |") :].splitlines()
    models = ["tied", "GroC", "GroC + corrections"]
    rows = [f"{model}{way}" for model in models for way in ("", " + uniform", " + local", " + ngram", DYNAMIC)][1:]
    rows.insert(0, "Kneser-Ney 4-gram")
    rows += [f"{way}, finetuned" for way in ("tied", "tied, drawn rows", *models[1:])]
    assert [line.split(" | ")[0].strip("| ") for line in table[2:]] == rows
    results = json.loads((tmp_path / "work" / "table-5-domains-dynamic-cpu.json").read_text())
    found = results["rows"]
    assert all(math.isfinite(at["all"]["perplexity"]) for of_row in found.values() for at in of_row.values())
    assert len(found["GroC"]) == 2 and len(found["GroC, finetuned"]) == 1
    assert found["GroC"]["far"]["new"]["tokens"] > 0 and found["GroC"]["in-domain"]["new"]["tokens"] == 2  # the union's
    for row in ("tied, finetuned", "tied, drawn rows, finetuned", "GroC, finetuned"):  # the same words are known and new
        assert all(found[row]["far"][part]["tokens"] == found["GroC"]["far"][part]["tokens"] for part in ("all", "known", "new"))
    assert found["GroC"]["far"]["settings"].get("new_word_discount", 1) == 1
    assert found["tied + local"]["far"]["settings"]["cache_size"] == 10_000
    for row in (f"{model}{DYNAMIC}" for model in models):
        settings = found[row]["far"]["settings"]
        assert settings["dynamic_parameters"] == "encoder" and settings["dynamic_rate"] > 0
        assert settings["local_weight"]
        static, own = (json.loads(path.read_text()) for path in reports_of(tmp_path / "work" / "domains" / "scores", row))
        assert static["settings"]["adapters"] == {**own["settings"]["adapters"], **off(settings)}
        assert found[row]["far"]["tokens per second"] == own["tokens_scored"] / own["seconds_of_scoring"]
        assert found[row]["far"]["static tokens per second"] == static["tokens_scored"] / static["seconds_of_scoring"]
    alone, beside = found["Kneser-Ney 4-gram"]["far"], found["tied + ngram"]["far"]
    assert alone["all"]["tokens"] == beside["all"]["tokens"] and alone["new"]["tokens"] == beside["new"]["tokens"]
    assert beside["settings"]["ngram_weight"] > 0 and beside["all"]["perplexity"] < alone["all"]["perplexity"]
    tried = results["learning_rates"]
    assert list(tried) == models and all(list(of) == ["0.006", "0.003"] for of in tried.values())
    trained = re.findall(r"--lr (0\.00[36]) .*--save-dir", output)
    assert trained == ["0.006", "0.003"] * 3
    drawn = {(row["run"], row["subset"]) for row in results["finetuning"]["far"]}
    assert drawn >= {("far-tied", "far"), ("far-tied", "in-domain"), ("far-GroC", "far"), ("far-GroC", "in-domain")}
    assert "other settings" in commands.fails(*command, "--learning-rates", "0.006")
    again = commands.ok(*command)
    assert "fairseq-train" not in again and "fairseq_groc" not in again and again.splitlines()[-len(table) :] == table
    on_page(commands, tmp_path / "work", found)


def reports_of(folder, row):
    """Return the reports of the far text without and with what learns."""
    return [folder / row.replace(" + ", "-") / "encoder" / f"far{name}.json" for name in ("-static", "")]


def off(settings):
    """Return the options of dynamic evaluation by default."""
    return {name: OPTIONS[name].default for name in settings if name.startswith("dynamic_")}


def on_page(commands, folder, found):
    """Compare the page that the papers' report makes of the example's results with them."""
    commands.ok("python", ROOT / "examples" / "papers" / "report.py", folder)
    page = (folder / "table-5-domains-dynamic-cpu.md").read_text()
    assert str(folder) not in page and "--texts TEXTS --domain far=far.txt" in page
    for row, of_row in found.items():
        for part in ("all",) if "finetuned" in row else ("all", "new"):
            numbers = [f"{of_row[d][part]['perplexity']:,.1f}" if d in of_row else "" for d in ("in-domain", "far")]
            assert f"| {row} | {' | '.join(numbers)} |" in page
    learned = found[f"tied{DYNAMIC}"]
    pairs = (f"{of['tokens per second']:,.0f}, {of['static tokens per second']:,.0f}" for of in learned.values())
    assert f"| tied{DYNAMIC} | {' | '.join(pairs)} |" in page
    assert "| weight | theta 0 | theta 0.3 |" in page
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert (folder / picture).stat().st_size > 0
    assert len(re.findall(r"!\[", page)) == 2


def test_speeches_are_split_by_year_and_an_interrupted_text_is_made_again(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "examples" / "adaptation")
    texts = importlib.import_module("texts")
    speeches = tmp_path / "speeches"
    speeches.mkdir()
    for year in (1970, 1983, 1984, 1985, 1986, 1990):
        (speeches / f"{year}-someone.txt").write_text(f"It's {year}.\n\n" * 6)
    (speeches / "notes.txt").write_text("No year.\n")
    args = Namespace(temporal=speeches, workdir=tmp_path / "work")

    def killed(path, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", killed)
        texts.temporal_texts(args)
    found = texts.temporal_texts(args)
    years = {
        (name, split): [int(line.split()[2]) for line in path.read_text().splitlines()]
        for name, parts in found.items()
        for split, path in parts.items()
    }
    assert years["up to 1985", "train"] == [1970] * 6 + [1983] * 6
    assert years["up to 1985", "valid"] == [1984] * 6 and years["up to 1985", "test"] == [1985] * 6
    later = [years["from 1986", split] for split in ("train", "valid", "test")]
    assert later == [[1986] * 4, [1986], [1986] + [1990] * 6]


def test_domains_or_a_temporal_text_are_asked_for(commands, tmp_path):
    example = ["python", ROOT / "examples" / "adaptation" / "run.py", "--workdir", tmp_path]
    assert "give --domain NAME=PATH, or --temporal FOLDER, or both" in commands.fails(*example)
    assert "--domain goes with --texts FOLDER" in commands.fails(*example, "--domain", "far=far.txt")
    assert "has tied, GroC" in commands.fails(*example, "--texts", "t", "--domain", "far=far.txt", "--models", "tide")


def test_options_of_every_scale_are_taken(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "adaptation")
    example = runpy.run_path(str(ROOT / "examples" / "adaptation" / "run.py"))
    for scale in example["SCALES"].values():
        for model, more in itertools.product(scale.models.values(), (scale.training, scale.finetuning)):
            words = ["data", *PLUGIN, *example["TRAINING"], *model.options.split(), "--lr", scale.learning_rates[0]]
            words += more.format(updates=4, interval=2).split()
            assert options.parse_args_and_arch(options.get_training_parser(), input_args=words).batch_size == 20
