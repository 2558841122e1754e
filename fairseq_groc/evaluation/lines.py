"""Lines of a file that are scored one by one: what of each is text, and what it says of its context."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fairseq_groc.contexts.schema import Contexts, Schema
from fairseq_groc.contexts.typed import assignments
from fairseq_groc.data.text import check_text, decoded, read_lines
from fairseq_groc.errors import DataError, OptionError


class Line(NamedTuple):
    """A line of a file.

    Args:
        whole: as it came
        where: it is, for messages
        text: what of it is scored
        context: what it says of its context, by variables
    """

    whole: str
    where: str
    text: str
    context: dict[str, str]


def lines_of(
    path: str, field: int | None, context_fields: Mapping[str, int], clean: Callable[[str], str] = str
) -> Iterator[Line]:
    """Yield the lines of a file, those of the standard input (``-``) as they come.

    Args:
        field: the tab-separated field that is text, from 1; None: the whole line is
        context_fields: the field that each variable of the context is in, from 1
        clean: makes tokens of the text

    Raises:
        DataError: there are no lines, or one lacks a field or has a symbol of fairseq's as a word; says which.
    """
    number, lines = 0, read_lines(Path(path)) if path != "-" else decoded(sys.stdin.buffer, "-")
    for number, line in enumerate(lines, start=1):
        where, cells = f"{path}:{number}", line.split("\t")
        text = clean(line if field is None else _cell(cells, field, f"--field {field}", where))
        check_text(text, where)
        context = {name: _cell(cells, at, f"--context-fields {name}={at}", where) for name, at in context_fields.items()}
        yield Line(line, where, text, context)
    if not number:
        raise DataError("- is empty: nothing to score")


def context_reader(schema: Schema | None, fields: Mapping[str, int], context: str | None) -> Callable[[Line], Contexts] | None:
    """Return what reads a line's context, and raises DataError for a number that is none; None: lines say nothing of it.

    Args:
        schema: of the model; None: it reads no contexts
        fields: as in ``lines_of``
        context: the other variables of all lines, as ``--context`` has them

    Raises:
        OptionError: the model reads no contexts or lacks a variable, or fields and *context* both say one.
    """
    if not fields:
        return None
    if schema is None:
        raise OptionError("--context-fields: this model reads no contexts (--context-dim 0). Leave it out.")
    others = assignments(context) if context else {}
    if twice := [name for name in others if name in fields]:
        raise OptionError(f"--context and --context-fields both say {twice[0]}. Leave one of them out.")
    parse = schema.parser()
    parse({**others, **dict.fromkeys(fields)})  # names are refused before any line is read

    def read(line: Line) -> Contexts:
        try:
            return parse({**others, **line.context})
        except OptionError as error:
            raise DataError(f"{line.where}: {error}") from None

    return read


def _cell(cells: list[str], field: int, option: str, where: str) -> str:
    if len(cells) < field:
        raise DataError(f"{where}: {len(cells)} tab-separated fields, {option} asked for")
    return cells[field - 1]
