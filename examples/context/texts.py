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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


def cleaned(items: Iterable[Item], args: argparse.Namespace) -> Iterator[Item]:
    """Yield the items with their tokens as text, as many as the options allow; those without any are left out."""
    for item in items:
        words = item.text.split() if args.plain else words_of(item.text)
        tokens = (characters_of(" ".join(words)) if args.characters else words)[: args.max_words]
        if tokens:
            yield Item(tuple(" ".join(value.split()) for value in item.values), " ".join(tokens))


def share_out(items: Sequence[Item], sizes: dict[str, int], rest: str, seed: int) -> dict[str, list[Item]]:
    """Return as many items as each split is to have, drawn with a seed; what is left is that of *rest*.

    Raises:
        DataError: there are too few.
    """
    if len(items) < (wanted := sum(sizes.values()) + bool(rest)):
        raise DataError(f"{len(items):,} items are too few: {', '.join(filter(None, [*sizes, rest]))} need {wanted:,}")
    shuffled, found = random.Random(seed).sample(items, len(items)), {}
    for split, size in sizes.items():
        found[split], shuffled = shuffled[:size], shuffled[size:]
    return {**found, rest: shuffled} if rest else found


def tenths(items: Sequence[Item]) -> dict[str, int]:
    """Return the sizes of valid and test where nothing else says them."""
    return dict.fromkeys(("valid", "test"), max(1, len(items) // 10))


def published_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the splits of a published set: those with a file of their own, the others drawn from the source."""
    read = SETS[args.name].read
    files = {split: path for split, path in (("valid", args.valid), ("test", args.test)) if path}
    items = [item for path in args.source for item in cleaned(read(path), args)]
    wanted = dict(zip(SPLITS, args.items, strict=True)) if args.items else tenths(items)
    sizes = {split: size for split, size in wanted.items() if split not in files}
    found = share_out(items, sizes, "" if args.items else "train", args.seed)
    for split, path in files.items():
        own = list(cleaned(read(path), args))
        found |= share_out(own, {split: wanted[split]} if args.items else {}, "" if args.items else split, args.seed)
    return found


def speech_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the paragraphs of speeches: one year in so many is test1, the others are drawn from.

    Raises:
        DataError: speeches of too few years.
    """
    files = sorted(path for folder in args.source for path in folder.glob("*.txt"))
    items = [item for path in files for item in cleaned(SETS["speeches"].read(path), args)]
    years = sorted({item.values[0] for item in items})
    held = set(years[args.held_out // 2 :: args.held_out])  # from the middle of the first ones on: between years that are known
    if not held or len(held) == len(years):
        raise DataError(f"{args.source[0]}: speeches of {len(years)} years are too few to hold out one in {args.held_out}")
    known = [item for item in items if item.values[0] not in held]
    return {**share_out(known, tenths(known), "train", args.seed), "test1": [item for item in items if item.values[0] in held]}


def domain_splits(args: argparse.Namespace) -> dict[str, list[Item]]:
    """Return the lines of several domains, mixed: of each so many tokens, a tenth of its lines in valid and in test.

    Raises:
        OptionError: no pair of a name and a path, or one domain alone.
    """
    domains = dict(pair.split("=", 1) for pair in args.source if "=" in pair)
    if len(domains) != len(args.source) or len(domains) < 2:
        raise OptionError(f"domains {' '.join(args.source)}: expected two or more NAME=PATH, each with a name of its own")
    mixed: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for name, path in domains.items():
        files = sorted(Path(path).glob("*.txt")) if Path(path).is_dir() else [Path(path)]
        lines = list(cleaned((Item((name,), line) for file in files for line in read_lines(file)), args))
        chosen = head(name, random.Random(args.seed).sample(lines, len(lines)), args.tokens)
        for split, items in share_out(chosen, tenths(chosen), "train", args.seed).items():
            mixed[split] += items
    return {split: random.Random(args.seed).sample(items, len(items)) for split, items in mixed.items()}


def head(name: str, items: list[Item], tokens: int) -> list[Item]:
    """Return the first items of a domain with so many tokens, an end of each counted.

    Raises:
        DataError: there are fewer.
    """
    kept, count = [], 0
    for item in items:
        kept.append(item)
        count += len(item.text.split()) + 1
        if count >= tokens:
            return kept
    raise DataError(f"domain {name} has {count:,} tokens: expected --tokens {tokens:,} of each: give fewer, or more text")


def write(folder: Path, columns: Sequence[str], splits: dict[str, list[Item]]) -> None:
    """Write every split's text and table: all of them, or none where it is interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as scratch:
        for split, items in splits.items():
            table = [columns, *(item.values for item in items)]
            for name, lines in ((f"{split}.txt", [item.text for item in items]), (f"{split}.tsv", map("\t".join, table))):
                Path(scratch, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        for path in Path(scratch).iterdir():
            path.replace(folder / path.name)


def report(columns: Sequence[str], splits: dict[str, list[Item]]) -> str:
    """Return a line a split: lines, tokens with an end of each line, types, and distinct values of each column."""
    lines = []
    for split, items in splits.items():
        types = Counter(token for item in items for token in item.text.split())
        values = [len({item.values[place] for item in items}) for place in range(len(columns))]
        counts = (len(items), types.total() + len(items), len(types), *values)
        lines.append([split, *(f"{count:,}" for count in counts)])
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
            form.add_argument("--tokens", type=positive, default=40_000, metavar="N", help="of each domain (40,000)")
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
        found = args.splits(args)
        splits = {split: found[split] for split in (*SPLITS, "test1") if split in found}
        write(args.folder, args.columns, splits)
    except GrocError as error:
        sys.exit(f"error: {error}")
    print(report(args.columns, splits))


if __name__ == "__main__":
    main()
