"""Draw the vectors that a model has learned for the values of a variable, and list which are near each other."""

from argparse import ArgumentParser, Namespace

import numpy as np
import torch

from fairseq_groc.arguments import add_model, add_out, positive
from fairseq_groc.contexts.table import read_table
from fairseq_groc.data.text import escaped
from fairseq_groc.errors import OptionError
from fairseq_groc.evaluation.context_pictures import draw_map, nearest
from fairseq_groc.evaluation.in_context import variable_of
from fairseq_groc.evaluation.loading import load
from fairseq_groc.evaluation.results import check_out, write_json


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--variable", required=True, metavar="NAME", help="a category")
    parser.add_argument("--group-by", metavar="FILE:COLUMN", help="draw an ellipse for each group: a table of values and groups")
    parser.add_argument("--count", type=positive, default=3, help="neighbours to show")
    add_out(parser)


def run(args: Namespace) -> None:
    check_out(args.out)
    hub = load(args.path, args.data, any_lexicon=args.any_lexicon)
    place, variable = variable_of(hub.task.schema, args.variable)
    with torch.no_grad():
        vectors = hub.models[0].decoder.contexts.embedding.tables[place]()[1:].double().cpu().numpy()
    names = list(variable.values)
    found = nearest(vectors, names, args.count)
    for name, near in found.items():
        print(f"{escaped(name)}: " + ", ".join(f"{escaped(other)} {distance:.2f}" for other, distance in near))
    if args.out:
        groups = groups_of(args.group_by, variable.name, names) if args.group_by else None
        rows = {name: row.tolist() for name, row in zip(names, vectors, strict=True)}
        write_json(args.out, {"path": args.path, "variable": variable.name, "vectors": rows, "nearest": found})
        draw_map(np.asarray(vectors), names, args.out.with_suffix(".png"), groups)


def groups_of(given: str, variable: str, names: list[str]) -> list[str]:
    """Return the group of each value, as a column of a table says beside the column of the variable.

    Raises:
        OptionError: the table lacks one of these columns.
    """
    path, _, column = given.rpartition(":")
    if not path:
        raise OptionError(f"--group-by {given}: expected FILE:COLUMN")
    table = read_table(path)
    for name in (variable, column):
        if name not in table.names:
            raise OptionError(f"--group-by {given}: {path} has no column {name}. It has {', '.join(table.names)}.")
    values, groups = table.column(variable), table.column(column)
    group = {values.values[value]: groups.values[other] for value, other in zip(values.codes, groups.codes, strict=True)}
    return [group.get(name, "others") for name in names]
