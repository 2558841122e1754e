"""The README's table of what each recipe has cost and found, from the JSON that docs/results.md is made of."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List

from analyses import ANALYSES
from experiments import EXPERIMENTS
from report import ADAPTATION, TITLES, table

COLUMNS = ["recipe", "text", "scale", "runs, hours in all", "GiB, MiB on disk a run", "what comes out (in the paper)"]


def overview(folder: Path) -> str:
    """Return the table."""
    names = (*EXPERIMENTS, *ANALYSES, ADAPTATION)
    found = [json.loads(path.read_text()) for name in names for path in sorted(folder.glob(f"{name}-*-*.json"))]
    rows = [next(write for kind, write in KINDS.items() if kind in results)(results) for results in found]
    return "\n".join(table(COLUMNS, rows))


def experiment(results: Dict[str, Any]) -> List[str]:
    """Return the table's row of trained models: all settings and seeds that were run, and the test perplexities."""
    rows = results["rows"]
    runs = {run["checkpoint"]: run["cost"] for row in rows.values() for run in (*row["tried"], *row["runs"])}
    costs = [cost for cost in runs.values() if cost]
    hours = sum(cost["seconds"] for cost in costs) / 3600
    some = f" (of {len(costs)})" if len(costs) < len(runs) else ""
    found = [f"{label} {mean(row):.1f}" + published(row) for label, row in rows.items()]
    sizes = f"{max(cost['peak_gib'] for cost in costs):.1f}, {max(cost['disk_mib'] for cost in costs):.0f}" if costs else ""
    return [*about(results), f"{len(runs)}, {hours:.1f}{some}", sizes, f"test perplexity: {', '.join(found)}"]


def mean(row: Dict[str, Any]) -> float:
    """Return the test perplexity, the mean of all seeds."""
    return sum(run["test"] for run in row["runs"]) / len(row["runs"])


def published(row: Dict[str, Any]) -> str:
    return f" ({row['paper']['test']:g})" if row["paper"]["test"] else ""


def analysis(results: Dict[str, Any]) -> List[str]:
    """Return the table's row of what was found out about models."""
    name = results["analysis"]
    return [*about(results), "", "", f"{BRIEF[name](results['found'])} ({ANALYSES[name].paper.rstrip('.')})"]


def adaptation(results: Dict[str, Any]) -> List[str]:
    """Return the table's row of models on other domains."""
    first, rows = results["trained_on"], results["rows"]
    others = [domain for domain in results["domains"] if domain != first]
    found = []
    for label in ("tied + uniform", "tied + local", "GroC", "GroC + local"):
        figures = [f"{float(rows[label][domain]['all']['perplexity']):,.0f}" for domain in (first, *others)]
        found.append(f"{label} {' / '.join(figures)}")
    where = f"test perplexity on {' / '.join((first, *others))}: "
    return [recipe(results), "by domain", results["scale"], "", "", where + "; ".join(found)]


def about(results: Dict[str, Any]) -> List[str]:
    return [recipe(results), TITLES[results["dataset"]], results["scale"]]


def recipe(results: Dict[str, Any]) -> str:
    return str(results["title"]).partition(":")[0]


def bins(found: Dict[str, Any]) -> str:
    """Return the mean gain a token over each baseline, from those of the bins."""
    gains = {
        name: sum(b["tokens"] * b["mean"] for b in of_baseline if b["tokens"]) / sum(b["tokens"] for b in of_baseline)
        for name, of_baseline in found["bins"].items()
    }
    return "mean gain a token, nats, over " + ", ".join(f"{name} {gain:.2f}" for name, gain in gains.items())


def coverage(found: Dict[str, Any]) -> str:
    """Return the perplexity without any entry and with all of them."""
    by_share = sorted(found["rows"], key=lambda row: float(row["share"]))
    return "test perplexity " + ", ".join(f"{row['perplexity']:.1f} with {row['share']:.0%}" for row in by_share)


def grid(found: Dict[str, Any]) -> str:
    """Return the best setting of the cache."""
    best = min(found["grid"], key=lambda row: float(row["perplexity"]))
    return f"best at a weight of {best['local_weight']:g} and theta {best['cache_theta']:g}"


def speed(found: Dict[str, Any]) -> str:
    """Return the time of each model in times of the first one's."""
    return "time of an epoch: " + ", ".join(f"{row['name']} {row['relative']:.1f}" for row in found["rows"])


KINDS: Dict[str, Callable] = {"experiment": experiment, "analysis": analysis, "adaptation": adaptation}
BRIEF = {"figure-3": bins, "drill-figure-3": bins, "coverage": coverage, "figure-7": grid, "table-10": speed}
