"""The tables of benchmarks/README.md: what each program asks, the time it took, and what it printed last (record.py)."""

import ast
import json
from pathlib import Path
from typing import Any


def programs(folder: Path) -> str:
    """Return a line for each program: its own first sentence, and the minutes of one core that its last record took."""
    lines = ["| program | asks | minutes of one core |", "| --- | --- | ---: |"]
    for path in sorted(path for path in folder.glob("*.py") if path.stem != "record"):
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            first = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
            found = record(folder, path.stem)
            minutes = f"{found['core_minutes']:.1f}" if found else ""
            lines.append(f"| `{path.name}` | {first} | {minutes} |")
    return "\n".join(lines)


def printed(folder: Path) -> str:
    """Return the command and the output of each record."""
    found = [record(folder, path.stem) for path in sorted((folder / "results" / "printed").glob("*.json"))]
    return "\n\n".join(f"    {one['command']}\n\n```text\n" + "\n".join(one["printed"]).strip() + "\n```" for one in found if one)


def record(folder: Path, name: str) -> dict[str, Any] | None:
    """Return what record.py has kept of a program."""
    path = folder / "results" / "printed" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
