"""The pages of recipes run as they are shown, at sizes of which nothing can be concluded: ``make recipes``; CI runs it, too."""

import gzip
import json
import shutil
import zipfile

import pytest
from cli_helpers import ROOT, WORDS, write
from documented import RECIPES, blocks, run_page, run_script, user_folder
from test_datasets import archive

pytestmark = pytest.mark.recipes

TRAIN = """
fairseq-train data-bin/news-2007 --user-dir fairseq_groc --task wordnet_lexicon --arch groc_lstm_lm_small_corrected \\
  --batch-size 20 --optimizer adam --lr 0.001 --save-dir checkpoints/mine
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A user's folder with the published texts, small ones, and raw ones of other domains."""
    folder = user_folder(tmp_path_factory.mktemp("project"))
    published, more = folder / "published", [*WORDS, "hound", "zebra"]

    def text(name, seed, count=80):
        return write(folder / name, more, count, seed).read_text()

    for year in range(2007, 2012):
        (published / f"news.{year}.en.shuffled.gz").write_bytes(gzip.compress(text("news.txt", year).encode()))
    archive(published, "training-parallel-commoncrawl.tgz", {"commoncrawl.de-en.en": text("web.txt", 1)})
    splits = ("train", "valid", "test")
    archive(published, "wikitext-103-v1.zip", {f"wikitext-103/wiki.{split}.tokens": text("wiki.txt", 2) for split in splits})
    with zipfile.ZipFile(published / "wikitext-2-v1.zip", "w") as zipped:
        for split in splits:
            zipped.writestr(f"wikitext-2/wiki.{split}.tokens", text("wiki.txt", 3))
    (folder / "SPEECHES").mkdir()
    for year in (1970, 1983, 1984, 1985, 1986, 1990):
        text(f"SPEECHES/{year}-someone.txt", year, 30)
    for name in ("science.txt", "rural.txt", "speeches.txt"):
        text(name, 4)
    for name in ("PTB", "TEXTS"):
        (folder / name).symlink_to("FOLDER")
    for name in ("reviews/train", "reviews/test", "abc/science", "abc/rural", "speeches/1", "wikitext-2/train"):
        (folder / "FOLDER" / name).parent.mkdir(exist_ok=True)
        text(f"FOLDER/{name}.txt", 5)
    return folder


def test_the_cross_domain_set(project):
    run_script(project, "\n".join(blocks("docs/cross_domain.md")[:2]) + TRAIN, "training")
    run_page(project, "docs/cross_domain.md")
    for name in ("news-2007", "news-2011", "web", "wiki"):
        assert json.loads((project / f"{name}.json").read_text())
    assert (project / "checkpoints" / "web" / "checkpoint_best.pt").exists()
    assert rows_of(project / "adaptation" / "table-5-domains-cpu.json") >= {"GroC", "tied + local"}


def test_adaptation(project):
    shutil.rmtree(project / "adaptation", ignore_errors=True)  # that of other texts
    run_page(project, "examples/adaptation/README.md")
    for name in ("domains", "temporal"):
        assert rows_of(project / "adaptation" / f"table-5-{name}-cpu.json") >= {"GroC", "tied + local"}
    assert "| GroC + local |" in (project / "adaptation" / "table-5-domains-cpu.md").read_text()


def test_the_papers_tables_and_figures(project):
    run_page(project, "examples/papers/README.md")
    index = (project / "papers" / "README.md").read_text()
    made = {path.stem: json.loads(path.read_text())["title"] for path in (project / "papers").glob("*.json")}
    names = ["table-2", "table-3", "table-4", "drill-table-4", "figure-3", "coverage", "figure-7", "drill-figure-3"]
    names = [*(f"{name}-ptb-cpu" for name in names), "table-2-wikitext2-quarter", "choices-ptb-quarter"]
    names += ["table-2-ptb-quarter", "corrections-ptb-quarter", "table-10-ptb-quarter"]
    assert set(made) == set(names)
    made.pop("table-10-ptb-quarter")  # the README makes it after the page
    assert [name for name, title in made.items() if f"[{title} (" not in index] == []
    assert rows_of(project / "papers" / "table-2-ptb-cpu.json") >= {"lookup", "convolutional", "bilinear", "adaptive", "GroC"}
    assert "GroC, 10% full updates" in (project / "papers" / "table-10-ptb-quarter.json").read_text()


def test_the_commands_of_the_results(project):
    run_page(project, "docs/results.md")
    assert rows_of(project / "mine" / "table-2-ptb-quarter.json") == {"tied", "GroC + corrections"}
    pages = [page for page in RECIPES if page.startswith("examples/papers/results/")]
    for page in sorted(pages, key=lambda page: ("domains" in page, "figure" in page)):  # a figure's models are a table's
        if "domains" in page:
            shutil.rmtree(project / "DIR")  # each of these begins with texts of its own
        run_page(project, page)
        published = (ROOT / page).with_suffix(".json")
        made = project / "DIR" / published.name.replace("-dynamic", "")  # a page of the same table, with other adapters
        assert made.exists(), made.name
        if "experiment" in json.loads(published.read_text()):
            assert rows_of(made) == rows_of(published), made.name


def test_performance(project):
    run_script(project, "scripts/preprocess.sh --dataset ptb --dest data-bin/ptb", "data")
    run_page(project, "docs/performance.md")
    for name in ("scaling-small.json", "step-by-step-small.json"):
        assert (project / "DIR" / name).exists(), name


def test_benchmarks(project):
    run_script(project, "scripts/preprocess.sh --dataset ptb --dest data-bin/ptb", "data")
    run_page(project, "benchmarks/README.md")
    for name in ("step-by-step-ptb.json", "step-by-step-wikitext2.json"):
        assert (project / "DIR" / name).exists(), name


def rows_of(results):
    return set(json.loads(results.read_text())["rows"])
