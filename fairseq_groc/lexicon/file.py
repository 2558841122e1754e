"""A lexicon from a plain file: tab-separated values or JSON lines."""

import codecs
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fairseq_groc.dictionary import is_symbol
from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.base import Entry, Relation, gloss_words


class FileLexicon:
    """Read a specialist dictionary.

    A ``.jsonl`` file holds one object a line, ``{"word": "...", "relations": ["...", ...], "definition": "..."}``;
    any other file holds one line a word, ``word TAB relations separated by blanks TAB definition``. Relations and
    definition may be empty. Look-up is by the exact word, then lower-cased, then whatever the case.

    Raises:
        LexiconError: no line, or one that cannot be read, with the file and the line number.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self.name = self.path.name
        parse = _parse_json if self.path.suffix == ".jsonl" else _parse_tsv
        raw = self.path.read_bytes()
        self._digest = hashlib.sha256(raw).hexdigest()[:16]
        self._entries: dict[str, tuple[list[str], str, int]] = {}
        for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
            if line.strip():
                self._add(line.rstrip(b"\r"), number, parse)
        if not self._entries:
            raise LexiconError(f"{self.path}: no entries, expected lines of {_expected(self.path)}. 'none' is the empty lexicon.")
        capitals = (word for word in reversed(self._entries) if word.lower() not in self._entries)
        self._lowered = {word.lower(): self._entries[word] for word in capitals}  # the first of several

    def _add(self, line: bytes, number: int, parse: Callable[[str], Any]) -> None:
        try:
            word, relations, definition = parse(line.decode("utf-8"))
            _check(word, relations, definition)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise LexiconError(
                f"{self.path}:{number}: cannot read this line ({error}); expected {_expected(self.path)}. "
                "Mend the line or remove it."
            ) from None
        if word in self._entries:
            raise LexiconError(
                f"{self.path}:{number}: {word!r} is already on line {self._entries[word][2]}. Merge the two lines."
            )
        self._entries[word] = (relations, definition, number)

    def fingerprint(self) -> str:
        return f"{'file-lowered' if self._lowered else 'file'}-{self._digest}"

    def _find(self, word: str) -> tuple[list[str], str, int] | None:
        return self._entries.get(word) or self._entries.get(word.lower()) or self._lowered.get(word.lower())

    def unused(self, words: Iterable[str]) -> dict[str, int]:
        """Return the entries that none of *words* gets, with their line numbers."""
        used = {found[2] for found in map(self._find, words) if found}
        return {word: number for word, (_, _, number) in self._entries.items() if number not in used}

    def __len__(self) -> int:
        return len(self._entries)

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        found = self._find(word)
        if found is None:
            return Entry()
        relations, definition, number = found
        source = f"{self.path.name}:{number}"
        kept = [r for r in dict.fromkeys(relations) if r != word][:max_relations]
        return Entry(tuple(Relation(r, source) for r in kept), tuple(gloss_words(definition)[:max_definition]), source)


def _check(word: str, relations: list[str], definition: str) -> None:
    """Refuse what would point to an entry of fairseq's, or be no word that a text can have."""
    if "\x00" in "".join([word, *relations, definition]):
        raise ValueError("a NUL character")
    if special := next((w for w in (word, *relations) if is_symbol(w)), None):
        raise ValueError(f"{special} is a symbol of fairseq's, not a word")
    if blank := next((r for r in relations if r.split() != [r]), None):
        raise ValueError(f"relation {blank!r} is more than one word")


def _expected(path: Path) -> str:
    if path.suffix == ".jsonl":
        return '{"word": "...", "relations": ["..."], "definition": "..."}'
    return "word TAB relations separated by blanks TAB definition, in UTF-8"


def _parse_tsv(line: str) -> tuple[str, list[str], str]:
    fields = line.split("\t")
    if len(fields) != 3 or not fields[0].strip():
        raise ValueError(f"{len(fields)} tab-separated fields, the first {fields[0]!r}")
    return fields[0].strip(), fields[1].split(), fields[2]


def _parse_json(line: str) -> tuple[str, list[str], str]:
    record = json.loads(line)
    if unknown := set(record) - {"word", "relations", "definition"}:
        raise ValueError(f"unknown {', '.join(map(repr, sorted(unknown)))}")
    word, relations, definition = record["word"], record.get("relations", []), record.get("definition", "")
    if not isinstance(word, str) or not word or not isinstance(definition, str):
        raise ValueError("word and definition must be strings, word not empty")
    if not isinstance(relations, list) or not all(isinstance(r, str) and r for r in relations):
        raise ValueError("relations must be a list of words")
    "".join([word, definition, *relations]).encode("utf-8")  # half a surrogate pair is no text
    return word, relations, definition
