"""Run the commands that users type, each in a process of its own, and read what they print."""

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import forked_programs

from fairseq_groc.lexicon.tables_file import FILE, FOLDER
from fairseq_groc.tensor_file import open_tensors

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SYSTEM_PATH = os.environ["PATH"]  # where the system's programs are
PLUGIN = ["--user-dir", str(ROOT / "fairseq_groc"), "--task", "wordnet_lexicon"]
SMALL = "--arch groc_lstm_lm --decoder-embed-dim 8 --decoder-hidden-size 12".split()
FILTERS = ["--char-filters", "[4,4,4]"]
COMPOSED = [*SMALL, *FILTERS]
TRAINING = "--batch-size 4 --tokens-per-sample 10 --optimizer adam --lr 0.01 --num-workers 0 --log-format simple".split()
WORDS = "the a cat dog lion kitty run runs sat barked on under mat tree and old young big small quick green blue red".split()

TRANSFORMER = "transformer_lm --decoder-ffn-embed-dim 16 --decoder-layers 1 --decoder-attention-heads 2"
SIZES = "--decoder-embed-dim 16 --decoder-input-dim 16 --decoder-output-dim 12"
LIGHTCONV = "lightconv_lm --decoder-ffn-embed-dim 16 --decoder-layers 1 --decoder-attention-heads 2"
KERNELS = "--decoder-kernel-size-list [3] --decoder-embed-dim 16 --decoder-input-dim 16 --decoder-output-dim 16"
ARCHITECTURES = {
    "transformer_lm": f"{TRANSFORMER} {SIZES}",
    "lstm_lm": "lstm_lm --decoder-embed-dim 12 --decoder-hidden-size 14 --decoder-out-embed-dim 10",
    "fconv_lm": "fconv_lm --decoder-embed-dim 12 --decoder-layers [(12,2)] --decoder-attention False --decoder-out-embed-dim 8",
    "lightconv_lm": f"{LIGHTCONV} {KERNELS}",
}
HEADS = {
    "compositional_output": [*FILTERS, "--output-depth", "1"],
    "adaptive": ["--output-cutoffs", "[8,16]", "--adaptive-scoring", "bins"],
    "convolutional": [*FILTERS, "--correction-dim", "4"],
}


def environment(*path):
    modules = ":".join(str(folder) for folder in (ROOT, *path))
    programs = f"{forked_programs.folder()}:{BIN}:{SYSTEM_PATH}"
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": programs, "PYTHONPATH": modules}


class Commands:
    """Run what a user types; ``ok`` insists on success, ``fails`` on failure, and both return the output.

    Args:
        folder: to run in; None: where the tests run
        path: of more Python modules
    """

    def __init__(self, folder=None, *path):
        self.folder, self.path = folder, path

    def __call__(self, *command):
        variables = environment(*self.path)
        done = subprocess.run(
            [shutil.which(command[0], path=variables["PATH"]) or command[0], *(str(part) for part in command[1:])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode, done.stdout

    def ok(self, *command) -> str:
        code, output = self(*command)
        assert code == 0, output[-3000:]
        return output

    def fails(self, *command) -> str:
        code, output = self(*command)
        assert code != 0, output[-3000:]
        return output

    def preprocess(self, *options):
        return self.ok(ROOT / "scripts" / "preprocess.sh", *options)

    def train(self, data, save, *options) -> str:
        return self.ok("fairseq-train", data, *PLUGIN, *TRAINING, "--save-dir", save, *small(*options))

    def eval_lm(self, data, checkpoint, *options) -> str:
        return self.ok("fairseq-eval-lm", data, *PLUGIN, "--path", checkpoint, "--num-workers", "0", *options)


def small(*options):
    """Return options with those that make their model small."""
    composed = "--output-head" not in options or "compositional_output" in options
    return [*(COMPOSED if composed else SMALL), *options]


def evaluated(output: str):
    """Return (tokens, perplexity) as fairseq-eval-lm printed them."""
    tokens = int(re.findall(r"Evaluated ([\d,]+) tokens", output)[0].replace(",", ""))
    return tokens, float(re.findall(r"Perplexity: (\S+)", output)[0])


def header_of(data: Path):
    """Return the header of a folder's lexicon tables."""
    return open_tensors(data / FOLDER / FILE)[0]


def write(path: Path, words, count: int, seed: int) -> Path:
    rng = random.Random(seed)
    lines = [" ".join(rng.choice(words) for _ in range(rng.randint(0, 9))) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tokens_of(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(len(line.split()) + 1 for line in lines)


def train_stock(commands, corpus, save, arch, *options, head="compositional_output"):
    """Train a language model of fairseq's with a head."""
    where = ["--save-dir", save, "--valid-subset", "valid,valid1", "--max-update", "10", "--output-head", head, *HEADS[head]]
    return commands.ok("fairseq-train", corpus / "data", *PLUGIN, "--arch", *arch.split(), *TRAINING, *where, *options)


def perplexity(output):
    """Return the last perplexity that fairseq logged."""
    return float(re.findall(r"ppl ([\d.]+)", output)[-1])
