"""The commands of README, docs and examples run as they are shown, one page after the other, in a folder of a user's.

The folder has small texts under the names that the pages give them, and two programs that make things small: ``fairseq-train``
shrinks the model and stops after three updates, ``scripts/preprocess.sh`` takes a lexicon of a few words.
"""

import os
import re
import subprocess
import tarfile
import textwrap

import pytest
from cli_helpers import ROOT, WORDS, environment, write

# page: what of it is run elsewhere, by what its commands have in them
PAGES = {
    "README.md": ("make ", "pip install", "benchmarks/"),  # CI, test_install.py
    "examples/language_model/README.md": (),
    "docs/adaptation.md": (),
    "docs/training.md": ("distributed-rank",),  # test_resume_and_workers.py
    "docs/any_vocabulary.md": (),
    "docs/analyses.md": ("training-speed", "explain cat"),  # test_training_speed.py, test_pipeline.py
    "examples/any_fairseq_lm/README.md": (),
    "examples/translation/README.md": (),
    "docs/any_language_model.md": (),
}
COMMAND = re.compile(r"(fairseq-|python -m|scripts/|printf |echo |mkdir |tail |[A-Z]+=\")")
SMALL = """#!/bin/bash
case "$*" in
  *transformer_lm*) sizes=(--decoder-embed-dim 16 --decoder-input-dim 16 --decoder-output-dim 12 --decoder-ffn-embed-dim 16
    --decoder-layers 1 --decoder-attention-heads 2 --char-filters [4,4,4]) ;;
  *transformer*) sizes=(--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16) ;;
  *) sizes=(--decoder-embed-dim 8 --decoder-hidden-size 12 --char-filters [4,4,4] --tokens-per-sample 10) ;;
esac
exec "{program}" "$@" "${{sizes[@]}}" --max-update 3 --num-workers 0
"""
LEXICON = """#!/bin/bash
exec {script} "$@" --lexicon-path {lexicon}
"""
OF_NEW_WORDS = """#!/bin/bash
case "$*" in *--open-vocabulary* | *--limit-vocabulary* | *nearest* | *coverage*) lexicon=(--lexicon-path {lexicon}) ;; esac
exec {programs}/python "$@" "${{lexicon[@]}}"
"""
DOWNLOADED = """#!/bin/bash
cp ptb.tgz "${@: -1}"
"""
READ_TO_THE_END = """#!/bin/bash
cat "${@: -1}"
"""


def blocks(page):
    """Return the indented paragraphs that begin with a command, or with a remark and then a command, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [textwrap.dedent(block) for block in re.findall(r"(?:^ {4,}\S.*\n)+", text, re.MULTILINE)]
    return [block for block in found if COMMAND.match(re.sub("^# .*\n", "", block))]


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def project(tmp_path_factory, models):
    """A user's folder."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "FOLDER").mkdir()
    for number, name in enumerate(("train", "valid", "test", "new-train", "new-valid", "new-test", "other", "other-valid")):
        words = WORDS if number < 3 else [*WORDS, "hound", "zebra"]
        text = write(folder / f"{name}.txt", words, 30, number).read_text()
        (folder / "FOLDER" / f"{name}.txt").write_text(text)
    for number, (split, language) in enumerate((s, la) for s in ("train", "val", "test_2016_flickr") for la in ("en", "de")):
        lines = [f"{i % 3} {WORDS[i % 7]} {WORDS[(i + number) % 5]}" for i in range(30)]
        (folder / "FOLDER" / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    with tarfile.open(folder / "ptb.tgz", "w:gz") as tar:
        for split in ("train", "valid", "test"):
            tar.add(folder / f"{split}.txt", f"./simple-examples/data/ptb.{split}.txt")
    for name in ("FILE", "LOG"):
        (folder / name).write_text("the cat sat\nan unseen word\n")
    (folder / "nbest.tsv").write_text("0\tthe cat sat\n0\tthe cat sit\n")
    (folder / "WORDS").write_text("yes\nno\n")
    (folder / "DATA").symlink_to("data-bin/mine")
    (folder / "checkpoint_best.pt").symlink_to("checkpoints/mine/checkpoint_best.pt")
    (folder / "fairseq_groc").symlink_to(ROOT / "fairseq_groc")
    (folder / "examples").symlink_to(ROOT / "examples")
    for name, head in (("groc", "compositional_output"), ("tied", "tied")):
        (folder / name).symlink_to(models[head].parent)
    programs = environment()["PATH"].split(":")[0]
    script, lexicon = ROOT / "scripts" / "preprocess.sh", ROOT / "tests" / "data" / "mini.tsv"
    program(folder / "bin" / "fairseq-train", SMALL.format(program=f"{programs}/fairseq-train"))
    program(folder / "bin" / "curl", DOWNLOADED)
    program(folder / "bin" / "tail", READ_TO_THE_END)
    program(folder / "bin" / "python", OF_NEW_WORDS.format(programs=programs, lexicon=lexicon))
    program(folder / "scripts" / "preprocess.sh", LEXICON.format(script=script, lexicon=lexicon))
    return folder


@pytest.fixture(scope="module")
def done(project):
    """What every page's blocks printed, of those that were run; the first that fails ends it."""
    variables = environment()
    variables["PATH"] = f"{project / 'bin'}:{variables['PATH']}"
    said = {}
    for page, elsewhere in PAGES.items():
        script = "\n".join(block for block in blocks(page) if not any(part in block for part in elsewhere))
        assert script, f"no command of {page} was found"
        (project / "page.sh").write_text(f"set -e -o pipefail\n{script}\n")
        result = subprocess.run(
            ["bash", "page.sh"],
            cwd=project,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert result.returncode == 0, f"{page}:\n{result.stdout[-3000:]}"
        said[page] = result.stdout
    return said


def test_all_pages_run(done):
    assert list(done) == list(PAGES)


def test_open_vocabularies_score_every_token(done):
    for page in ("README.md", "examples/language_model/README.md", "examples/any_fairseq_lm/README.md"):
        assert re.search(r"Evaluated [\d,]+ tokens", done[page]) and "Perplexity: inf" not in done[page]


def test_files_that_pages_promise_are_there(done, project):
    for name in ("report.json", "grid.png", "bins.png", "coverage.png", "near.json", "curves.png", "curves.json"):
        assert (project / name).stat().st_size > 100, name
    assert os.listdir(project / "remembered") and "BLEU = " in done["examples/translation/README.md"]
    assert done["docs/any_vocabulary.md"].count("the cat sat") == 3 and "H-0\t" in done["examples/any_fairseq_lm/README.md"]
