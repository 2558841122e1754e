"""Draw the vectors that a model has learned for the values of a variable, and list which are near each other."""

from argparse import ArgumentParser, Namespace

import numpy as np
import torch

from fairseq_groc.arguments import add_model, add_out, positive
from fairseq_groc.contexts.table import read_table
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError, shown
from fairseq_groc.evaluation.context_pictures import draw_map, nearest
from fairseq_groc.evaluation.in_context import variable_of
from fairseq_groc.evaluation.loading import load_as
from fairseq_groc.evaluation.results import write_json


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser, context=False)
    parser.add_argument("--variable", required=True, metavar="NAME", help="which category of the contexts to show")
    parser.add_argument("--group-by", metavar="FILE:COLUMN", help="draw an ellipse for each group: a table of values and groups")
    parser.add_argument("--count", type=positive, default=3, help="neighbours to show")
    add_out(parser)


def run(args: Namespace) -> None:
    if args.group_by and not args.out:
        raise OptionError("--group-by: groups are drawn in the picture beside --out FILE. Give it.")
    hub = load_as(args)
    place, variable = variable_of(hub.task.schema, args.variable)
    with torch.no_grad():
        vectors = hub.models[0].decoder.contexts.embedding.tables[place]()[1:].double().cpu().numpy()
    names = list(variable.values)
    groups = groups_of(args.group_by, variable.name, names) if args.group_by else None
    found = nearest(vectors, names, args.count)
    for name, near in found.items():
        print(f"{escaped(name)}: " + ", ".join(f"{escaped(other)} {distance:.2f}" for other, distance in near))
    if args.out:
        rows = {name: row.tolist() for name, row in zip(names, vectors, strict=True)}
        grouped = {} if groups is None else {"groups": {name: one for name, one in zip(names, groups, strict=True) if one}}
        write_json(args.out, {"path": args.path, "variable": variable.name, "vectors": rows, "nearest": found, **grouped})
        draw_map(np.asarray(vectors), names, args.out.with_suffix(".png"), groups)


def groups_of(given: str, variable: str, names: list[str]) -> list[str]:
    """Return the group of each value, as a column of a table says beside the column of the variable; nothing: none.

    Raises:
        OptionError: the table lacks one of these columns, says two groups of a value, or has none of the values.
    """
    path, _, column = given.rpartition(":")
    if not path:
        raise OptionError(f"--group-by {given}: expected FILE:COLUMN")
    table = read_table(path)
    for name in (variable, column):
        if name not in table.names:
            raise OptionError(f"--group-by {given}: {path} has no column {name}. It has {', '.join(table.names)}.")
    values, groups = table.column(variable), table.column(column)
    group: dict[str, str] = {}
    for value, other in ((values.values[i], groups.values[j]) for i, j in zip(values.codes, groups.codes, strict=True)):
        if other and group.setdefault(value, other) != other:
            raise OptionError(f"--group-by {given}: {shown(value)} is in {shown(group[value])} and in {shown(other)}")
    if not group.keys() & set(names):
        raise OptionError(f"--group-by {given}: none of the model's values of {variable}, such as {shown(names[0])}, has a group")
    return [group.get(name, "") for name in names]
