"""Tables of contexts: what is read from them, and how each mistake in them is named."""

import math

import pytest

from fairseq_groc.contexts.table import number_of, read_table
from fairseq_groc.errors import DataError


@pytest.fixture
def read(tmp_path):
    """Return a function that writes bytes to a file and reads it as a table."""

    def build(raw):
        (tmp_path / "t.tsv").write_bytes(raw)
        return read_table(str(tmp_path / "t.tsv"))

    return build


def cells(table):
    return {column.name: [column.values[code] for code in column.codes] for column in table.columns}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_may_end_in_any_way(read, end, mark, last):
    rows = [b"topic\tyear", b"sports\t1990", "caf\N{LATIN SMALL LETTER E WITH ACUTE}\N{LINE SEPARATOR}x\t".encode(), b"\t 7 "]
    table = read(mark + end.join(rows) + (end if last else b""))
    assert table.rows == 3 and table.names == ("topic", "year")
    assert cells(table) == {"topic": ["sports", "caf\xe9\u2028x", ""], "year": ["1990", "", "7"]}
    assert table.numbers("year").tolist()[::2] == [1990.0, 7.0] and math.isnan(table.numbers("year")[1])


def test_quotes_are_letters_and_an_empty_line_of_one_column_is_a_missing_value(read):
    assert cells(read(b'topic\n"a b"\n\n"\n')) == {"topic": ['"a b"', "", '"']}


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "x", "1,5", "1_000", "0x10", "", "1 2"])
def test_what_is_no_finite_number(text):
    assert number_of(text) is None


def test_numbers_are_read_as_python_does():
    assert [number_of(text) for text in ("-0.5", "1e3", "+7", "007")] == [-0.5, 1000.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "raw, message",
    [
        (b"", r"t\.tsv is empty: expected names of columns"),
        (b"1990\nx\n", r"t\.tsv:1: has the number '1990': expected names of columns in the first row"),
        (b"topic\t1.5\nx\t2\n", r"t\.tsv:1: has the number '1\.5'"),
        (b"topic\t\nx\t2\n", r"t\.tsv:1: '' cannot be the name of a column"),
        (b"a=b\nx\n", r"t\.tsv:1: 'a=b' cannot be the name of a column: expected letters, digits and _ \. -"),
        (b"a,b\nx\n", r"t\.tsv:1: 'a,b' cannot be"),
        (b"a:b\nx\n", r"t\.tsv:1: 'a:b' cannot be"),
        (b"-a\nx\n", r"t\.tsv:1: '-a' cannot be"),
        (b"a b\nx\n", r"t\.tsv:1: 'a b' cannot be"),
        (b"a\tb\ta\nx\ty\tz\n", r"t\.tsv:1: two columns have the name 'a': rename one"),
        (b"a\tb\nx\ty\nx\n", r"t\.tsv:3: has 1 cell, and the first row names 2 columns"),
        (b"a\tb\nx\ty\tz\n", r"t\.tsv:2: has 3 cells, and the first row names 2 columns"),
        (b"a\nx\ny\x00\n", r"t\.tsv:3: has a NUL character"),
        ("a\nx\n".encode("utf-16"), r"t\.tsv:1: not UTF-8"),  # as spreadsheets write it
        (b"a\r\nx\r\ny\xff\r\n", r"t\.tsv:3: not UTF-8\. Convert the file: iconv -f ENCODING -t UTF-8"),
    ],
)
def test_mistakes_are_named(read, raw, message):
    with pytest.raises(DataError, match=message):
        read(raw)


@pytest.mark.parametrize("cell", [b"x", b"nan", b"inf", b"1_0"])
def test_a_cell_that_is_no_number_is_named(read, cell):
    table = read(b"topic\tyear\na\t1\nb\t\nc\t" + cell + b"\nd\t" + cell + b"\n")
    with pytest.raises(DataError, match=rf"t\.tsv:4: column year: '{cell.decode()}': expected a finite number, or nothing"):
        table.numbers("year")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="none.tsv: no such file"):
        read_table(str(tmp_path / "none.tsv"))
    with pytest.raises(DataError, match="a folder, expected a file"):
        read_table(str(tmp_path))
