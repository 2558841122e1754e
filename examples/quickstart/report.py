"""The table and the picture of the quickstart."""

from pathlib import Path
from typing import List

from fairseq_groc.cli.results import pyplot

NAMES = {"tied": "tied + uniform", "compositional_output": "GroC"}
DOMAINS = ("in-domain", "new domain")


def table(rows: List[dict]) -> str:
    """Return the results as text."""
    names = f"{'tokens':>9}{'overall':>10}{'known':>10}{'new words':>13}{'share new':>11}"
    lines = [f"{'':<16}{'parameters':>12}   {'test text':<12}{names}"]
    for domain in DOMAINS:
        for row in rows:
            r = row[domain]
            lines.append(
                f"{NAMES[row['head']]:<16}{row['parameters']:>12,}   {domain:<12}{r['tokens']:>9,}{r['overall']:>10,.1f}"
                f"{r['known']:>10,.1f}{r['new']:>13,.0f}{r['share_new']:>11.1%}"
            )
    best = min(rows, key=lambda row: row["new domain"]["overall"])
    lines.append(f"perplexity, lower is better; overall on the new domain: {NAMES[best['head']]} is ahead")
    return "\n".join(lines)


def draw(results: dict, path: Path) -> None:
    """Save the results as bars, and the training curves beside them."""
    plot = pyplot()
    figure, axes = plot.subplots(1, 2, figsize=(10, 3.8), width_ratios=[3, 2])
    kinds = [(domain, kind) for domain in DOMAINS for kind in ("overall", "known", "new")]
    for i, row in enumerate(results["rows"]):
        values = [row[domain][kind] for domain, kind in kinds]
        places = [k + 0.4 * i for k in range(len(kinds))]
        bars = axes[0].bar(places, values, width=0.38, label=NAMES[row["head"]])
        axes[0].bar_label(bars, [f"{v:,.0f}" if v < 1e4 else f"{v / 1e3:,.0f}k" for v in values], fontsize=7)
    axes[0].set_yscale("log")
    axes[0].set_ylim(top=axes[0].get_ylim()[1] * 3)
    names = {"overall": "all words", "known": "known words", "new": "new words"}
    axes[0].set_xticks([k + 0.2 for k in range(len(kinds))], [f"{names[kind]}\n{domain}" for domain, kind in kinds], fontsize=7)
    axes[0].set_ylabel("test perplexity (log scale)")
    axes[0].legend(loc="upper left", fontsize=8)
    for name, curve in results["curves"].items():
        head, rate = name.split("-lr")
        axes[1].plot(*zip(*curve), marker="o", label=f"{NAMES[head].split(' ')[0]}, lr {rate}")
    axes[1].set_yscale("log")
    axes[1].set_xlabel("updates")
    axes[1].set_ylabel("training perplexity")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
