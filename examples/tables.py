"""Renew every table and page that is made from JSON in the repository: `make tables`.

A page has a table between `<!-- table NAME: make tables -->` and `<!-- end -->`.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent
ROOT, PAPERS, QUICKSTART = EXAMPLES.parent, EXAMPLES / "papers", EXAMPLES / "quickstart"
PAGES = ("README.md", "docs/quickstart.md", "docs/performance.md", "examples/papers/README.md")
_BLOCK = re.compile(r"(<!-- table ([\w-]+): make tables -->\n).*?(<!-- end -->)", re.DOTALL)
sys.path += [str(PAPERS), str(QUICKSTART)]

import equal_time  # noqa: E402
from experiments import EXPERIMENTS  # noqa: E402
from quickstart_table import quickstart  # noqa: E402
from report import TITLES, brief, page, table  # noqa: E402

RESULTS = PAPERS / "results"
SCALING = {  # names in the benchmark
    "tied": "tied",
    "corrected-0.05": "GroC + corrections",
    "sampled-0.1": "GroC, sampled updates",
    "full": "GroC, full updates",
}
QUARTER = RESULTS / "table-2-ptb-quarter.json"
STEPS = ROOT / "benchmarks" / "results" / "step-by-step-small.json"


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


def recipes(folder: Path) -> str:
    """Return a table of what each experiment's runs have cost, those of every setting and seed."""
    rows = []
    for results in (json.loads(path.read_text()) for name in EXPERIMENTS for path in sorted(folder.glob(f"{name}-*-*.json"))):
        runs = {run["checkpoint"]: run["cost"] for row in results["rows"].values() for run in (*row["tried"], *row["runs"])}
        costs = [cost for cost in runs.values() if cost]  # an interrupted run has none
        hours = f"{sum(cost['seconds'] for cost in costs) / 3600:.1f}" + (f" (of {len(costs)})" if len(costs) < len(runs) else "")
        most = (max((cost[key] for cost in costs), default=0) for key in ("peak_gib", "disk_mib"))
        about = [results["title"].partition(":")[0], TITLES[results["dataset"]], results["scale"]]
        rows.append([*about, str(len(runs)), hours, "{:.1f}, {:.0f}".format(*most)])
    return "\n".join(table(["recipe", "text", "scale", "runs", "hours in all", "GiB, MiB on disk a run"], rows))


def scaling(runs: dict[str, Any]) -> str:
    """Return a table of what a step costs at each size of the vocabulary, in times of the first run's."""
    rows, first = [], next(iter(runs.values()))
    for key, found in runs.items():
        name, size = key.split()[:2]
        first = found if name == "tied" else first
        numbers = [found[which] / first[which] for which in ("mean", "ms", "scoring_tokens_per_second")]
        rows.append([f"{int(size):,}", SCALING[name], *(f"{number:.2f}" for number in numbers), f"{found['peak_gib']:.1f}"])
    return "\n".join(table(["V", "model", "a step, mean", "median", "scoring, tokens a second", "peak GiB"], rows))


TABLES: dict[str, Callable[[], str]] = {
    "quickstart": lambda: quickstart(loaded(QUICKSTART / "results.json")["rows"]),
    "penn-treebank": lambda: brief(loaded(QUARTER)["rows"]),
    "equal-time": lambda: equal_time.of_files(QUARTER, STEPS, "tied")[1],
    "equal-time-all": lambda: equal_time.of_files(RESULTS / "table-2-ptb-cpu.json", STEPS, "tied")[1],
    "scaling": lambda: scaling(loaded(ROOT / "benchmarks" / "results" / "scaling-small.json")["runs"]),
    "recipes": lambda: recipes(RESULTS),
}


def renewed(text: str) -> str:
    """Return a page with all its tables as the JSON has them."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def main() -> None:
    for name in PAGES:
        path = ROOT / name
        path.write_text(renewed(path.read_text()))
    (ROOT / "docs" / "results.md").write_text(page(RESULTS, ROOT / "docs"))


if __name__ == "__main__":
    main()
