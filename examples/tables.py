"""Renew every table and page that is made from JSON in the repository: `make tables`.

A page has a table between `<!-- table NAME: make tables -->` and `<!-- end -->`.
"""

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parent
ROOT, PAPERS, QUICKSTART = EXAMPLES.parent, EXAMPLES / "papers", EXAMPLES / "quickstart"
PAGES = (
    "README.md",
    "docs/quickstart.md",
    "docs/performance.md",
    "docs/results.md",
    "docs/contexts.md",
    "docs/embeddings.md",
    "docs/heads.md",
    "docs/lexicons.md",
    "docs/serving.md",
    "examples/context/README.md",
    "examples/languages/README.md",
    "examples/papers/README.md",
    "examples/rescoring/README.md",
    "examples/subwords/README.md",
    "benchmarks/README.md",
)
_BLOCK = re.compile(r"(<!-- table ([\w-]+): make tables -->\n).*?(<!-- end -->)", re.DOTALL)
sys.path += [str(PAPERS), str(QUICKSTART), *(str(EXAMPLES / name) for name in ("context", "languages", "subwords", "adaptation"))]
sys.path += [str(ROOT / "benchmarks")]

import benchmark_page  # noqa: E402
import context_tables  # noqa: E402
import equal_time  # noqa: E402
import findings  # noqa: E402
import language_tables  # noqa: E402
import subword_tables  # noqa: E402
from cells import TITLES, brief, table  # noqa: E402
from quickstart_table import quickstart  # noqa: E402
from report import found_in, pages  # noqa: E402

from fairseq_groc.evaluation.bins import Bin, bins_table  # noqa: E402

RESULTS = PAPERS / "results"
CONTEXT = EXAMPLES / "context" / "results"
LANGUAGES = EXAMPLES / "languages" / "results"
COVERAGE = LANGUAGES / "coverage.json"
SUBWORDS = EXAMPLES / "subwords" / "results" / "reviews.json"
SCALING = {  # names in the benchmark
    "tied": "tied",
    "corrected-0.05": "GroC + corrections",
    "sampled-0.1": "GroC, sampled updates",
    "full": "GroC, full updates",
}
QUARTER = RESULTS / "table-2-ptb-quarter.json"
SERVING = ROOT / "benchmarks" / "results" / "serving.json"
STEPS = ROOT / "benchmarks" / "results" / "step-by-step-small.json"


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


def recipes(folder: Path) -> str:
    """Return a table of what each experiment's runs have cost, those of every setting and seed."""
    rows = []
    for results in (found for found in found_in(folder).values() if "experiment" in found):
        runs = {run["checkpoint"]: run["cost"] for row in results["rows"].values() for run in (*row["tried"], *row["runs"])}
        costs = [cost for cost in runs.values() if cost]  # of some it was not recorded
        hours = f"{sum(cost['seconds'] for cost in costs) / 3600:.1f}" + (f" (of {len(costs)})" if len(costs) < len(runs) else "")
        most = (max((cost[key] for cost in costs), default=0) for key in ("peak_gib", "disk_mib"))
        on = "a GPU" if "CPU" not in results["machine"] else ""
        about = [f"`{results['experiment']}`", TITLES[results["dataset"]], f"`{results['scale']}`"]
        rows.append([*about, str(len(runs)), " on ".join(filter(None, (hours, on))), "{:.1f}, {:.0f}".format(*most)])
    return "\n".join(table(["table", "text", "scale", "runs", "hours", "GiB, MiB on disk a run"], rows))


def scaling(runs: dict[str, Any]) -> str:
    """Return what a step costs at each size of the vocabulary, and how fast scoring is, in units of tied's."""
    found = {tuple(key.split()[:2]): run for key, run in runs.items()}
    names, sizes = (list(dict.fromkeys(parts)) for parts in zip(*found, strict=True))

    def relative(name: str, which: str) -> list[str]:
        return [f"{found[name, size][which] / found['tied', size][which]:.2f}" for size in sizes]

    rows = []
    for name in names:
        memory = ", ".join(f"{found[name, size]['peak_gib']:.1f}" for size in sizes)
        rows.append([SCALING[name], *relative(name, "mean"), ", ".join(relative(name, "scoring_tokens_per_second")), memory])
    steps = [f"a step, V = {int(size):,}" for size in sizes]
    return "\n".join(table(["", *steps, "scored tokens a second", "peak GiB"], rows))


def by_frequency(found: dict[str, Any], baseline: str) -> str:
    """Return what frequency-bins has printed of a baseline."""
    bins = [Bin(**{key: value for key, value in one.items() if key != "label"}) for one in found["bins"][baseline]]
    return f"```text\n{bins_table({baseline: bins})}\n```"


def in_context(name: str) -> str:
    """Return the table of an experiment with the models that know contexts of a text."""
    found = loaded(CONTEXT / f"{name}.json")
    return "\n".join(context_tables.markdown(found["rows"], found["ngram"]))


def in_language(name: str) -> str:
    """Return the table of the models of a language, of all seeds."""
    return language_tables.table(*map(loaded, sorted(LANGUAGES.glob(f"{name}*.json"))))


def rescoring(folder: Path) -> str:
    """Return the word error rates of every list of hypotheses."""
    lists = {path.stem: loaded(path) for path in sorted(folder.glob("*.json"))}
    labels = dict.fromkeys(label for found in lists.values() for label in found["rows"])
    rows = [[label, *(f"{found['rows'][label]:.1%}" for found in lists.values())] for label in labels]
    return "\n".join(table(["word error rate", *lists], rows))


TABLES: dict[str, Callable[[], str]] = {
    "quickstart": lambda: quickstart(loaded(QUICKSTART / "results.json")["rows"]),
    "penn-treebank": lambda: brief(loaded(QUARTER)),
    "equal-time": lambda: equal_time.of_files(QUARTER, STEPS, "tied")[1],
    "scaling": lambda: scaling(loaded(ROOT / "benchmarks" / "results" / "scaling-small.json")["runs"]),
    "recipes": lambda: recipes(RESULTS),
    "first-run": lambda: findings.first_run(RESULTS),
    "heads": lambda: findings.heads(RESULTS),
    "lexicon": lambda: findings.lexicon(RESULTS),
    "domains": lambda: findings.domains(RESULTS),
    "frequency-bins": lambda: by_frequency(loaded(RESULTS / "figure-3-ptb-quarter.json")["found"], "tied"),
    "beginnings": lambda: findings.beginnings(RESULTS),
    **{f"contexts-{text}": partial(in_context, f"models-{text}") for text in ("agnews", "dbpedia", "speeches", "characters")},
    "contexts-domains": lambda: in_context("heads-domains"),
    "contexts-adaptation": lambda: "\n".join(
        context_tables.against_adaptation(loaded(CONTEXT / "against-adaptation.json")["rows"])
    ),
    "rescoring": lambda: rescoring(EXAMPLES / "rescoring" / "results"),
    "lexicon-coverage": lambda: language_tables.coverage(loaded(COVERAGE)),
    "spelling-units": lambda: language_tables.units(loaded(COVERAGE)),
    **{f"language-{name}": partial(in_language, name) for name in ("portuguese", "german", "english")},
    "subwords-bits": lambda: "\n".join(subword_tables.bits(loaded(SUBWORDS))),
    "subwords-transformers": lambda: "\n".join(subword_tables.bits(loaded(SUBWORDS.with_name("transformers.json")))),
    "subwords-words": lambda: "\n".join(subword_tables.words(loaded(SUBWORDS))),
    "subwords-costs": lambda: "\n".join(subword_tables.costs(loaded(SUBWORDS))),
    "serving-speed": lambda: benchmark_page.serving_speed(loaded(SERVING)),
    "serving-memory": lambda: benchmark_page.serving_memory(loaded(SERVING)),
    "benchmarks": lambda: benchmark_page.programs(ROOT / "benchmarks"),
    "printed": lambda: benchmark_page.printed(ROOT / "benchmarks"),
}


def renewed(text: str) -> str:
    """Return a page with all its tables as the JSON has them."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def main() -> None:
    for name in PAGES:
        path = ROOT / name
        path.write_text(renewed(path.read_text()))
    for name, text in pages(RESULTS).items():
        (RESULTS / name).write_text(text)


if __name__ == "__main__":
    main()
