"""Make what ``test_golden.py`` compares with: run it with the code of before, ``python tests/golden/make.py``, and commit.

It adds the models that are missing, so that those of older code stay: delete a checkpoint only where it may not load any more.
"""

import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli"), str(TESTS.parent)]

import torch  # noqa: E402
from cli_helpers import PLUGIN, Commands  # noqa: E402
from golden_scores import GOLDEN, scores_of, this_machine, unpacked  # noqa: E402

TRAIN = "the cat sat\nthe lion and the dog run\na kitty barked\nthe old cat and a lion swim\n"
OTHER = "the naïve puppy sat\na cat and a zebra run\n"  # two words are new
FILTERS = "--char-embed-dim 3 --char-filters [3,3]"
BINS = "--output-cutoffs [6,9] --output-factor 2"
CORRECTIONS = "--correction-dim 3"
OPTIMIZER = "--optimizer adam --num-workers 0 --log-format simple"
TRAINING = "--max-update 3 --lr 0.05 --tokens-per-sample 6 --batch-size 2 --no-save-optimizer-state --disable-validation"
LSTM = "--arch groc_lstm_lm --decoder-embed-dim 4 --decoder-hidden-size 5"
TRANSFORMER = (
    "--arch transformer_lm --decoder-embed-dim 4 --decoder-input-dim 4 --decoder-output-dim 4 --decoder-ffn-embed-dim 4 "
    "--decoder-layers 1 --decoder-attention-heads 2"
)
COMPOSED = f"{LSTM} {FILTERS} --output-head compositional_output --output-depth 1"
MODELS = {
    **{head: f"{LSTM} --output-head {head}" for head in ("tied", "lookup", "bilinear", "dual_nonlinear")},
    "convolutional": f"{LSTM} {FILTERS} --output-head convolutional {CORRECTIONS}",
    "mixture_of_softmaxes": f"{LSTM} --output-head mixture_of_softmaxes --num-softmaxes 2",
    "adaptive": f"{LSTM} --output-head adaptive {BINS}",
    "deep_residual": f"{LSTM} --output-head deep_residual --output-depth 2 --output-residual input+previous",
    "adaptive-bins": f"{LSTM} --output-head adaptive {BINS} --adaptive-scoring bins",
    "compositional_output": f"{COMPOSED} --output-query linear",
    "spellings-alone": f"{LSTM} {FILTERS} --output-head compositional_output --lexicon-parts none --bias-activation tanh",
    "corrections": f"{COMPOSED} --corrections both {CORRECTIONS}",
    "input-corrections": f"{COMPOSED} --corrections input --lexicon-parts relations {CORRECTIONS}",
    "awd_lstm": f"{LSTM} --prefix-encoder awd_lstm --decoder-output-dim 6 --output-head lookup --lookup-width encoder",
    "transformer": f"{TRANSFORMER} {FILTERS} --output-head compositional_output",
}


def made(folder: Path, commands: Commands) -> None:
    """Make data of a vocabulary that is not training's, and the models over it."""
    (folder / "train.txt").write_text(TRAIN, encoding="utf-8")
    (folder / "other.txt").write_text(OTHER, encoding="utf-8")
    lexicon = ["--lexicon-path", shutil.copy(TESTS / "fixtures" / "mini.tsv", folder)]  # the tables say where it was
    commands.preprocess("--train", folder / "train.txt", "--valid", folder / "other.txt", "--dest", folder / "data", *lexicon)
    if not (GOLDEN / "data").exists():
        union = ["--vocabulary-from", folder / "data", "--test", folder / "other.txt", "--dest", GOLDEN / "data"]
        commands.preprocess(*union, *lexicon)
    for name in MODELS.keys() - {path.name[: -len(".pt.gz")] for path in GOLDEN.glob("*.pt.gz")}:
        options = f"{MODELS[name]} {OPTIMIZER} {TRAINING} --seed 7".split()
        commands.ok("fairseq-train", folder / "data", *PLUGIN, *options, "--save-dir", folder / name)
        checkpoint = torch.load(folder / name / "checkpoint_last.pt", weights_only=True)
        checkpoint["cfg"]["common"]["user_dir"] = None  # where it was on this machine
        torch.save(checkpoint, folder / f"{name}.pt")
        (GOLDEN / f"{name}.pt.gz").write_bytes(gzip.compress((folder / f"{name}.pt").read_bytes(), mtime=0))


def adapted(folder: Path, commands: Commands) -> None:
    """Tune a cache of two models, of which one remembers a text."""
    if (GOLDEN / "remembered").exists():
        return
    grid = ["--cache", "local", "--thetas", 1, "--weights", 0.2, "--sizes", 4, "--uniform", 0.1, "--no-extend"]
    for name in ("corrections", "tied"):
        where = ["--path", unpacked(name, folder), "--data", GOLDEN / "data", "--split", "test"]
        commands.ok("python", "-m", "fairseq_groc", "tune", *where, *grid)
    commands.ok("python", "-m", "fairseq_groc", "remember", GOLDEN / "remembered", *where)


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder, commands = Path(scratch), Commands()
        made(folder, commands)
        adapted(folder, commands)
        expected = {"machine": this_machine(), "scores": {name: scores_of(name, folder) for name in sorted(MODELS)}}
    for lock in GOLDEN.glob("*/.*lock"):
        lock.unlink()
    (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
