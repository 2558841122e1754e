"""The data sets of FactorCell (Jaech and Ostendorf 2018, section 3), and speeches, as they are published: values and a text."""

import csv
import html
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import regex

from fairseq_groc.data.text import read_lines
from fairseq_groc.errors import DataError, shown


class Item(NamedTuple):
    """A text and what is known of it: a value a column, "" where it is missing."""

    values: tuple[str, ...]
    text: str


class Published(NamedTuple):
    """A form in which texts are published.

    Args:
        columns: the variables
        read: the items of a file
        max_words: an item is cut there (section 3: 60 words of AG News and DBPedia, 150 to 200 tokens of the others)
        characters: tokens are characters, and the text is taken as it is
    """

    columns: tuple[str, ...]
    read: Callable[[Path], Iterator[Item]]
    max_words: int
    characters: bool = False


AG_NEWS = ("world", "sports", "business", "sci/tech")
DBPEDIA = (
    "Company EducationalInstitution Artist Athlete OfficeHolder MeanOfTransportation Building NaturalPlace Village Animal Plant "
    "Album Film WrittenWork"
).split()
REMARK = regex.compile(r"\[[^\[\]]*\]|\((?:applause|laughter)\W*\)", regex.IGNORECASE)  # of who wrote a speech down
STARS = ("1", "2", "3", "4", "5")


def rows_of(path: Path, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a table, each with the place where it ends; quotes mean something to commas alone."""
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    rows = csv.reader((f"{line}\n" for line in read_lines(path)), delimiter=delimiter, quoting=quoting)
    try:
        for row in rows:
            yield f"{path}:{rows.line_num}", row
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: {error}: expected a quote at both ends of a field") from None


def classes(path: Path, names: Iterable[str], fields: int) -> Iterator[Item]:
    """Yield the items of Zhang et al. (2015): ``"class","title","text"``, or no title, classes from 1.

    Raises:
        DataError: a row of other fields or another class; says where.
    """
    numbered = {str(number): name for number, name in enumerate(names, start=1)}
    for where, row in rows_of(path):
        if len(row) != fields or row[0] not in numbered:
            raise DataError(f"{where}: expected {fields} fields, the first one of 1 to {len(numbered)}; found {shown(str(row))}")
        yield Item((numbered[row[0]],), " ".join(row[1:]))


def ag_news(path: Path) -> Iterator[Item]:
    for item in classes(path, AG_NEWS, fields=3):
        # a blank took the place of some ampersands
        text = regex.sub(r" ?(?<![&\w])(#\d+|quot|amp|lt|gt|nbsp);", r"&\1;", item.text)
        yield item._replace(text=html.unescape(text))


def dbpedia(path: Path) -> Iterator[Item]:
    """Read the published CSV, or lines of ``class<TAB>text``."""
    if path.suffix == ".csv":
        yield from classes(path, DBPEDIA, fields=3)
        return
    for where, row in rows_of(path, "\t"):
        if len(row) != 2:
            raise DataError(f"{where}: expected class<TAB>text, found {len(row)} fields")
        yield Item((row[0],), row[1])


def yelp(path: Path) -> Iterator[Item]:
    for item in classes(path, STARS, fields=2):
        yield item._replace(text=item.text.replace(r"\n", " "))  # so are line breaks written there


def trip_advisor(path: Path) -> Iterator[Item]:
    """Read reviews as JSON, one a line, with ``offering_id`` (the hotel), ``ratings`` with ``overall``, ``title`` and ``text``.

    Raises:
        DataError: a line that is no such thing; says where.
    """
    for number, line in enumerate(read_lines(path), start=1):
        try:
            review = json.loads(line)
            stars, text = review["ratings"].get("overall"), f"{review.get('title', '')} {review['text']}"
            yield Item((str(review["offering_id"]), "" if stars is None else f"{float(stars):g}"), text)
        except (ValueError, KeyError, TypeError, AttributeError):
            expected = '{"offering_id": ..., "ratings": {"overall": ...}, "text": ...}'
            raise DataError(f"{path}:{number}: expected {expected}, found {shown(line)}") from None


def with_header(path: Path, columns: tuple[str, ...]) -> Iterator[Item]:
    """Yield the rows of a CSV file whose header has these columns and ``text``, in any order.

    Raises:
        DataError: a column is missing, or a field of a row.
    """
    rows = rows_of(path)
    where, header = next(rows)
    wanted = (*columns, "text")
    if missing := [name for name in wanted if name not in header]:
        raise DataError(f"{where}: the header has no {missing[0]!r}: expected {','.join(wanted)}")
    for where, row in rows:
        if len(row) != len(header):
            raise DataError(f"{where}: {len(row)} fields, and the header has {len(header)}")
        fields = dict(zip(header, row, strict=True))
        yield Item(tuple(fields[name] for name in columns), fields["text"])


def euro_twitter(path: Path) -> Iterator[Item]:
    return with_header(path, ("language",))


def geo_twitter(path: Path) -> Iterator[Item]:
    return with_header(path, ("lat", "lon"))


def speech(path: Path) -> Iterator[Item]:
    """Yield the paragraphs of a file whose name begins with ``YEAR-PRESIDENT``, as those of NLTK's state_union do.

    Titles, dates and headings, which end in no mark, are left out: they say the year.

    Raises:
        DataError: another name.
    """
    named = regex.match(r"(\d{4})-([^\W\d_]+)", path.stem)
    if not named:
        raise DataError(f"{path}: expected a name like 1961-Kennedy.txt, which says the year and the president")
    for line in read_lines(path):
        line = regex.sub("¡.", " ", line.replace("¡¦", "'"))  # marks of Big5, read as another encoding
        line = REMARK.sub(" ", line).strip()
        if regex.search(r"""[.?!:;,"')-]$""", line) and len(line.split()) >= 5:
            yield Item((named[1], named[2]), line)


SETS = {
    "agnews": Published(("topic",), ag_news, 60),
    "dbpedia": Published(("category",), dbpedia, 60),
    "yelp": Published(("stars",), yelp, 200),
    "tripadvisor": Published(("hotel", "stars"), trip_advisor, 200),
    "eurotwitter": Published(("language",), euro_twitter, 200, characters=True),
    "geotwitter": Published(("lat", "lon"), geo_twitter, 200, characters=True),
    "speeches": Published(("year", "president"), speech, 200),
}
