"""What is done to a command or to one file that it reads, and whether a reader could still take the file for a rightful one."""

import json
import math
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from hypothesis import strategies as st

NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")
SENSELESS = ("-1", "0", "-0.5", "1.5", "1e18", "1e400", "nan", "inf", "-inf", "null", "true", '"5"', "[]", "{}", "x", "", "1 1")
RESERVED = {"<s>", "<pad>", "</s>", "madeupword0001"}
FOREIGN = (b"\x80\x04", pickle.dumps({"a": [1]}), b"the cat sat\n", b"\n", b"{}", b"[]", b"null", b"[[" * 5000, b"\x00" * 300)
TOKENS = (b"\xef\xbb\xbf", b"\x00", b" ", b"\xc2\xa0", b"\xe2\x80\xa8", b"\r\n", b"\t", b"\n\n")
TOKENS += (b" </s> ", b" <pad> ", b" madeupword0001 ")
Spoil = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Case:
    """A recipe with one thing wrong.

    Args:
        recipe: its name
        target: the file that is spoilt, the option that is given, or the word that another stands for
        what: how, for the report
        after: the file's new content; None: it is missing
        more: words at the command's end
        place: a folder or a dangling link stands where the file was
        instead: the word in the target's place
        full: no file can grow beyond so many bytes, as where a disk is full
    """

    recipe: str
    target: str
    what: str
    after: bytes | None = None
    more: tuple[str, ...] = ()
    place: str = ""
    instead: str | None = None
    full: int | None = None
    file: bool = False

    def __str__(self) -> str:
        return f"{self.recipe}: {self.target} {self.what}"


def spoils(before: bytes) -> st.SearchStrategy:
    """Return a strategy for (what was done, content after it)."""
    kinds = [
        st.just(("is empty", b"")),
        st.sampled_from(FOREIGN).map(lambda other: (f"replaced by {other[:12]!r}", other)),
        st.sampled_from([b"x", b"\n", b"\x00", b"\xff" * 8]).map(lambda tail: (f"with {tail!r} at its end", before + tail)),
    ]
    if before:
        places = st.integers(0, 1 << 20).map(lambda number: number * 2654435761 % len(before))  # small ones are drawn most
        kinds.append(places.map(lambda size: (f"cut to {size} of {len(before)} bytes", before[:size])))
        kinds.append(st.tuples(places, st.integers(1, 255)).map(lambda flip: flipped(before, *flip)))
        kinds.append(st.tuples(places, st.sampled_from(TOKENS)).map(lambda put: inserted(before, *put)))
        kinds.append(st.tuples(places, st.sampled_from((0, -1, 2**31 - 1, -(2**31)))).map(lambda put: as_word(before, *put)))
    if numbers := list(NUMBER.finditer(before[:100_000])) if is_text(before) else []:
        put = st.tuples(st.sampled_from(numbers), st.sampled_from(SENSELESS))
        kinds += [put.map(lambda pair: renumbered(before, *pair))] * 2
    return st.one_of(kinds).filter(lambda spoilt: spoilt[1] != before)


def flipped(before: bytes, place: int, bits: int):
    after = bytearray(before)
    after[place] ^= bits
    return f"byte {place} of {len(before)}: {before[place]:#04x} -> {after[place]:#04x}", bytes(after)


def inserted(before: bytes, place: int, token: bytes):
    place = place if place % 3 else 0
    return f"{token!r} put in at {place}", before[:place] + token + before[place:]


def as_word(before: bytes, place: int, value: int):
    place -= place % 4
    after = before[:place] + value.to_bytes(4, "little", signed=True) + before[place + 4 :]
    return f"{value} at bytes {place} to {place + 4} of {len(before)}", after


def renumbered(before: bytes, match, value: str):
    where = before[: match.start()].count(b"\n") + 1
    return f"line {where}: {match[0].decode()} -> {value}", before[: match.start()] + value.encode() + before[match.end() :]


def is_text(raw: bytes) -> bool:
    try:
        return "\x00" not in raw.decode("utf-8")
    except UnicodeDecodeError:
        return False


def words_of(raw: bytes):
    return raw.decode("utf-8").split()


def plain_text(before: bytes, after: bytes) -> bool:
    return is_text(after) and bool(after) and not after.startswith(b"\xef\xbb\xbf") and not RESERVED & set(words_of(after))


def dictionary(before: bytes, after: bytes) -> bool:
    """Other counts alone: the words are those of the text and of the tables."""
    found = [[line.rsplit(b" ", 1) for line in raw.splitlines() if line] for raw in (before, after)]
    counted = all(len(pair) == 2 and pair[1].isdigit() for pair in found[1])
    return counted and [pair[0] for pair in found[0]] == [pair[0] for pair in found[1]]


def free_dictionary(before: bytes, after: bytes) -> bool:
    """A dictionary of the user's own."""
    return plain_text(before, after) and all(re.fullmatch(r"\S+ \d+", line) for line in after.decode().split("\n") if line)


def edges(before: bytes, after: bytes) -> bool:
    """Which words the training text has, as numbers that rise: others are not told from the right ones."""
    old, new = as_json(before), as_json(after)
    trained = new.get("trained", []) if isinstance(new, dict) else None
    numbers = isinstance(trained, list) and all(type(n) is int for n in trained) and trained == sorted(set(trained))
    return numbers and len(trained) % 2 == 0 and min(trained, default=0) >= 0 and new == {**old, "trained": trained}


def tuned(before: bytes, after: bytes) -> bool:
    """Other settings within their ranges, or those of another model."""
    new = as_json(after)
    if not isinstance(new, dict) or new.get("format") != as_json(before)["format"] or not isinstance(new.get("models"), dict):
        return False
    if new["models"].keys() != as_json(before)["models"].keys():
        return True
    settings = [model.get("settings") if isinstance(model, dict) else None for model in new["models"].values()]
    return all(isinstance(of, dict) and all(in_range(*pair) for pair in of.items()) for of in settings)


def in_range(name: str, value) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return 0 <= value < 1 if name.endswith("_weight") else True


def as_json(raw: bytes):
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def lexicon(before: bytes, after: bytes) -> bool:
    """Three fields; of the last, a definition, the letters and digits alone are read."""
    lines = [line.split("\t") for line in after.decode().split("\n") if line.strip()] if is_text(after) else []
    return all(len(fields) == 3 and plain_text(b"", " ".join(fields[:2]).encode()) for fields in lines) and bool(lines)


def tab_lines(before: bytes, after: bytes) -> bool:
    """A language, and lines of three or four fields; numbers that WordNet lacks are counted in a warning."""
    lines = [line for line in after.decode().split("\n") if line.strip()] if is_text(after) else []
    return bool(lines) and all(line.startswith("#") or len(line.split("\t")) in (3, 4) for line in lines)


def lexicon_lines(before: bytes, after: bytes) -> bool:
    entries = [as_json(line) for line in after.split(b"\n") if line.strip()]
    return is_text(after) and bool(entries) and all(map(lexicon_entry, entries))


def lexicon_entry(entry) -> bool:
    if not isinstance(entry, dict) or not entry.keys() <= {"word", "relations", "definition"}:
        return False
    words = [entry.get("word"), *entry.get("relations", [])]
    return all(isinstance(word, str) and "\x00" not in word for word in words) and not RESERVED.intersection(words)


def contexts(before: bytes, after: bytes) -> bool:
    """As many rows, of as many cells; what is in a cell may be anything, and a column may have another name."""
    if not is_text(after):
        return False
    ends = [raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n") for raw in (before, after)]
    old, new = ([line.count(b"\t") for line in raw.split(b"\n")] for raw in ends)
    return old == new


def fields(before: bytes, after: bytes) -> bool:
    """Lines of which one field is text: the others may be anything."""
    texts = [line.split("\t")[1:2] for line in after.decode().split("\n")] if is_text(after) else []
    return bool(texts) and not RESERVED & {word for text in texts for word in " ".join(text).split()}


def hypotheses(before: bytes, after: bytes) -> bool:
    """Columns in any order, and others; scores are finite numbers."""
    lines = [line.split("\t") for line in after.decode().split("\n") if line] if is_text(after) else [[]]
    if not {"id", "text"} <= set(lines[0]) or len(lines) < 2 or any(len(line) < len(lines[0]) for line in lines):
        return False
    return not RESERVED & {word for line in lines[1:] for word in line[lines[0].index("text")].split()}


def references(before: bytes, after: bytes) -> bool:
    return is_text(after) and all("\t" in line for line in after.decode().split("\n") if line)


def losses(before: bytes, after: bytes) -> bool:
    """The same lines; what they lost may be any finite number."""
    if not is_text(after):
        return False
    old, new = ([line.split("\t") for line in raw.decode().split("\n")] for raw in (before, after))
    same = [(line[0], line[-1], len(line)) for line in old] == [(line[0], line[-1], len(line)) for line in new]
    return same and old[0] == new[0] and all(map(finite, (cell for line in new[1:] for cell in line[1:-1])))


def finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def never(before: bytes, after: bytes) -> bool:
    return False


def always(before: bytes, after: bytes) -> bool:
    return True


# pattern: whether what a file holds now could be meant, though results differ; whether the file may be missing
KINDS: dict[str, tuple[Callable[[bytes, bytes], bool], bool]] = {
    "data/dict.txt": (dictionary, False),
    "data/binarised.json": (edges, True),
    "data/adapters.json": (tuned, True),
    "limit.txt": (plain_text, False),
    "forms.txt": (free_dictionary, False),
    "nbest.txt": (fields, False),
    "list.txt": (hypotheses, False),
    "said.txt": (references, False),
    "sources/*": (always, False),  # a checksum is at the end of it, and only the beginning is read
    "*.txt": (plain_text, False),
    "topics.tsv": (contexts, False),
    "*.tsv": (lexicon, False),
    "*.jsonl": (lexicon_lines, False),
    "*.tab": (tab_lines, False),
    "*.log": (always, False),
    "*.losses": (losses, False),
    "*": (never, False),
}


def could_be_meant(case: Case, before: bytes) -> bool:
    """Return whether other results than the whole file's are right."""
    plausible, optional = next(kind for pattern, kind in KINDS.items() if fnmatch(case.target, pattern))
    if case.place or case.after is None:
        return optional and not case.place
    if case.recipe.startswith("tables") and case.target == "data/dict.txt":
        plausible = free_dictionary
    return plausible(before, case.after)


def spoil(case: Case, folder: Path) -> None:
    """Put what is wrong in its place."""
    path = folder / case.target
    if case.file:
        path.unlink()
        if case.place == "folder":
            path.mkdir()
        elif case.place == "link":
            path.symlink_to(folder / "nowhere")
        elif case.after is not None:
            path.write_bytes(case.after)


def copied(world: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(world, folder))
