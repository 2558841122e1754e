"""The experiments with contexts, from texts to a table, at a tiny size."""

import json
import random

from cli_helpers import ROOT

WORDS = {"sports": "run runs sat dog cat lion".split(), "arts": "green blue red big small old".split()}


def write(folder, split, count):
    rng = random.Random(split)
    topics = [rng.choice(list(WORDS)) for _ in range(count)]
    lines = [" ".join(rng.choices(WORDS[topic], k=rng.randint(2, 5))) for topic in topics]
    (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{split}.tsv").write_text("\n".join(["topic", *topics]) + "\n")


def test_models_are_trained_scored_and_compared(commands, tmp_path):
    texts = tmp_path / "agnews"
    texts.mkdir()
    for split, count in (("train", 120), ("valid", 20), ("test", 20)):
        write(texts, split, count)
    program = ["python", ROOT / "examples" / "context" / "run.py", "models", "--texts", texts, "--workdir", tmp_path / "work"]
    rows = ["--updates", "12", "--rows", "Unadapted", "FactorCell"]
    output = commands.ok(*program, *rows)
    found = json.loads((tmp_path / "work" / "models-agnews.json").read_text())["rows"]
    assert list(found) == ["Unadapted", "FactorCell"] and "accuracy" not in found["Unadapted"]["1"]
    figures = found["FactorCell"]["1"]
    assert 0 < figures["accuracy"] <= 1 and figures["perplexity"] < 25 and "naive Bayes" in figures["baselines"]
    assert f"| FactorCell | 1 | {figures['perplexity']:.1f} |" in output
    again = commands.ok(*program, *rows)
    assert "fairseq-train" not in again  # what is done is skipped
    tables = ["python", ROOT / "examples" / "context" / "context_tables.py", tmp_path / "work" / "models-agnews.json"]
    assert "| FactorCell | 1 |" in commands.ok(*tables, "--out", tmp_path)
    assert (tmp_path / "models-agnews.png").exists()


def test_to_know_the_source_against_adapting_to_it(commands, tmp_path):
    texts = tmp_path / "domains"
    texts.mkdir()
    for split, count in (("train", 120), ("valid", 30), ("test", 30)):
        write(texts, split, count)
        (texts / f"{split}.tsv").write_text((texts / f"{split}.tsv").read_text().replace("topic", "domain"))
    where = ["--texts", texts, "--workdir", tmp_path / "work", "--updates", "6"]
    against = ["python", ROOT / "examples" / "context" / "against_adaptation.py", *where, "--sources", "arts"]
    assert "run run.py heads" in commands.fails(*against)
    rows = ["GroC + corrections, Unadapted", "GroC + corrections, FactorCell"]
    commands.ok("python", ROOT / "examples" / "context" / "run.py", "heads", *where, "--rows", *rows)
    output = commands.ok(*against, "--finetune-updates", "3")
    found = json.loads((tmp_path / "work" / "against-adaptation.json").read_text())["rows"]
    assert len({row["arts"]["all"]["tokens"] for row in found.values()}) == 1 and len(found) == 8
    assert f"| finetuned | {found['finetuned']['arts']['all']['perplexity']:.1f} |" in output
    assert found["dynamic evaluation"]["arts"]["settings"]["dynamic_rate"] > 0
    assert commands.ok(*against, "--finetune-updates", "3").count("fairseq-train") == 0  # what is done is skipped
