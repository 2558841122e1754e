"""Tables of what examples/languages has found.

    python examples/languages/language_tables.py RESULTS

prints that of a file of run.py.
"""

import argparse
import json
from pathlib import Path
from typing import Any

PARTS = ("all", "known", "new")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    print(table(json.loads(parser.parse_args().results.read_text())))


def table(results: dict[str, Any]) -> str:
    """Return the test perplexities of all, known and new words, without and with the local cache, a line for each text."""
    columns = ["text", "", *PARTS, *(f"{part}, local cache" for part in PARTS)]
    texts = next(iter(results["rows"].values()))["none"]
    rows = []
    for text in texts:
        for name, found in results["rows"].items():
            numbers = [perplexity(found[cache][text][part]) for cache in ("none", "local") for part in PARTS]
            rows.append([text, f"{name} + uniform" if name == "tied" else name, *numbers])
    return markdown(columns, rows)


def coverage(results: dict[str, Any]) -> str:
    """Return what lexicons have of each text's types and tokens, without and with dictionary forms."""
    columns = ["", "lexicon", "types", "with relations", "by dictionary forms", "tokens with relations", "by dictionary forms"]
    rows = []
    for name, of in results.items():
        cells = [name, of["lexicon"], f"{of['spellings']['types']:,}"]
        for which in ("types", "tokens"):
            key = f"{which} with relations"
            cells += [f"{of['coverage'][how][key]:.1%}" if how in of["coverage"] else "" for how in ("", "dictionary forms")]
        rows.append(cells)
    return markdown(columns, rows)


def units(results: dict[str, Any]) -> str:
    """Return what bytes and characters make of each text's words."""
    several, nfc = "with a letter of several bytes", "that NFC changes"
    columns = ["", f"types {several}", f"tokens {several}", f"types {nfc}", "mean bytes", "mean characters", "longest word"]
    rows = []
    for name, of in results.items():
        found = of["spellings"]
        shares = [f"{found[key]:.1%}" for key in (f"types {several}", f"tokens {several}", f"types {nfc}")]
        means = [f"{found[f'mean {unit} of a type']:.2f}" for unit in ("bytes", "characters")]
        rows.append([name, *shares, *means, "{} bytes, {} characters".format(*found["longest in bytes and characters"])])
    return markdown(columns, rows)


def perplexity(part: dict[str, Any]) -> str:
    """Return a perplexity as it is shown; nothing where the text has no such words."""
    return "" if part["perplexity"] is None else f"{float(part['perplexity']):,.1f}"


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))


if __name__ == "__main__":
    main()
