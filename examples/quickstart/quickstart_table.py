"""The tables and the picture of the quickstart."""

import math
from pathlib import Path
from typing import Any

from fairseq_groc.evaluation.results import aligned, color_of, pyplot, save_figure

DOMAINS = ("in-domain", "new domain")
PARTS = {"all": "all words", "known": "known words", "new": "new words"}


def quickstart(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table of the README."""
    kinds = [(domain, part) for domain in DOMAINS for part in PARTS if rows[0][domain][part] is not None]
    head = ["", *(f"{PARTS[part]}, {domain}" for domain, part in kinds), "parameters", "seconds"]
    best = {kind: min(row[kind[0]][kind[1]] for row in rows) for kind in kinds}
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row in rows:
        shown = [f"{row[domain][part]:,.0f}" for domain, part in kinds]
        cells = [f"**{text}**" if row[k[0]][k[1]] == best[k] else text for text, k in zip(shown, kinds, strict=True)]
        lines.append([row["label"], *cells, f"{row['parameters'] / 1e6:.2f}M", f"{row['seconds']:,.0f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the results as text."""
    lines = []
    for domain, row in ((domain, row) for domain in DOMAINS for row in rows):
        r = row[domain]
        sizes = [f"{row['parameters']:,}", f"{row['seconds']:,.0f}", f"{r['tokens']:,}", f"{r['share_new']:.1%}"]
        new = "none" if r["new"] is None else f"{r['new']:,.0f}"
        lines.append([row["label"], domain, *sizes, f"{r['all']:,.1f}", f"{r['known']:,.1f}", new])
    columns = ["", "test text", "parameters", "seconds", "tokens", "new", "all", "known", "new words"]
    legend = "perplexity, lower is better; new: words that the training text lacks; seconds: of training"
    return f"{aligned(columns, lines, names=2)}\n{legend}"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Save the perplexities as bars from 0, a panel for each kind of words that both domains have."""
    parts = [part for part in PARTS if all(row[domain][part] is not None for row in rows for domain in DOMAINS)]
    figure, panels = pyplot().subplots(1, len(parts), figsize=(3.2 * len(parts), 2.9), squeeze=False)
    height = 0.8 / len(rows)
    for part, axes in zip(parts, panels[0], strict=True):
        longest = max(row[domain][part] for row in rows for domain in DOMAINS if math.isfinite(row[domain][part]))
        for number, row in enumerate(rows):
            places = [place + height * (number - (len(rows) - 1) / 2) for place in range(len(DOMAINS))]
            values = [row[domain][part] for domain in DOMAINS]
            axes.barh(places, [min(value, longest) for value in values], 0.9 * height, color=color_of(row["label"]))
            for place, value in zip(places, values, strict=True):
                shown = f"{value:,.0f}" if value < 1e4 or not math.isfinite(value) else f"{value / 1e3:,.0f}K"
                axes.annotate(shown, (min(value, longest), place), (4, 0), textcoords="offset points", va="center")
            if axes is panels[0][0]:
                axes.annotate(row["label"], (0, places[0]), (5, 0), textcoords="offset points", va="center", color="white")
        axes.set(title=PARTS[part], xticks=[], xlim=(0, 1.25 * longest), yticks=range(len(DOMAINS)))
        axes.set_yticklabels(DOMAINS if axes is panels[0][0] else [])
        axes.invert_yaxis()
        axes.tick_params(length=0)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.supxlabel("perplexity of the test text, lower is better; each panel has its own scale", fontsize=10)
    save_figure(figure, path)
