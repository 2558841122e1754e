"""How many characters and bytes the raw text has that was scored, words or pieces of words."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fairseq.data.data_utils import post_process

from fairseq_groc.dictionary import EOS, is_symbol
from fairseq_groc.errors import OptionError, shown
from fairseq_groc.pieces import BEGINS, GOES_ON, is_marked

SYMBOLS = {"sentencepiece": BEGINS, "@@ ": GOES_ON}  # marks of pieces of words, by what --remove-bpe calls them
OTHERS = re.compile(r"##.|\u0120|.+</w>$|\uffed.|.+\uffed$")  # of wordpieces, GPT-2's bytes, words' ends, OpenNMT's joiners
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
FEWEST = 0.01  # of a vocabulary's words that have marks, if it is one of pieces


class Size(NamedTuple):
    """Of a text, a line end after every line included."""

    characters: int
    bytes: int


class Pieces(NamedTuple):
    """What a vocabulary's pieces of words are marked by.

    Args:
        symbol: what --remove-bpe calls it; None: it has no name for it
        example: a piece
    """

    symbol: str | None
    example: str

    def refusal(self) -> str:
        """Say why bits per character cannot be given, and how they can."""
        remedy = f"--remove-bpe '{self.symbol}', or --raw FILE" if self.symbol else "--raw FILE"
        return f"the vocabulary has pieces of words, as {shown(self.example)}, whose marks are no text: give {remedy}"


def pieces_of(symbols: Sequence[str]) -> Pieces | None:
    """Return how pieces of words are marked among the words of a dictionary; None: these are whole words."""
    words = [word for word in symbols if not is_symbol(word)]
    kinds: dict[str | None, list[str]] = {symbol: [w for w in words if is_marked(w, SYMBOLS[symbol])] for symbol in SYMBOLS}
    kinds[None] = [word for word in words if OTHERS.match(word)]
    return next((Pieces(symbol, marked[0]) for symbol, marked in kinds.items() if len(marked) > FEWEST * len(words)), None)


def check_symbol(symbol: str, symbols: Sequence[str]) -> None:
    """Refuse to put pieces together that are marked in another way, or not at all.

    Raises:
        OptionError: with what would do.
    """
    found = pieces_of(symbols)
    if symbol not in SYMBOLS or (found is not None and found.symbol == symbol):
        return
    remedy = found.refusal() if found else "it has whole words: leave it out"
    raise OptionError(f"--remove-bpe '{symbol}': the vocabulary has no pieces marked so; {remedy}")


def raw_lines(lines: Iterable[Any], symbols: Sequence[str], symbol: str = "none") -> Iterator[str]:
    """Yield binarised lines as the text that they were made from; bytes as pieces stay as they are.

    Args:
        lines: the numbers of their words
        symbol: how pieces are put together, as fairseq's ``--remove-bpe`` has it
    """
    for line in lines:
        yield post_process(" ".join(symbols[token] for token in line.tolist() if token != EOS), symbol)


def check_raw(raw: Sequence[str], pieces: Iterable[str], name: str, unknown: str) -> None:
    """Refuse a raw text that is not the one that was cut into pieces: the letters of known words differ by more than a tenth.

    Args:
        raw, pieces: the lines as they were, and as they were binarised, put together where that is known
        unknown: what stands for an unknown word; lines with one, or with pieces of bytes, are not compared

    Raises:
        OptionError: with both numbers.
    """
    pairs = [pair for pair in zip(raw, pieces, strict=True) if unknown not in pair[1] and not BYTE.search(pair[1])]
    ours, theirs = (sum(len("".join(pair[side].split())) for pair in pairs) for side in (0, 1))
    if abs(ours - theirs) > 0.1 * theirs:
        raise OptionError(f"--raw {name}: {ours:,} characters besides blanks, and the pieces have {theirs:,}: another text")


def size_of(lines: Iterable[str]) -> Size:
    """Count the characters and bytes of lines of text."""
    characters = total = 0
    for line in lines:
        characters, total = characters + len(line) + 1, total + len(line.encode("utf-8", "surrogateescape")) + 1
    return Size(characters, total)
