"""What the tests of contexts share: tables as files, and the contexts of splits that are made of them."""

import pytest

from fairseq_groc.contexts.splits import contexts_of
from fairseq_groc.contexts.table import read_table


@pytest.fixture
def table(tmp_path):
    """Return a function from a name and rows, cells parted by blanks and ``-`` for a missing one, to a table that was read."""

    def build(name, *rows):
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join("\t".join("" if cell == "-" else cell for cell in row.split()) + "\n" for row in rows))
        return read_table(str(path))

    return build


@pytest.fixture
def split(table):
    """Return a function from rows to the contexts of a text of its own."""

    def build(*rows, numeric=(), cyclic=None, name="train"):
        return contexts_of({name: table(name, *rows)}, numeric, cyclic)[name]

    return build
