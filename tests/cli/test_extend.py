"""docs/extend.md as it is written: its files in a folder of a user's, and its commands in their order."""

import json
import re
import shlex
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from cli_helpers import ROOT, Commands, evaluated, header_of, tokens_of

from fairseq_groc.adapters import CACHES, OPTIONS, AdapterSettings, Cache, Option, register_cache
from fairseq_groc.cli import evaluate, register_command
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.heads import TiedOutput, register_head
from fairseq_groc.lexicon import NoLexicon, register_lexicon

PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
MINI = Path(__file__).parents[1] / "fixtures" / "mini.tsv"
CHECKPOINT = "checkpoints/low-rank/checkpoint_best.pt"
USER = ["--user-dir", "mine"]
OURS = ["python", "-m", "fairseq_groc"]
EVALUATE = [*OURS, "evaluate", "--path", CHECKPOINT, "--data", "data-bin/other"]
RECENT = ["--recent-weight", "0.1"]


def blocks(language, text=PAGE):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands_of(title):
    """Return the commands of a section, as a shell splits them."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = "".join(blocks("bash", section)).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines]


RUN = ("A lexicon", "A head", "An encoder", "An adapter", "A command")
CHECKS = "Checks"


def test_all_sections_with_commands_are_run():
    sections = [section for section in PAGE.split("\n## ")[1:] if blocks("bash", section)]
    assert [section.splitlines()[0] for section in sections] == [*RUN, CHECKS]
    assert blocks("bash", PAGE.split("\n## ")[0]) == []


@pytest.fixture(scope="module")
def typed(tmp_path_factory, corpus):
    """Return a function that runs a command where the page's files are."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "mine").mkdir()
    for code in blocks("python"):
        (folder / code.splitlines()[0].removeprefix("# ")).write_text(code)
    shutil.copytree(corpus / "data", folder / "data-bin" / "mine", ignore=shutil.ignore_patterns("valid1.*"))
    shutil.copytree(corpus / "union", folder / "data-bin" / "other")
    shutil.copy(MINI, folder / "words.tsv")
    return Commands(folder)


@pytest.fixture(scope="module")
def said(typed):
    """What the page's commands print, by section; all of them succeed."""
    return {title: [typed.ok(*command) for command in commands_of(title)] for title in RUN}


def overall(report):
    """Return the perplexities of a report of ``evaluate``: of the adapted model, and of the model alone."""
    columns = re.findall(r"^overall .*$", report, re.MULTILINE)[0].split()
    return [float(column.replace(",", "")) for column in columns[-2:]]


def sum_error(report):
    return float(re.findall(r"largest \|1 - sum\| of [\d,]+ positions: (\S+)", report)[0])


def test_the_lexicon(said, typed):
    explained, mine, other = said["A lexicon"]
    assert re.findall(r"relation +(\S+) +\((.*)\)", explained) == [("cat", "part of lion-cat"), ("lion", "part of lion-cat")]
    assert re.search(r"definition +a small domesticated animal with fur +\(words.tsv:1\)", explained)
    for folder, output in (("mine", mine), ("other", other)):
        assert "in the lexicon (compounds of words.tsv)" in output and "4 with a definition" in output
        header = header_of(typed.folder / "data-bin" / folder)
        assert header["lexicon"].startswith("compounds-1-file-") and header["sources"] == [
            f"compounds:{(typed.folder / 'words.tsv').resolve()}"
        ]
    plain = typed.ok(*OURS, "explain", "lion-cat", "cat", "--lexicon-path", "compounds:words.tsv", *USER)
    assert "relation     feline  (words.tsv:1)" in plain  # a word that the file has is as the file says


def test_the_head(said, typed, corpus):
    trained, scored, report = said["A head"]
    assert "(head): LowRankOutput(" in trained and "in_features=128, out_features=8" in trained
    tokens, ppl = evaluated(scored)
    assert tokens == tokens_of(corpus / "other.txt")
    assert overall(report) == [pytest.approx(ppl, abs=0.02)] * 2 and sum_error(report) < 1e-6
    score = f"import fairseq_groc; print(fairseq_groc.load('{CHECKPOINT}', 'data-bin/other').score(['cat']))"
    assert "tokens=2" in typed.ok("python", "-c", f"import mine; {score}")
    assert "output head 'low_rank' is not registered" in typed.fails("python", "-c", score)


def test_the_embedding_and_the_encoder(said):
    trained, report = said["An encoder"]
    assert "(encoder): GRUEncoder(" in trained and "GRU(128, 64, num_layers=2)" in trained
    assert "(context): Linear(in_features=64, out_features=128, bias=False)" in trained
    assert "(embedding): HashedEmbedding(" in trained and "(rows): Embedding(2000, 128)" in trained
    adapted, alone = overall(report)
    assert adapted != alone and sum_error(report) < 1e-6


def test_the_cache(said, typed):
    scored, report, tuned = said["An adapter"]
    adapted, alone = overall(report)
    assert evaluated(scored)[1] == pytest.approx(adapted, abs=0.02) and sum_error(report) < 1e-6
    assert alone == overall(said["A head"][2])[1] and abs(adapted - alone) > 0.1
    by_three = typed.ok(*EVALUATE, *USER, "--recent-weight", "0.1", "--recent-half-life", "50", "--tokens-per-sample", "3")
    assert overall(by_three) == pytest.approx([adapted, alone], abs=0.02)
    best = re.findall(r"^best: +(\S+) ", tuned, re.MULTILINE)[0]
    assert len(json.loads((typed.folder / "grid.json").read_text())["grid"]) >= 16  # two weights, half lives; four of uniform
    again = typed.ok(*EVALUATE, *USER, "--data", "data-bin/mine", "--split", "valid")
    assert "adapters as tuned on 'valid'" in again and "--recent-weight" in again
    assert overall(again)[0] == pytest.approx(float(best), abs=0.02)


def test_the_command(said, typed, corpus):
    assert said["A command"][0].split()[-1] == str(len((corpus / "data" / "dict.txt").read_text().splitlines()))
    listed = typed.ok(*OURS, *USER, "--help").partition("\ndata:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == ["preprocess", "tables", "explain", "size"]


def test_workers_import_it_too(monkeypatch):
    imported = []
    monkeypatch.setattr(evaluate, "import_user_module", lambda args: imported.append(args.user_dir))
    args = Namespace(
        user_dir="mine", workers=1, cpu=True, any_lexicon=False, draw_new_rows=False, path="nowhere.pt", data="nowhere"
    )
    with pytest.raises(DataError, match="nowhere.pt: no such checkpoint"):
        evaluate.share(args, 0)
    assert imported == ["mine"]


def test_the_checks(typed):
    for command, least in zip(commands_of(CHECKS), (28, 22, 7), strict=True):
        last = Commands(ROOT, typed.folder).ok(*command).splitlines()[-1]
        assert int(re.findall(r"(\d+) passed", last)[0]) >= least, (command, last)


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "error: output head 'low_rank' is not registered: expected one of "),
        (["--user-dir", "nowhere"], "error: --user-dir nowhere: expected the folder of a Python package, with an __init__.py"),
        (
            [*USER, "--recent-half-life", "20"],
            "--recent-half-life does nothing without --recent-weight: give both, or leave it out",
        ),
        ([*USER, "--recent-weight", "1.5"], "error: --recent-weight 1.5: expected a number from 0 to below 1"),
        ([*USER, *RECENT, "--recent-half-life", "0"], "error: --recent-half-life 0: expected a number above 0"),
    ],
)
def test_what_scoring_refuses(said, typed, options, message):
    last = typed.fails(*EVALUATE, *options).splitlines()[-1]
    assert last.startswith("error: ") and message in last


def test_a_lexicon_that_is_not_registered(ours):
    explain = ["explain", "cat", "--lexicon-path"]
    registered = (
        "of a registered lexicon (none, wordnet, wordnet_nouns_first, synonyms, omw, wn, lemmas; --user-dir registers others)"
    )
    assert registered in ours(*explain, "compounds:words.tsv", code=1)
    assert "--lexicon-path none:text: too many positional arguments. The form is NAME" in ours(*explain, "none:text", code=1)


class Other(Cache):
    """A cache that is never registered."""


@pytest.mark.parametrize(
    "register, message",
    [
        (lambda: register_head("tied")(TiedOutput), "output head 'tied' is registered already: choose a name that is none of "),
        (
            lambda: register_head("low-rank")(TiedOutput),
            "output head 'low-rank': expected a name of letters, digits and underscores",
        ),
        (lambda: register_lexicon("none")(NoLexicon), "lexicon 'none' is registered already: choose a name that is none of none"),
        (lambda: register_cache("local")(Other), "adapter 'local' is registered already"),
        (lambda: register_cache("other", cache_size=Option(1, ""))(Other), "adapter option 'cache_size' is registered already"),
        (lambda: register_cache("other", seed=Option(1, ""))(Other), "--seed: an option of the task wordnet_lexicon already"),
        (lambda: register_command("user_dir", print)(print), "command 'user_dir' is registered already: choose a name"),
        (lambda: AdapterSettings(other_weight=0.1), "other_weight: none of the registered adapters .* Give the --user-dir"),
    ],
)
def test_names_are_registered_once(register, message):
    with pytest.raises(OptionError, match=message):
        register()
    assert "other" not in CACHES and "other_weight" not in OPTIONS
