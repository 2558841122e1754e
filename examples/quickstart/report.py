"""The table and the picture of the quickstart; from its results.json, the README's table:

    python examples/quickstart/report.py results.json
"""

import json
import math
import sys
from pathlib import Path
from typing import Any, Dict, List

from fairseq_groc.cli.results import color_of, label_log_axis, pyplot, save_figure

DOMAINS = ("in-domain", "new domain")
PARTS = {"all": "all words", "known": "known words", "new": "new words"}


def table(rows: List[Dict[str, Any]]) -> str:
    """Return the results as text."""
    head = f"{'':<20}{'parameters':>12}{'seconds':>9}   {'test text':<12}{'tokens':>9}{'new':>8}"
    lines = [head + f"{'all':>10}{'known':>10}{'new words':>12}"]
    for domain in DOMAINS:
        for row in rows:
            r = row[domain]
            own = f"{row['label']:<20}{row['parameters']:>12,}{row['seconds']:>9,.0f}   "
            text = f"{domain:<12}{r['tokens']:>9,}{r['share_new']:>8.1%}"
            new = "none" if r["new"] is None else f"{r['new']:,.0f}"
            lines.append(own + text + f"{r['all']:>10,.1f}{r['known']:>10,.1f}{new:>12}")
    lines.append("perplexity, lower is better; new: words that the training text lacks; seconds: of training")
    return "\n".join(lines)


def markdown(rows: List[Dict[str, Any]]) -> str:
    """Return the results as a table of the README."""
    kinds = [(domain, part) for domain in DOMAINS for part in PARTS if rows[0][domain][part] is not None]
    head = ["", *(f"{PARTS[part]}, {domain}" for domain, part in kinds), "parameters", "seconds"]
    best = {kind: min(row[kind[0]][kind[1]] for row in rows) for kind in kinds}
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row in rows:
        shown = [f"{row[domain][part]:,.0f}" for domain, part in kinds]
        cells = [f"**{text}**" if row[k[0]][k[1]] == best[k] else text for text, k in zip(shown, kinds)]
        lines.append([row["label"], *cells, f"{row['parameters'] / 1e6:.2f}M", f"{row['seconds']:,.0f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(rows: List[Dict[str, Any]], path: Path) -> None:
    """Save the perplexities as dots, a line for each kind of words in each domain, the models' dots joined."""
    kinds = [(domain, part) for domain in DOMAINS for part in PARTS if rows[0][domain][part] is not None]
    places = {kind: -number - 0.6 * (kind[0] == DOMAINS[1]) for number, kind in enumerate(kinds)}
    figure, axes = pyplot().subplots(figsize=(8, 4.2))
    for kind, place in places.items():
        found = {row["label"]: row[kind[0]][kind[1]] for row in rows}
        values = [value for value in found.values() if math.isfinite(value)]
        axes.plot([min(values), max(values)], [place, place], color="#cccccc", linewidth=3, zorder=1)
        for label, value in found.items():
            axes.scatter(value, place, s=70, color=color_of(label), zorder=2)
            left = value == min(values)
            shown = f"{value:,.0f}" if value < 1e4 else f"{value / 1e3:,.0f}K"
            where = {"xytext": (-9 if left else 9, 0), "ha": "right" if left else "left", "va": "center"}
            axes.annotate(shown, (value, place), textcoords="offset points", color=color_of(label), **where)
    first = places[kinds[0]]
    for row in rows:  # the models' names, above their dots in the first line
        value = row[DOMAINS[0]]["all"]
        left = value == min(other[DOMAINS[0]]["all"] for other in rows)
        text = {"ha": "right" if left else "left", "va": "bottom", "fontweight": "bold", "color": color_of(row["label"])}
        axes.annotate(row["label"], (value, first), xytext=(0, 9), textcoords="offset points", **text)
    axes.set_yticks(list(places.values()), [f"{PARTS[part]}, {domain}" for domain, part in kinds])
    axes.set(xscale="log", xlabel="perplexity, lower is better (log scale)", ylim=(min(places.values()) - 0.6, first + 1.0))
    axes.margins(x=0.15)
    label_log_axis(axes.xaxis)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    save_figure(figure, path)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())["rows"]))
