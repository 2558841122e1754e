"""Tables of what examples/languages has found.

    python examples/languages/language_tables.py RESULTS...

prints that of the files of run.py, one for each seed.
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

PARTS = ("all", "known", "new")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    print(table(*(json.loads(path.read_text()) for path in parser.parse_args().results)))


def table(*seeds: dict[str, Any]) -> str:
    """Return mean test perplexities of all, known and new words, without and with the local cache, a line for each text.

    Args:
        seeds: results of each; the first has all rows
    """
    columns = ["text", "", "n", *PARTS, *(f"{part}, local cache" for part in PARTS)]
    texts = next(iter(seeds[0]["rows"].values()))["none"]
    rows = []
    for text in texts:
        for name in seeds[0]["rows"]:
            found = [results["rows"][name] for results in seeds if name in results["rows"]]
            numbers = [perplexity([of[cache][text][part] for of in found]) for cache in ("none", "local") for part in PARTS]
            rows.append([text, f"{name} + uniform" if name == "tied" else name, str(len(found)), *numbers])
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


def perplexity(seeds: list[dict[str, Any]]) -> str:
    """Return the mean perplexity as it is shown; nothing where the text has no such words."""
    found = [part["perplexity"] for part in seeds]
    return "" if None in found else f"{mean(map(float, found)):,.1f}"


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))


if __name__ == "__main__":
    main()
