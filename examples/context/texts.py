"""Make the texts of context-aware language models, each with a table of what is known of its lines, from published files.

    python examples/context/texts.py agnews FOLDER train.csv --test test.csv
    python examples/context/texts.py dbpedia FOLDER train.csv --test test.csv          (or lines of class<TAB>text)
    python examples/context/texts.py yelp FOLDER train.csv --test test.csv
    python examples/context/texts.py tripadvisor FOLDER review.json
    python examples/context/texts.py eurotwitter FOLDER tweets.csv                     (header: language,text)
    python examples/context/texts.py geotwitter FOLDER tweets.csv                      (header: lat,lon,text)
    python examples/context/texts.py speeches FOLDER SPEECHES                          (a folder of YEAR-PRESIDENT.txt)
    python examples/context/texts.py domains FOLDER NAME=PATH NAME=PATH ...            (texts, or folders of them)

FOLDER gets SPLIT.txt, an item a line, and SPLIT.tsv, a row of values an item below a header, for train, valid and test; of
speeches also for test1, the years of which train has nothing. Words are lower-cased and without punctuation, as in section 4.1 of
Jaech and Ostendorf (2018); tweets stay as they are, in characters. AG News, DBPedia and Yelp are the files of Zhang et al.
(2015), class numbers first. TripAdvisor is the file of JSON lines with offering_id, ratings and text. EuroTwitter and GeoTwitter
have no published file of texts: theirs are tables of one's own.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import regex
from published import SETS, Item

from fairseq_groc.data.text import read_lines
from fairseq_groc.errors import DataError, GrocError, OptionError
from fairseq_groc.evaluation.results import aligned

SPLITS = ("train", "valid", "test")
# letters and digits, with an apostrophe between letters and a point or comma before a digit: grauman's, 7.5
WORD = regex.compile(r"[^\W_]+(?:['’][^\W_]+|[.,]\d+)*")
TAG = regex.compile(r"</?[a-zA-Z][^<>]*>")
SPACE, UNDERSCORE = "_", "‗"  # as characters: a blank, and what a text has as an underscore


def words_of(text: str) -> list[str]:
    """Return the words of a text: lower-cased, without punctuation and tags."""
    return WORD.findall(TAG.sub(" ", text).lower().replace("’", "'"))


def characters_of(text: str) -> list[str]:
    """Return the characters of a text as tokens, a blank as "_"."""
    return [SPACE if letter == " " else letter for letter in text.replace(SPACE, UNDERSCORE)]


def tokens_of(text: str, plain: bool, characters: bool, limit: int) -> list[str]:
    """Return the tokens of a text.

    Args:
        plain: the text stays as it is, but for its blanks
        characters: tokens are characters, not words
        limit: the most tokens
    """
    words = text.split() if plain else words_of(text)
    return (characters_of(" ".join(words)) if characters else words)[:limit]


def share_out(items: Sequence[Item], sizes: dict[str, int], rest: str, seed: int) -> dict[str, list[Item]]:
    """Return as many items as each split is to have, drawn with a seed; what is left is that of *rest*.

    Raises:
        DataError: there are too few.
    """
    shuffled = random.Random(seed).sample(items, len(items))
    found = {}
    for split, size in sizes.items():
        if size > len(shuffled):
            raise DataError(f"{len(items):,} items are too few for {sum(sizes.values()):,}: give --items smaller numbers")
        found[split], shuffled = shuffled[:size], shuffled[size:]
    return {**found, rest: shuffled} if rest else found


def published_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the splits of a published set: those with a file of their own, the others drawn from the source."""
    read = SETS[args.name].read
    files = {split: getattr(args, split) for split in ("valid", "test") if getattr(args, split)}
    items = [item for path in args.source for item in read(path)]
    wanted = dict(zip(SPLITS, args.items, strict=True)) if args.items else {}
    drawn = {split: size for split, size in wanted.items() if split not in files}
    tenth = {split: len(items) // 10 for split in ("valid", "test") if split not in files}
    found = share_out(items, drawn or tenth, "" if drawn else "train", args.seed)
    for split, path in files.items():
        own = list(read(path))
        found |= share_out(own, {split: wanted.get(split, len(own))}, "", args.seed)
    return found


def speech_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the paragraphs of speeches: one year in so many is test1, the others are drawn from.

    Raises:
        DataError: no speeches, or of too few years.
    """
    files = sorted(path for folder in args.source for path in folder.glob("*.txt"))
    items = [item for path in files for item in SETS["speeches"].read(path)]
    years = sorted({item.values[0] for item in items})
    held = set(years[args.held_out // 2 :: args.held_out])  # the first and the last stay: what is held out is between others
    if not held:
        raise DataError(f"{args.source[0]}: {len(years)} years of speeches: expected more than {args.held_out // 2}")
    known = [item for item in items if item.values[0] not in held]
    tenths = {"valid": len(known) // 10, "test": len(known) // 10}
    return {**share_out(known, tenths, "train", args.seed), "test1": [item for item in items if item.values[0] in held]}


def domain_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the lines of several domains, mixed: of each so many tokens, a tenth of its lines in valid and in test.

    Raises:
        OptionError: no pair of a name and a path, or one domain alone.
        DataError: a domain has fewer tokens.
    """
    domains = dict(pair.split("=", 1) for pair in args.source if "=" in pair)
    if len(domains) != len(args.source) or len(domains) < 2:
        raise OptionError(f"domains {' '.join(args.source)}: expected two or more NAME=PATH, each with a name of its own")
    mixed: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for name, path in domains.items():
        files = sorted(Path(path).glob("*.txt")) if Path(path).is_dir() else [Path(path)]
        lines = [Item((name,), line) for file in files for line in read_lines(file)]
        chosen = head(random.Random(args.seed).sample(lines, len(lines)), args)
        tenths = {"valid": len(chosen) // 10, "test": len(chosen) // 10}
        for split, items in share_out(chosen, tenths, "train", args.seed).items():
            mixed[split] += items
    return {split: random.Random(args.seed).sample(items, len(items)) for split, items in mixed.items()}


def head(items: list[Item], args: argparse.Namespace) -> list[Item]:
    """Return the first items with so many words, an end of each counted.

    Raises:
        DataError: they have fewer.
    """
    kept, count = [], 0
    for item in items:
        words = len(words_of(item.text)[: args.max_words])
        if words:
            kept.append(item)
            count += words + 1
        if count >= args.tokens:
            return kept
    raise DataError(f"{items[0].values[0]} has {count:,} words, and --tokens wants {args.tokens:,}")


def write(folder: Path, columns: Sequence[str], splits: dict[str, list[tuple[tuple[str, ...], list[str]]]]) -> None:
    """Write every split's text and table: all of them, or none where it is interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as scratch:
        for split, rows in splits.items():
            text = "".join(f"{' '.join(tokens)}\n" for _, tokens in rows)
            table = "".join("\t".join(row) + "\n" for row in [columns, *(values for values, _ in rows)])
            Path(scratch, f"{split}.txt").write_text(text, encoding="utf-8")
            Path(scratch, f"{split}.tsv").write_text(table, encoding="utf-8")
        for path in Path(scratch).iterdir():
            path.replace(folder / path.name)


def tokenized(items: Iterable[Item], args: argparse.Namespace) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return values and tokens of each item that has any; a value has no blanks but one between its words."""
    rows = ((item.values, tokens_of(item.text, args.plain, args.characters, args.max_words)) for item in items)
    return [(tuple(" ".join(value.split()) for value in values), tokens) for values, tokens in rows if tokens]


def report(columns: Sequence[str], splits: dict[str, list[tuple[tuple[str, ...], list[str]]]]) -> str:
    """Return a line a split: lines, tokens with an end of each line, types, and distinct values of each column."""
    lines = []
    for split, rows in splits.items():
        tokens = sum(len(found) + 1 for _, found in rows)
        types = len({token for _, found in rows for token in found})
        values = [len({row[place] for row, _ in rows}) for place in range(len(columns))]
        lines.append([split, *(f"{number:,}" for number in (len(rows), tokens, types, *values))])
    return aligned(["split", "lines", "tokens", "types", *columns], lines)


def numbers(text: str) -> list[int]:
    """Return the items of train, valid and test."""
    found = [int(part) for part in text.split(",")]
    if len(found) != len(SPLITS) or min(found) < 1:
        raise ValueError
    return found


def positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_subparsers(dest="name", required=True)
    for name in (*SETS, "domains"):
        form = forms.add_parser(name)
        published = SETS.get(name)
        form.add_argument("folder", type=Path, help="to write")
        form.add_argument("source", type=Path if published else str, nargs="+", help="as it is published")
        form.add_argument("--seed", type=int, default=1, help="of what is drawn")
        limit = published.max_words if published else 60
        form.add_argument("--max-words", type=positive, default=limit, metavar="N", help=f"an item is cut there ({limit})")
        plain = bool(published and published.characters)
        form.add_argument("--characters", action="store_true", default=plain, help="as tokens; a blank is _")
        form.set_defaults(plain=plain, columns=published.columns if published else ("domain",), splits=published_splits)
        if name == "domains":
            form.add_argument("--tokens", type=positive, default=40_000, metavar="N", help="of each domain, in words (40,000)")
            form.set_defaults(splits=domain_splits)
        elif name == "speeches":
            form.add_argument("--held-out", type=positive, default=5, metavar="N", help="one year in so many is test1 (5)")
            form.set_defaults(splits=speech_splits)
        else:
            form.add_argument("--valid", type=Path, help="file of its own")
            form.add_argument("--test", type=Path, help="file of its own")
            help = "of train, valid and test, drawn with the seed (valid and test: all of their files, or a tenth of the source)"
            form.add_argument("--items", type=numbers, metavar="N,N,N", help=help)
    return parser.parse_args()


def main() -> None:
    args = parse()
    try:
        drawn = args.splits(args)
        splits = {split: tokenized(drawn[split], args) for split in (*SPLITS, "test1") if split in drawn}
        write(args.folder, args.columns, splits)
    except GrocError as error:
        sys.exit(f"error: {error}")
    print(report(args.columns, splits))


if __name__ == "__main__":
    main()
