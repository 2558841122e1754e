"""The commands of README, docs and examples run as they are shown, one page after the other, in a folder of a user's."""

import json
import os
import re

import pytest
from cli_helpers import ROOT, WORDS
from documented import STORIES, run_page, run_script, user_folder


@pytest.fixture(scope="module")
def project(tmp_path_factory, models):
    """A user's folder with what the pages speak of besides texts."""
    folder = user_folder(tmp_path_factory.mktemp("project"))
    for number, (split, language) in enumerate((s, la) for s in ("train", "val", "test_2016_flickr") for la in ("en", "de")):
        lines = [f"{i % 3} {WORDS[i % 7]} {WORDS[(i + number) % 5]}" for i in range(30)]
        (folder / "FOLDER" / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    for name in ("FILE", "LOG"):
        (folder / name).write_text("the cat sat\nan unseen word\n")
    (folder / "nbest.tsv").write_text("0\tthe cat sat\n0\tthe cat sit\n")
    (folder / "WORDS").write_text("yes\nno\n")
    (folder / "lines.txt").write_text("the cat sat\n")
    (folder / "lines.tsv").write_text("sports\t2004\tthe cat sat\n\t\tthe dog\n")
    (folder / "DATA").symlink_to("data-bin/mine")
    (folder / "checkpoint_best.pt").symlink_to("checkpoints/mine/checkpoint_best.pt")
    for name, head in (("groc", "compositional_output"), ("tied", "tied")):
        (folder / name).symlink_to(models[head].parent)
    return folder


@pytest.fixture(scope="module")
def done(project):
    """What every page's blocks printed, of those that were run; the first that fails ends it."""
    return {page: run_page(project, page) for page in STORIES}


def test_python_of_the_readme(done, project):
    code = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (project / "readme.py").write_text("\n".join(code))
    printed = run_script(project, "python readme.py", "README.md")
    before, after = (json.loads(scores) for scores in re.findall(r"^(\[.*\])$", printed, re.MULTILINE))
    assert len(before) == len(after) == 5 and before != after  # four words and </s>
    assert re.search(r"^<unk> posted \w+", printed, re.MULTILINE)  # the small corpus lacks "she"


def test_open_vocabularies_score_every_token(done):
    for page in ("README.md", "examples/language_model/README.md", "examples/any_fairseq_lm/README.md"):
        assert re.search(r"Evaluated [\d,]+ tokens", done[page]) and "Perplexity: inf" not in done[page]


def test_files_that_pages_promise_are_there(done, project):
    for name in ("report.json", "grid.png", "bins.png", "coverage.png", "near.json", "curves.png", "curves.json"):
        assert (project / name).stat().st_size > 100, name
    assert os.listdir(project / "remembered") and "BLEU = " in done["examples/translation/README.md"]
    assert done["docs/vocabularies.md"].count("the cat sat") == 3 and "H-0\t" in done["examples/any_fairseq_lm/README.md"]
