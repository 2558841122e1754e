"""The tables of benchmarks/README.md and docs/serving.md: what each program asks, took and printed last (record.py), or found."""

import ast
import json
from pathlib import Path
from typing import Any

MISSING = "not installed"


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


def serving_speed(results: dict[str, Any]) -> str:
    """Return what lines take in a program: median, least and most; and tokens a second, in units of ``fairseq_groc.load`` too.

    A program that was not installed says so.
    """
    lines = ["| words | threads | program | one line, ms | 10-best, ms | 100 lines, ms | tokens/s | ratio |"]
    lines.append("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for size, programs in results["sizes"].items():
        for threads, others in programs["fairseq_groc.load"]["threads"].items():
            there = {kind: found for kind, found in programs.items() if found and threads in found["threads"]}
            for kind, found in there.items():
                times, unit = found["threads"][threads], others["tokens a second"]
                cells = [cell(times[task], 1000) for task in ("one line", "10-best", "100 lines")]
                ratio = times["tokens a second"] / unit
                speed = f"{times['tokens a second']:,.0f} | {ratio:,.{0 if ratio >= 10 else 2}f}"
                lines.append(f"| {int(size):,} | {threads} | `{kind}` | {' | '.join(cells)} | {speed} |")
        lines += [f"| {int(size):,} | | `{kind}` | {MISSING} | | | | |" for kind, found in programs.items() if not found]
    return "\n".join([*lines, "", f"{results['machine']}; {results['rounds']} rounds."])


def serving_memory(results: dict[str, Any]) -> str:
    """Return the seconds to start and the memory of processes that serve."""
    lines = ["| words | program | start, s | one process, MiB | its own, of two processes, MiB |"]
    lines.append("| ---: | --- | ---: | ---: | ---: |")
    for size, programs in results["sizes"].items():
        for kind, found in ((kind, found) for kind, found in programs.items() if found):
            memory = f"{found['memory']['alone']:,.0f} | {found['memory']['of two']:,.0f}"
            lines.append(f"| {int(size):,} | `{kind}` | {cell(found['start'], 1)} | {memory} |")
    return "\n".join(lines)


def cell(value: dict[str, float], scale: float) -> str:
    """Return a median with its least and most; what is small has more digits."""
    digits = 1 if scale * value["median"] >= 1 else 3
    median, least, most = (f"{scale * value[key]:,.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({least} to {most})"
