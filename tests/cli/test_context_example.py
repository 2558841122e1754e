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
