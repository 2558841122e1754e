"""What a model is to know of a variable: from its training lines, and from those of the model that is finetuned."""

from collections import Counter

import numpy as np

from fairseq_groc.contexts.variables import UNKNOWN, SplitContexts, Variable
from fairseq_groc.errors import DataError, OptionError, counted

REMEDY = "Leave it out, or name the data of the model that is finetuned (--vocabulary-from, --known)."


def learned(own: Variable | None, earlier: Variable | None, arrays: SplitContexts, threshold: int) -> Variable:
    """Return a variable with the values and statistics of training; the lines of an earlier training count, too.

    Args:
        own: as the folder has it; None: in no line
        earlier: as the earlier training left it; None: it had none
        threshold: lines that a value needs to be known

    Raises:
        OptionError: it says nothing: it has one value, or does not vary.
        DataError: it is of another kind than before.
    """
    variable = own or earlier
    assert variable is not None
    if own is not None and earlier is not None:
        check_kind(earlier, own, arrays.name)
    if variable.kind == "category":
        return _category(variable, own, earlier, arrays, threshold)
    return earlier or _number(variable, arrays)


def both(first: Variable, second: Variable, where: str) -> Variable:
    """Return what two trainings know of a variable, of which the second may have known what the first did.

    Raises:
        DataError: it is of another kind in each.
    """
    check_kind(first, second, where)
    counts = dict((first.counted | second.counted).most_common())
    return second._replace(values=tuple(counts), counts=tuple(counts.values()), unknown=max(first.unknown, second.unknown))


def check_kind(ours: Variable, theirs: Variable, where: str) -> None:
    """Hold a folder's variable against the model's.

    Raises:
        DataError: it is of another kind.
    """
    if (ours.kind, ours.period) != (theirs.kind, theirs.period):
        remedy = {"number": f"--context-numeric {ours.name}", "cycle": f"--context-cyclic {ours.name}:{ours.period:g}"}
        how = remedy.get(ours.kind, f"neither --context-numeric nor --context-cyclic for {ours.name}")
        raise DataError(
            f"{where}: context {ours.name} is {theirs.described} there and {ours.described} in the model. Preprocess with {how}."
        )


def _category(
    variable: Variable, own: Variable | None, earlier: Variable | None, arrays: SplitContexts, threshold: int
) -> Variable:
    where, before = f"{arrays.name}: context {variable.name}", 0 if earlier is None else earlier.unknown
    counts = Counter[str]() if earlier is None else earlier.counted
    lines = counts.total() + before
    if own is not None:
        column = arrays.column(own.name)
        lines += len(column)
        counts += own._replace(counts=tuple(np.bincount(column, minlength=len(own.values) + 1)[1:].tolist())).counted
    if counts[UNKNOWN]:
        raise OptionError(
            f"{where}: {counted(counts[UNKNOWN], 'line')} with {UNKNOWN}, by which models call any other value. "
            "Leave these cells empty."
        )
    kept = {value: count for value, count in counts.most_common() if count >= max(threshold, 1)}
    if (seen := len(counts)) < 2:
        raise OptionError(f"{where}: has {counted(seen, 'value')} in the training lines: expected two or more. {REMEDY}")
    if len(kept) < 2:
        enough = f"{counted(len(kept), 'value')} of {seen:,} in {counted(threshold, 'training line')} or more"
        raise OptionError(f"{where}: has {enough}: expected two. Give a smaller --context-threshold, or leave it out.")
    rest = lines - sum(kept.values())
    unknown = rest if before or rest >= min(kept.values()) else 0  # that of an earlier training has a vector already
    return variable._replace(values=tuple(kept), counts=tuple(kept.values()), unknown=unknown)


def _number(variable: Variable, arrays: SplitContexts) -> Variable:
    column, where = arrays.column(variable.name), f"{arrays.name}: context {variable.name}"
    known = column[~np.isnan(column)]
    if variable.kind == "cycle":
        known = known % variable.period
    if not len(known) or known.min() == known.max():
        same = f"is {known[0]:g} wherever it is given" if len(known) else "is missing in every line"
        raise OptionError(f"{where}: {same}: expected numbers that vary. {REMEDY}")
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not (np.isfinite(deviation) and deviation > 0):
        raise OptionError(
            f"{where}: its numbers reach from {known.min():g} to {known.max():g}, too far to compute with: scale them"
        )
    return variable if variable.kind == "cycle" else variable._replace(mean=mean, deviation=deviation)
