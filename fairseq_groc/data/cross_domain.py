"""The cross-domain set of GroC (Pappas et al. 2020, Section 5.1 and Appendix C.2): public sources, and the slices cut from them.

See docs/cross_domain.md for what the paper says and what it leaves open.
"""

import logging
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from fairseq_groc.data.archives import Published, read_archive
from fairseq_groc.data.text import cleaner, decoded
from fairseq_groc.errors import DataError, OptionError

SIZES = {"train": 2_000_000, "valid": 2_000_000, "test": 10_000_000}  # tokens, one </s> a line included
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Where one set comes from.

    Args:
        published: the file, and the text in it that all splits are cut from
        first: by split, the file of the archive that is read before that text
        shuffled: the lines of each split are shuffled after it is cut
    """

    published: Published
    first: dict[str, str] = field(default_factory=dict)
    shuffled: bool = False


_NEWS = "https://www.statmt.org/wmt14/training-monolingual-news-crawl/news.{}.en.shuffled.gz"
_WEB = Published("https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz", text="commoncrawl.de-en.en")
_WIKI = Published(
    "https://wikitext.smerity.com/wikitext-103-v1.zip",
    "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
    "wiki.train.tokens",
)
SOURCES = {f"news-{year}": Source(Published(_NEWS.format(year))) for year in range(2007, 2012)}
SOURCES["web"] = Source(_WEB, shuffled=True)
# WikiText-103's own valid and test texts are 0.2M tokens each: what lacks to the paper's sizes comes from its train text
SOURCES["wiki"] = Source(_WIKI, {"valid": "wiki.valid.tokens", "test": "wiki.test.tokens"})


def sizes_of(text: str | None) -> dict[str, int]:
    """Return the tokens of each split, as written for ``--tokens``; None: the paper's."""
    if text is None:
        return SIZES
    if not re.fullmatch("[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*", text):
        raise OptionError(f"--tokens {text}: expected those of train, valid and test, as in 2000000,2000000,10000000")
    return dict(zip(SIZES, map(int, text.split(",")), strict=True))


def cut(name: str, folder: Path, sizes: dict[str, int], seed: int = 1) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each split with its lines, tokenised and lower-cased, which must be read before the next split is asked for.

    Args:
        name: of the set
        folder: with the published file
        sizes: by split, how many tokens; a split has fewer only if the source ends, which is warned of
        seed: of the shuffling

    Raises:
        DataError: the source is missing or damaged, or has nothing for a split.
    """
    source, rng, clean = SOURCES[name], random.Random(seed), cleaner("en", lower=True)
    path = folder / source.published.file
    if not path.is_file():
        raise DataError(f"{path}: no such file. docs/cross_domain.md says where it is published.")

    def text_of(text: str) -> Iterator[str]:
        # the tokeniser takes < and > apart, here of <unk> too: no reserved symbol is left to be looked for
        return (clean(line.replace("<", "< ")) for line in decoded(read_archive(path, text), text or str(path)))

    text = text_of(source.published.text)
    for split, tokens in sizes.items():
        first = text_of(source.first[split]) if split in source.first else ()
        lines = first_tokens(chain(first, text), tokens, f"{name} {split}", path)
        yield split, _shuffled(lines, rng) if source.shuffled else lines


def first_tokens(lines: Iterator[str], tokens: int, name: str, path: Path) -> Iterator[str]:
    """Yield lines, whole ones, until they have so many tokens, one ``</s>`` a line included; take no line more."""
    left = tokens
    with tqdm(desc=name, total=tokens, unit=" tokens", unit_scale=True, leave=False, disable=None) as bar:
        while left > 0 and (line := next(lines, None)) is not None:
            count = len(line.split()) + 1
            left -= count
            bar.update(count)
            yield line
    if left == tokens:
        raise DataError(f"{path} ends before {name.split()[1]} begins: give smaller --tokens (train, valid, test)")
    if left > 0:
        logger.warning(f"warning: {name} should have {tokens:,} tokens, but {path} has no more than {tokens - left:,}")


def _shuffled(lines: Iterable[str], rng: random.Random) -> Iterator[str]:
    held = list(lines)
    rng.shuffle(held)
    yield from held
