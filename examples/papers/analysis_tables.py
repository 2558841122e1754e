"""What analyses.py finds, as tables in Markdown."""

from typing import Any

from cells import table


def bins(found: dict[str, Any]) -> list[str]:
    """Return the differences of loss, a row for each baseline and bin."""
    columns = ["baseline", "occurrences", "words", "tokens", "mean, nats", "median, nats", "relative"]
    rows = [(name, b) for name, of_baseline in found["bins"].items() for b in of_baseline]
    sizes = [[name, b["label"], f"{b['words']:,}", f"{b['tokens']:,}"] for name, b in rows]
    gains = [[f"{b['mean']:.3f}", f"{b['median']:.3f}", f"{b['relative']:.1f}%"] for _, b in rows]
    return table(columns, [size + gain for size, gain in zip(sizes, gains, strict=True)])


def coverage(found: dict[str, Any]) -> list[str]:
    """Return a row for each share of the entries."""
    columns = ["entries kept", "words with relations", "words with a definition", "test perplexity"]
    parts = ("share", "relations", "definitions")
    return table(columns, [[*(f"{row[key]:.0%}" for key in parts), f"{row['perplexity']:.1f}"] for row in found["rows"]])


def grid(found: dict[str, Any]) -> list[str]:
    """Return perplexities, a row for each weight and a column for each theta; what else was tried is the best one's."""

    def besides(row: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key not in ("local_weight", "cache_theta", "perplexity")}

    rows = [row for row in found["grid"] if row["local_weight"]]  # without the cache there is no theta
    best = min(rows, key=lambda row: float(row["perplexity"]))
    shown = [row for row in rows if besides(row) == besides(best)]
    perplexity = {(row["local_weight"], row["cache_theta"]): float(row["perplexity"]) for row in shown}
    weights, thetas = (sorted(set(values)) for values in zip(*perplexity, strict=True))
    columns = ["weight", *(f"theta {theta:g}" for theta in thetas)]
    return table(columns, [[f"{weight:g}", *(f"{perplexity[weight, theta]:.1f}" for theta in thetas)] for weight in weights])


def speed(found: dict[str, Any]) -> list[str]:
    """Return a row for each model, and what it was measured on."""
    columns = ["", "parameters", "s an epoch", f"time, x {found['rows'][0]['name']}", "range over rounds", "peak GiB"]
    rows = []
    for row in found["rows"]:
        spread = "{:.2f} to {:.2f}".format(*row["relative_range"]) if found["rounds"] > 1 else ""
        times = [f"{row['relative']:.2f}", spread, f"{row['peak_gib']:.1f}"]
        rows.append([row["name"], f"{row['parameters']:,}", f"{row['epoch_seconds']:,.0f}", *times])
    about = f"In turns, rounds: {found['rounds']}, updates of each: {found['updates']}; {found['machine']}."
    return [*table(columns, rows), "", about]


FOUND = {
    "figure-3": bins,
    "figure-3-corrections": bins,
    "drill-figure-3": bins,
    "coverage": coverage,
    "figure-7": grid,
    "table-10": speed,
}
