"""A user's folder in which the commands of README, docs and examples run as they are shown, one page after the other.

It has small texts under the names that the pages give them, and programs that make things small: ``fairseq-train`` shrinks
the model and stops after three updates, ``scripts/preprocess.sh`` takes a lexicon of a few words, ``curl`` copies archives of the
published form, ``python`` downloads nothing and runs recipes and benchmarks at sizes of which nothing can be concluded.
"""

import re
import subprocess
import textwrap
from pathlib import Path

from cli_helpers import ROOT, WORDS, environment, write

# page: what of it is run elsewhere, by what its commands have in them
STORIES = {
    "README.md": ("make ", "pip install"),  # CI, test_install.py
    "examples/language_model/README.md": (),
    "docs/adaptation.md": (),
    "docs/quickstart.md": ("make ",),  # test_quickstart.py
    "docs/training.md": ("distributed-rank", "torchrun", "training-speed"),  # test_resume_and_workers.py, test_training_speed.py
    "docs/vocabularies.md": ("pieces.train",),  # test_piece_marks.py
    "docs/embeddings.md": (),
    "docs/heads.md": (),
    # test_pipeline.py, test_lexicon_options.py, test_languages.py
    "docs/lexicons.md": ("explain cat", "glossary.tsv", "wn download", "explain chats", "wn-wikt-deu.tab"),
    "docs/contexts.md": (),
    "docs/serving.md": ("benchmarks/serving.py",),  # test_benchmarks.py
    "examples/any_fairseq_lm/README.md": (),
    "examples/translation/README.md": (),
    "docs/encoders.md": (),
}
RECIPES = {
    "docs/cross_domain.md": (),
    "examples/adaptation/README.md": (),
    "examples/papers/README.md": ("background.py",),  # test_papers_queue.py
    "docs/results.md": (),
    "docs/performance.md": (),
    "examples/rescoring/README.md": ("examples/rescoring",),  # test_rescoring_example.py
    "examples/subwords/README.md": ("examples/subwords",),  # test_subwords_example.py
    "examples/languages/README.md": ("examples/languages", "make tables"),  # test_languages_example.py
    "examples/context/README.md": ("examples/context",),  # test_context_texts.py, test_context_example.py
    "benchmarks/README.md": ("record.py", "training-speed"),  # test_benchmarks.py, test_training_speed.py
    **{f"examples/papers/results/{path.name}": () for path in (ROOT / "examples/papers/results").glob("*-*-*.md")},
}
COMMAND = re.compile(
    r"(fairseq-|python |scripts/|printf |echo |mkdir |tail |head |for |export |[A-Z]+=|make |pip |torchrun |srun |curl |source )"
)
SMALL = """#!/bin/bash
case "$*" in
  *transformer_lm*) sizes=(--decoder-embed-dim 16 --decoder-input-dim 16 --decoder-output-dim 12 --decoder-ffn-embed-dim 16
    --decoder-layers 1 --decoder-attention-heads 2 --char-filters [4,4,4]) ;;
  *transformer*) sizes=(--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16) ;;
  *--output-head\\ tied* | *_tied* | *awd_lstm_lm_small*)
    sizes=(--decoder-embed-dim 8 --decoder-hidden-size 12 --tokens-per-sample 10) ;;
  *) sizes=(--decoder-embed-dim 8 --decoder-hidden-size 12 --char-filters [4,4,4] --tokens-per-sample 10) ;;
esac
exec "{programs}/fairseq-train" "$@" "${{sizes[@]}}" --max-update 3 --num-workers 0
"""
PREPROCESS = """#!/bin/bash
case "$*" in *--dataset\\ news-* | *--dataset\\ web* | *--dataset\\ wiki\\ *) fewer=(--tokens 100,60,80) ;; esac
exec {script} "$@" "${{fewer[@]}}" --lexicon-path {lexicon}
"""
PYTHON = """#!/bin/bash
case "$*" in
  *--open-vocabulary* | *--limit-vocabulary* | *nearest* | *groc\\ coverage*) smaller=(--lexicon-path {lexicon}) ;;
  *adaptation/cut.py*) smaller=(--tokens 100,60,80) ;;
  *training-speed*) smaller=(--updates 3 --rounds 1) ;;
  *analyses.py\\ table-10*) smaller=(--scale quarter) ;;
  *papers/run.py*--setting\\ *) smaller=(--updates 2 --setting lr=0.003) ;;
  *papers/run.py*) smaller=(--updates 2 --settings 1) ;;
  *adaptation/run.py*) smaller=(--updates 4 --finetune-updates 2 --caches none local) ;;
  *ptb_curves.py*) smaller=(--updates 16 --interval 8) ;;
  *scaling.py*) smaller=(--sizes 300 --steps 1 --rounds 1) ;;
  *arithmetic.py*) smaller=(--size 300) ;;
  *adding_words.py*) smaller=(--sizes 300) ;;
  *losses.py* | *scoring.py*) smaller=(--sizes 300 --rounds 1) ;;
  *caches.py*) smaller=(--sizes 300 --entries 400 --rounds 1) ;;
  *factor_cell.py*) smaller=(--shapes dbpedia --steps 2 --dense-steps 2) ;;
esac
case "$*" in  # nothing is downloaded
  *--from*) ;;
  *papers/run.py* | *papers/analyses.py*) from=(--from {texts}) ;;
  *preprocess*--dataset\\ ptb* | *preprocess*--dataset\\ wikitext-2*) from=(--from {texts}) ;;
esac
exec {programs}/python "$@" "${{from[@]}}" "${{smaller[@]}}"
"""
CURL = """#!/bin/bash
while [ $# -gt 0 ]; do case $1 in http*) url=$1 ;; -o) out=$2 ;; esac; shift; done
cp "{published}/$(basename "$url")" "${{out:-.}}"
"""
READ_TO_THE_END = """#!/bin/bash
cat "${@: -1}"
"""


def user_folder(folder: Path) -> Path:
    """Fill the folder and return it."""
    (folder / "FOLDER").mkdir()
    for number, name in enumerate(("train", "valid", "test", "new-train", "new-valid", "new-test", "other", "other-valid")):
        words = WORDS if number < 3 else [*WORDS, "hound", "zebra"]
        text = write(folder / f"{name}.txt", words, 30, number).read_text()
        (folder / "FOLDER" / f"{name}.txt").write_text(text)
        contexts = [f"{('sports', 'world', '')[row % 3]}\t{2000 + row % 7}" for row in range(30)]
        (folder / f"{name}.tsv").write_text("\n".join(["topic\tyear", *contexts]) + "\n")
    published = folder / "published"
    published.mkdir()
    for name in ("fairseq_groc", "examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    places = {"programs": environment()["PATH"].split(":")[0], "lexicon": ROOT / "tests" / "fixtures" / "mini.tsv"}
    places |= {"script": ROOT / "scripts" / "preprocess.sh", "published": published, "texts": folder / "FOLDER"}
    texts = {"bin/fairseq-train": SMALL, "bin/curl": CURL, "bin/python": PYTHON, "scripts/preprocess.sh": PREPROCESS}
    for name, text in texts.items():
        program(folder / name, text.format(**places))
    program(folder / "bin" / "tail", READ_TO_THE_END)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def blocks(page: str):
    """Return the indented paragraphs that begin with a command, or with a remark and then a command, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [textwrap.dedent(block) for block in re.findall(r"(?:^ {4,}\S.*\n)+", text, re.MULTILINE)]
    return [block for block in found if COMMAND.match(re.sub("^# .*\n", "", block))]


def run_page(folder: Path, page: str) -> str:
    """Run the commands of a page but for those that are run elsewhere; return what they printed."""
    elsewhere, found = {**STORIES, **RECIPES}[page], blocks(page)
    assert found, f"no command of {page} was found"
    script = "\n".join(block for block in found if not any(part in block for part in elsewhere))
    assert "&&" not in script, f"{page}: bash would go on if what is before && fails"
    return run_script(folder, script, page)


def run_script(folder: Path, script: str, name: str) -> str:
    """Run a script in the folder, the first command that fails ends it; return what was printed."""
    (folder / "page.sh").write_text(f"set -e -o pipefail\n{script}\n")
    variables = environment()
    result = subprocess.run(
        ["bash", "page.sh"],
        cwd=folder,
        env={**variables, "PATH": f"{folder / 'bin'}:{variables['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, f"{name}:\n{result.stdout[-3000:]}"
    return result.stdout
