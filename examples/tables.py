"""Renew every table and page that is made from JSON in the repository: `make tables`.

A page has a table between `<!-- table NAME: make tables -->` and `<!-- end -->`.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict

EXAMPLES = Path(__file__).resolve().parent
ROOT, PAPERS, QUICKSTART = EXAMPLES.parent, EXAMPLES / "papers", EXAMPLES / "quickstart"
PAGES = ("README.md", "docs/performance.md", "examples/papers/README.md")
_BLOCK = re.compile(r"(<!-- table ([\w-]+): make tables -->\n).*?(<!-- end -->)", re.DOTALL)
sys.path += [str(PAPERS), str(QUICKSTART)]

import equal_time  # noqa: E402
import overview  # noqa: E402
from quickstart_table import quickstart  # noqa: E402
from report import brief, page  # noqa: E402

RESULTS = PAPERS / "results"
SCALING = {  # names in the benchmark
    "tied": "tied",
    "corrected-0.05": "GroC + corrections",
    "sampled-0.1": "GroC, sampled updates",
    "full": "GroC, full updates",
}
QUARTER = RESULTS / "table-2-ptb-quarter.json"


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


TABLES: Dict[str, Callable[[], str]] = {
    "quickstart": lambda: quickstart(loaded(QUICKSTART / "results.json")["rows"]),
    "penn-treebank": lambda: brief(loaded(QUARTER)["rows"]),
    "equal-time": lambda: equal_time.of_files(QUARTER, ROOT / "benchmarks" / "results" / "step-by-step-small.json", "tied")[1],
    "scaling": lambda: scaling(loaded(ROOT / "benchmarks" / "results" / "scaling-small.json")["runs"]),
    "recipes": lambda: overview.overview(RESULTS),
}


def scaling(runs: Dict[str, Any]) -> str:
    """Return the table of what a step costs at each size of the vocabulary, in times of the first run's mean."""
    lines = ["| V | model | a step, x tied: mean | median | peak GiB | scoring, tokens a second, x tied |", "| ---: | --- | ---: | ---: | ---: | ---: |"]
    for key, found in runs.items():
        name, size = key.split()[:2]
        if name == "tied":
            first = found
        times = " | ".join(f"{found[which] / first[which]:.2f}" for which in ("mean", "ms"))
        speed = found["scoring_tokens_per_second"] / first["scoring_tokens_per_second"]
        lines.append(f"| {int(size):,} | {SCALING[name]} | {times} | {found['peak_gib']:.1f} | {speed:.2f} |")
    return "\n".join(lines)


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
