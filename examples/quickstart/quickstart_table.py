"""The quickstart's table for the README."""

from typing import Any, Dict, List

DOMAINS = ("in-domain", "new domain")
PARTS = {"all": "all words", "known": "known words", "new": "new words"}


def quickstart(rows: List[Dict[str, Any]]) -> str:
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
