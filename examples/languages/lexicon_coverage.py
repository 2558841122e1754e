"""Measure what a lexicon has of a text's words, with and without their dictionary forms, and what bytes make of their letters.

    python examples/languages/lexicon_coverage.py german train.de omw:wn-wikt-deu.tab --tokenize de --out coverage.json

A file that is there keeps what it says of other names.
"""

import argparse
import json
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq_groc.data.text import cleaner
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.lexicon import Lexicon, open_lexicon
from fairseq_groc.lexicon.tables import MAX_DEFINITION, MAX_RELATIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the language in the table")
    parser.add_argument("text", type=Path)
    parser.add_argument("lexicon", help="as --lexicon-path has it")
    parser.add_argument("--tokenize", metavar="LANG", help="the text is raw: tokenise and lower-case it")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = args.text.read_text(encoding="utf-8").splitlines()
    counts = Counter(word for line in map(clean(args.tokenize), lines) for word in line.split())
    lexicons = {"": open_lexicon(args.lexicon)}
    if getattr(lexicons[""], "language", ""):
        lexicons["dictionary forms"] = open_lexicon(f"lemmas:{args.lexicon}")
    found = {name: covered(counts, lexicon) for name, lexicon in lexicons.items()}
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    results[args.name] = {"lexicon": lexicons[""].name, "coverage": found, "spellings": spellings(counts)}
    write_json(args.out, results)
    print(json.dumps(results[args.name], indent=1))


def clean(language: str | None) -> Callable[[str], str]:
    """Return what makes a line of tokens from a line: nothing but itself where no language is given."""
    return cleaner(language, lower=True) if language else str


def covered(counts: Counter[str], lexicon: Lexicon) -> dict[str, float]:
    """Return the shares of the types and tokens that a lexicon has relations and definitions of."""
    entries = {word: lexicon.lookup(word, MAX_RELATIONS, MAX_DEFINITION) for word in counts}
    return {
        **shares(counts, "with relations", lambda word: bool(entries[word].relations)),
        **shares(counts, "with a definition", lambda word: bool(entries[word].definition)),
    }


def spellings(counts: Counter[str]) -> dict[str, Any]:
    """Return what bytes and characters, with accents composed (NFC), make of words."""
    longest = max(counts, key=lambda word: len(word.encode()))
    return {
        "types": len(counts),
        "tokens": counts.total(),
        **shares(counts, "with a letter of several bytes", lambda word: not word.isascii()),
        **shares(counts, "that NFC changes", lambda word: unicodedata.normalize("NFC", word) != word),
        "mean bytes of a type": sum(len(word.encode()) for word in counts) / len(counts),
        "mean characters of a type": sum(map(len, counts)) / len(counts),
        "longest in bytes and characters": [len(longest.encode()), len(longest)],
    }


def shares(counts: Counter[str], what: str, holds: Callable[[str], bool]) -> dict[str, float]:
    """Return the share of types and of tokens for which something holds."""
    those = list(filter(holds, counts))
    return {f"types {what}": len(those) / len(counts), f"tokens {what}": sum(map(counts.__getitem__, those)) / counts.total()}


if __name__ == "__main__":
    main()
