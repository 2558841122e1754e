"""Raw text: lines, checked as they are read; tokenised and lower-cased if asked."""

import codecs
import functools
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from fairseq_groc.dictionary import is_symbol
from fairseq_groc.errors import DataError
from fairseq_groc.files import has_mark, why_no_file

logger = logging.getLogger(__name__)
_UNSEPARATED = re.compile(r"[^\W\d_][.!?,;:]['\"”’»)]*\s*$")


def read_lines(path: Path, progress: bool = False) -> Iterator[str]:
    """Yield the lines of a text.

    Args:
        path: of the file
        progress: show a bar on terminals

    Raises:
        DataError: missing, empty, not UTF-8, or with a NUL character; says where.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: {why_no_file(path)}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: nothing to train or score on")
    with open(path, "rb") as file:
        yield from decoded(_shown(file, path) if progress else file, str(path))


def _shown(file: Iterable[bytes], path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with tqdm(desc=path.name, total=size, unit="B", unit_scale=True, leave=False, disable=None) as bar:
        for line in file:
            bar.update(len(line))
            yield line


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of an open file as they come, as ``read_lines`` does."""
    returns = False
    for number, raw in enumerate(file, start=1):
        if b"\x00" in raw:
            raise DataError(f"{name}:{number}: has a NUL character, which no text has. Is the file whole, and is it UTF-8?")
        while has_mark(raw, name if number == 1 else f"{name}:{number}"):  # files that were put together may have more than one
            raw = raw[len(codecs.BOM_UTF8) :]
        try:
            line = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"{name}:{number}: not UTF-8. Convert the file: iconv -f ENCODING -t UTF-8") from None
        if "\r" in line and not returns:
            returns = True
            logger.warning(f"{name}:{number}: carriage returns within a line are blanks. If they end lines: tr '\\r' '\\n'")
        yield line


def checked(lines: Iterable[str], name: str) -> Iterator[str]:
    """Yield the lines of a text as they come, if ``check_text`` lets them pass."""
    for number, line in enumerate(lines, start=1):
        check_text(line, f"{name}:{number}")
        yield line


def check_text(text: str, where: str) -> None:
    """Refuse fairseq's own symbols as words.

    Raises:
        DataError: which symbol, and where it is.
    """
    if "<" not in text and "madeupword" not in text:
        return
    for word in text.split():
        if is_symbol(word) and word != "<unk>":
            raise DataError(f"{where}: contains {word}, which fairseq reserves. Remove or respell it.")


class Unseparated:
    """Count the lines of a text that end in a word and a mark in one, which shows that it was never tokenised."""

    SHARE = 0.2  # of lines; tokenised, about one in a hundred ends in an abbreviation

    def __init__(self) -> None:
        self._lines = self._ends = 0

    def saw(self, line: str) -> str:
        """Count a line, and return it."""
        self._lines += 1
        self._ends += _UNSEPARATED.search(line) is not None
        return line

    def warn(self, name: str) -> None:
        """Say so, if the text looks like that."""
        if self._ends > self.SHARE * self._lines:
            share = f"{self._ends / self._lines:.0%} of the lines"
            logger.warning(f"{name}: {share} end in a word with a mark, as in 'end.'. If words have none, give --tokenize LANG.")


def cleaner(language: str | None, lower: bool) -> Callable[[str], str]:
    """Return a function that tokenises a line for a language, if one is given, and lower-cases it."""
    tokenize = _tokenizer(language) if language else lambda line: line

    def clean(line: str) -> str:
        line = tokenize(line)
        # one kind of blank: others end a line where a text that is written is read again
        return " ".join((line.lower() if lower else line).split())

    return clean


def cleaning(language: str | None, lower: bool) -> list[str]:
    """Return what ``cleaner`` is told, as options."""
    return [*([f"--tokenize {_code(language)}"] if language else []), *(["--lower"] if lower else [])]


def warn_of_cleaning(name: str | Path, folder: str | Path, language: str | None, lower: bool) -> None:
    """Say so, if the texts of a data folder were cleaned as this one is not: its words would be others."""
    from fairseq_groc.data.fingerprint import noted_cleaning  # here: the rest needs no fairseq

    given = cleaning(language, lower)
    missing = [option for option in noted_cleaning(Path(folder)) if option not in given]
    if missing:
        how = " ".join(missing)
        logger.warning(
            f"{name}: {folder} was made with {how}, this text is read without. Give {how}, unless it is clean already."
        )


@functools.cache  # a language without abbreviations is warned of once
def _tokenizer(language: str) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    if _code(language) not in NonbreakingPrefixes().available_langs:
        logger.warning(f"--tokenize {language}: sacremoses has no abbreviations of this language. Its codes are en, de, fr, ...")
    tokenizer = MosesTokenizer(lang=_code(language))

    def tokenize(line: str) -> str:
        parts = re.split("<unk>", line, flags=re.IGNORECASE)  # one word, which it would take apart
        return " <unk> ".join(tokenizer.tokenize(part, return_str=True, escape=False) for part in parts)

    return tokenize


def _code(language: str) -> str:
    """Return the code of a language that is given by its code, with a country or without, or by its name."""
    from sacremoses.corpus import NonbreakingPrefixes

    code: str = NonbreakingPrefixes().available_langs.get(language.lower().partition("-")[0], language)
    return code


def escaped(text: str) -> str:
    """Return a text with codes in the place of what a terminal obeys or cannot show: controls, directions, stray bytes."""

    def code(letter: str) -> str:
        number = ord(letter)
        stray = 0xDC80 <= number <= 0xDCFF  # a byte that is not UTF-8, as Python reads it
        return f"<{number - 0xDC00:02x}>" if stray else f"<U+{number:04X}>"

    return "".join(letter if letter.isprintable() else code(letter) for letter in text)
