"""What may import what: commands are above all else, ``modules`` below, and no import comes back to where it began."""

import ast
import importlib
import runpy
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in (ROOT / "fairseq_groc").rglob("*.py")}


def imports_of(path):
    """Return the modules of the package that a file imports, also within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in FILES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & FILES.keys()


IMPORTS = {name: imports_of(path) for name, path in FILES.items()}


def users_of(package, of):
    return {name for name, imported in of.items() if any(f"{one}.".startswith(f"{package}.") for one in imported)}


def test_commands_are_not_imported_but_by_what_runs_them():
    assert users_of("fairseq_groc.cli", IMPORTS) == {"fairseq_groc.__main__"}
    others = {path: imports_of(path) for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")}
    assert others and not users_of("fairseq_groc.cli", others)


def test_no_import_comes_back_to_where_it_began():
    TopologicalSorter(IMPORTS).prepare()  # a CycleError names the files


def test_arithmetic_knows_nothing_of_the_rest():
    below = {name: imported for name, imported in IMPORTS.items() if name.startswith("fairseq_groc.modules")}
    assert {one for imported in below.values() for one in imported} - below.keys() == {"fairseq_groc.errors"}


def test_contexts_know_nothing_of_fairseq():
    trees = [
        ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items() if name.startswith("fairseq_groc.contexts")
    ]
    modules = {node.module for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "fairseq_groc.errors" in modules and "fairseq" not in {module.split(".")[0] for module in modules}


def test_the_map_has_every_folder():
    named = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in FILES.values()} - {"fairseq_groc"}
    assert {folder for folder in folders if f"`{folder}`" not in named} == set()


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_program_runs_where_it_was_imported_before(monkeypatch):
    importlib.import_module("fairseq_groc.__main__")
    monkeypatch.setattr(sys, "argv", ["fairseq_groc", "user-dir"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("fairseq_groc", run_name="__main__")
    assert ended.value.code == 0
