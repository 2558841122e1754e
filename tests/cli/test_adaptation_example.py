"""examples/adaptation from texts to its table."""

import itertools
import json
import math
import runpy

from cli_helpers import PLUGIN, ROOT, WORDS, write
from fairseq import options


def test_the_example_makes_its_table_and_skips_what_is_done(commands, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for split, count in (("train", 60), ("valid", 20), ("test", 20)):
        write(texts / f"{split}.txt", WORDS, count, count)
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
    ]
    output = commands.ok(*command)
    table = output[output.index("| | in-domain | far |") :].splitlines()
    rows = ["tied + uniform", "GroC", "tied, finetuned", "GroC, finetuned"]
    assert [line.split(" | ")[0].strip("| ") for line in table[2:6]] == rows
    results = json.loads((tmp_path / "work" / "domains" / "results.json").read_text())
    assert all(math.isfinite(ppl) for found in results.values() for ppl in found.values())
    assert len(results["GroC"]) == 2 and len(results["GroC, finetuned"]) == 1
    curves = json.loads((tmp_path / "work" / "domains" / "finetuning-far.json").read_text())["curves"]
    drawn = {(row["run"], row["subset"]) for row in curves}
    assert drawn >= {("far-tied", "far"), ("far-tied", "in-domain"), ("far-GroC", "far"), ("far-GroC", "in-domain")}
    again = commands.ok(*command)
    assert "fairseq-train" not in again and "fairseq_groc" not in again and again.splitlines()[-6:] == table[:6]


def test_options_of_every_scale_are_taken():
    example = runpy.run_path(str(ROOT / "examples" / "adaptation" / "run.py"))
    for scale in example["SCALES"].values():
        for model, more in itertools.product(scale.models.values(), (scale.training, scale.finetuning)):
            words = ["data", *PLUGIN, *example["TRAINING"], *model.split(), *more.format(updates=4, interval=2).split()]
            assert options.parse_args_and_arch(options.get_training_parser(), input_args=words).batch_size == 20
