"""The cross-domain set of GroC (Pappas et al. 2020, Section 5.1 and Appendix C.2): public sources, and the slices cut from them.

See docs/cross_domain.md for what the paper says and what it leaves open.
"""

import gzip
import random
import tarfile
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Callable, Dict, Iterable, Iterator, Optional, Tuple

from tqdm import tqdm

from fairseq_groc.errors import DataError

SIZES = {"train": 2_000_000, "valid": 2_000_000, "test": 10_000_000}  # tokens, one </s> a line included
BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Source:
    """Where one set comes from.

    Args:
        file: name of the published file
        text: the file of this archive that all splits are cut from; empty: the file is that text, compressed
        first: by split, the file of the archive that is read before ``text``
        shuffled: the lines of each split are shuffled after it is cut
    """

    file: str
    text: str = ""
    first: Dict[str, str] = field(default_factory=dict)
    shuffled: bool = False


SOURCES = {f"news-{year}": Source(f"news.{year}.en.shuffled.gz") for year in range(2007, 2012)}
SOURCES["web"] = Source("training-parallel-commoncrawl.tgz", "commoncrawl.de-en.en", shuffled=True)
# WikiText-103's own valid and test texts are 0.2M tokens each: what lacks to the paper's sizes comes from its train text
WIKI_FIRST = {"valid": "wiki.valid.tokens", "test": "wiki.test.tokens"}
SOURCES["wiki"] = Source("wikitext-103-v1.zip", "wiki.train.tokens", WIKI_FIRST)


def read_source(path: Path, text: str) -> Iterator[bytes]:
    """Yield the lines of a compressed text, or of the file called ``text`` in an archive, without unpacking anything to disk.

    Raises:
        DataError: damaged, or the archive has no such file.
    """
    try:
        with ExitStack() as stack:
            yield from _open(path, text, stack)
    except BROKEN as error:
        raise DataError(f"{path}: damaged, or no {path.suffix} file ({error}). Download it again.") from None


def _open(path: Path, text: str, stack: ExitStack) -> Iterable[bytes]:
    found: Iterator[Optional[IO[bytes]]]
    if path.suffix == ".gz":
        return stack.enter_context(gzip.open(path, "rb"))
    if path.suffix == ".zip":
        zipped = stack.enter_context(zipfile.ZipFile(path))
        found = (zipped.open(name) for name in zipped.namelist() if PurePosixPath(name).name == text)
    else:
        tar = stack.enter_context(tarfile.open(path, "r|gz"))  # a stream: what comes after the text is never read
        found = (tar.extractfile(entry) for entry in tar if PurePosixPath(entry.name).name == text)
    file = next(found, None)
    if file is None:
        raise DataError(f"{path} has no {text}: expected the archive as it is published")
    return file


def first_tokens(lines: Iterator[str], tokens: int) -> Iterator[str]:
    """Yield lines, whole ones, until they have so many tokens, one ``</s>`` a line included; take no line more."""
    while tokens > 0:
        line = next(lines, None)
        if line is None:
            return
        tokens -= count_tokens(line)
        yield line


def count_tokens(line: str) -> int:
    """Return the number of words and one ``</s>``."""
    return len(line.split()) + 1


def cut(
    source: Source, text_of: Callable[[str], Iterator[str]], sizes: Dict[str, int], seed: int
) -> Iterator[Tuple[str, Iterable[str]]]:
    """Yield each split with its lines, which must be read before the next split is asked for.

    Args:
        source: of the set
        text_of: from the name of a text of the source, its lines as they are counted
        sizes: by split, how many tokens; a split has fewer only if the source ends
        seed: of the shuffling, which holds one split in memory; the rest is a stream
    """
    text, rng = text_of(source.text), random.Random(seed)
    for split, tokens in sizes.items():
        first = text_of(source.first[split]) if split in source.first else ()
        lines = _shown(first_tokens(chain(first, text), tokens), split, tokens)
        yield split, _shuffled(lines, rng) if source.shuffled else lines


def _shuffled(lines: Iterable[str], rng: random.Random) -> Iterator[str]:
    held = list(lines)
    rng.shuffle(held)
    yield from held


def _shown(lines: Iterable[str], split: str, tokens: int) -> Iterator[str]:
    """Yield lines, with a bar on terminals."""
    with tqdm(desc=split, total=tokens, unit=" tokens", unit_scale=True, leave=False, disable=None) as bar:
        for line in lines:
            bar.update(count_tokens(line))
            yield line
