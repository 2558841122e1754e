"""Every command in README, docs and examples is one that its program takes: its name, its options, for fairseq their values.

Other tests run the commands themselves, on small texts, as they are shown: those of the stories (test_documented_stories.py), of
recipes (test_documented_recipes.py) and of docs/extend.md (test_extend.py).
"""

import itertools
import re
import runpy
import shlex
import sys
import textwrap

import documented
import pytest
from cli_helpers import ROOT
from documented import RECIPES, STORIES
from fairseq import options

from fairseq_groc.__main__ import main
from fairseq_groc.cli import COMMANDS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/README.md"))]
PAGES += [ROOT / "benchmarks" / "README.md", *sorted((ROOT / "examples" / "papers" / "results").glob("*.md"))]
PAGES.remove(ROOT / "docs" / "extend.md")
LAUNCHERS = re.compile(r"^(torchrun .*?(\$\(which (?=fairseq-train)|- (?=fairseq-train))|srun .*?(?=fairseq-train))")
PARSERS = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-eval-lm": options.get_eval_lm_parser,
    "fairseq-validate": options.get_validation_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
}


ENDS = {"--max-epoch", "--max-update", "--patience", "until_non_monotonic", "--help"}


def blocks(text):
    """Return the lines of indented and of fenced blocks, continued lines joined."""
    fenced, lines = False, []
    for line in text.splitlines():
        if line.strip().startswith("```"):
            fenced = not fenced
        elif fenced or re.match(r" {4,}\S", line):
            lines.append(line.strip())
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return re.sub(r'="[^"]*"', lambda quoted: quoted[0].replace("\n", " "), text).splitlines()


INLINE = re.compile(
    r"`((?:python -m fairseq_groc|python (?:benchmarks|examples)/|fairseq-[a-z]|scripts/preprocess\.sh|make )[^`]*)`"
)
PROGRAM = r"(fairseq-\S+|python -m fairseq_groc|python (benchmarks|examples)/\S+|scripts/preprocess.sh|make) "


def commands_of(page):
    """Return the commands of a page's blocks, without what launches them, and those that its sentences name."""
    lines = blocks(page.read_text())
    variables = {"rank": "0", **dict(pair for line in lines for pair in re.findall(r'^([A-Z]+)="(.*)"$', line))}
    for line in lines:
        for name, value in variables.items():
            line = line.replace(f"${name}", value)
        line = LAUNCHERS.sub("", line).replace("fairseq-train)", "fairseq-train")
        line = re.sub(r"^(PYTHONPATH=\S+|OMP_NUM_THREADS=\S+) ", "", line)
        if re.match(PROGRAM, line):
            yield line
    yield from inline(page)


def inline(page):
    """Return the commands that a page's sentences name with some option, as they would be typed."""
    spans = (" ".join(span.split()) for span in INLINE.findall(page.read_text()))
    return [span.replace("$PWD/", "") for span in spans if re.match(r"python|fairseq-hydra|scripts", span) and " --" in span]


DOCUMENTED = [
    pytest.param(line, id=f"{page.parent.name}/{page.name}: {line[:60]}") for page in PAGES for line in commands_of(page)
]


def test_commands_are_found():
    assert len(DOCUMENTED) > 70


def test_all_pages_with_commands_are_run_and_what_is_run_elsewhere_is_on_them():
    pages = {str(page.relative_to(ROOT)): typed(page.read_text()) for page in PAGES}
    assert {page for page, commands in pages.items() if commands} == {*STORIES, *RECIPES}
    for page, elsewhere in {**STORIES, **RECIPES}.items():
        found = documented.blocks(page)
        assert all(any(part in block for block in found) for part in elsewhere), page
        assert [line for line in pages[page] if line not in typed(indented("\n".join(found)))] == []
        left = [line for block in found if any(part in block for part in elsewhere) for line in typed(indented(block))]
        assert [line for line in left if not any(part in line for part in elsewhere)] == [], page


def typed(text):
    """Return the lines of a text's blocks that run a program of ours or of fairseq, whatever launches it."""
    return [line for line in blocks(text) if re.search(rf"(^|[ (]){PROGRAM}", line)]


def indented(text):
    return textwrap.indent(text, "    ")


@pytest.mark.parametrize("line", DOCUMENTED)
def test_command_is_taken(commands, line, capsys, monkeypatch):
    words = shlex.split(line, comments=True)
    words = words[: words.index("|")] if "|" in words else words
    words = words[: words.index(">")] if ">" in words else words
    program = words[0]
    if program == "make":
        assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for target in words[1:])
    elif program.startswith("fairseq-hydra"):
        assert (ROOT / words[words.index("--config-dir") + 1]).is_dir()
    elif program in PARSERS:
        assert program != "fairseq-train" or ENDS & {*words} or "..." in words, "this training never ends"
        taken_by_fairseq(words)
    elif words[1:3] == ["-m", "fairseq_groc"]:
        assert words[3].replace("-", "_") in COMMANDS
        taken_by(words, help_of(lambda: main([words[3], "--help"]), capsys))
    elif program.endswith("preprocess.sh"):
        taken_by(words, commands.preprocess("--help"))
    else:
        first = itertools.takewhile(lambda word: not word.startswith("-"), words[1:3])
        monkeypatch.setattr(sys, "argv", [*first, "--help"])  # of the form where a program has several
        for name, module in list(sys.modules.items()):  # examples have modules of the same names
            if str(getattr(module, "__file__", "")).startswith(str(ROOT / "examples")):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend((ROOT / words[1]).parent)
        taken_by(words, help_of(lambda: runpy.run_path(str(ROOT / words[1]), run_name="__main__"), capsys))


def taken_by_fairseq(words):
    """Parse as fairseq does: it refuses what it does not know, and values of the wrong kind."""
    given = [str(ROOT / "fairseq_groc") if word == "fairseq_groc" else word for word in words[1:] if word not in ("...", "&")]
    parser = PARSERS[words[0]]()
    if words[0] == "fairseq-preprocess":
        parser.parse_args(given)
    else:
        options.parse_args_and_arch(parser, input_args=given)


def help_of(run, capsys):
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        run()
    return capsys.readouterr().out


def taken_by(words, shown):
    """Check that every option is one of those that the program's help names."""
    missing = [word for word in words if word.startswith("--") and not re.search(rf"{re.escape(word)}\b", shown)]
    assert not missing, shown
