"""The results as tables: bits per byte of each text, bits of known and of new words, and what it takes."""

from typing import Any

PARTS = {"known": "a known word", "new": "a new word"}


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def bits(results: dict[str, Any]) -> list[str]:
    """Return the bits per byte of each row on each domain; the least are bold."""
    rows, domains = results["rows"], results["domains"]
    least = {domain: min(of[domain]["bits_per_byte"] for of in rows.values()) for domain in domains}
    lines = []
    for row, of in rows.items():
        shown = {domain: f"{of[domain]['bits_per_byte']:.3f}" for domain in domains}
        lines.append([row, *(f"**{s}**" if s == f"{least[d]:.3f}" else s for d, s in shown.items())])
    return table(["bits per byte", *domains], lines)


def words(results: dict[str, Any]) -> list[str]:
    """Return the mean bits of a known and of a new word on each domain."""
    domains, lines = results["domains"], []
    for row, of in results["rows"].items():
        found = [of[domain][part]["bits"] for domain in domains for part in PARTS]
        lines.append([row, *("" if value is None else f"{value:.2f}" for value in found)])
    shares = []
    for domain in domains:
        of = next(iter(results["rows"].values()))[domain]
        shares.append(f"{of['new']['count'] / (of['known']['count'] + of['new']['count']):.1%}")
    head = [
        f"{what}, {d}" + (f" ({share})" if part == "new" else "")
        for d, share in zip(domains, shares, strict=True)
        for part, what in PARTS.items()
    ]
    return table(["bits", *head], lines)


def costs(results: dict[str, Any]) -> list[str]:
    """Return parameters, updates, speed of scoring and memory of each row, on the first domain."""
    first, lines = results["domains"][0], []
    for row, of in results["rows"].items():
        model = next(results["models"][label] for label in results["models"] if row == label or row.startswith(f"{label}, "))
        tokens = of[first]["tokens"] / of[first]["events"]
        numbers = [f"{model['parameters'] / 1e6:.2f}M", f"{model['updates']:,}", f"{1e3 * model['seconds an update']:,.0f}"]
        numbers += [f"{tokens:.2f}", f"{of[first]['words_per_second']:,.0f}"]
        lines.append([row, *numbers, f"{model['peak_gib']:.1f}", f"{of[first]['peak_gib']:.1f}"])
    head = [
        "",
        "parameters",
        "updates",
        "ms an update",
        "tokens a word",
        "words scored a second",
        "GiB, training",
        "GiB, scoring",
    ]
    return table(head, lines)


def markdown(results: dict[str, Any]) -> str:
    """Return all tables in Markdown."""
    return "\n\n".join("\n".join(part(results)) for part in (bits, words, costs))
