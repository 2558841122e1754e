"""A process that serves, as serving.py starts it: it loads a model, then does what each line of its input says.

It imports nothing of the package by itself, so that its start is that of a program that serves.
"""

import json
import os
import sys
import time


def scorer_of(kind: str, place: str):
    """Return what scores lines: of a ``service`` folder, a checkpoint and its data, or an ARPA file."""
    if kind == "service.py":
        sys.path.insert(0, place)
        import service

        return service.Service(place).score
    if kind == "kenlm":
        import kenlm

        model = kenlm.Model(place)
        return lambda lines: [model.score(line) for line in lines]
    import fairseq_groc

    return fairseq_groc.load(*place.split(os.pathsep)).score


def memory() -> dict:
    """Return how much memory this process has, in MiB, and how much of it no other process has mapped, too."""
    with open("/proc/self/smaps_rollup") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in file.readlines()[1:]}
    return {"all": sizes["Rss"], "private": sizes["Private_Clean"] + sizes["Private_Dirty"]}


def serve(kind: str, place: str) -> None:
    score, out = scorer_of(kind, place), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        told = json.loads(line)
        if told == "memory":
            found = memory()
        else:
            begin = time.perf_counter()
            score(told)
            found = time.perf_counter() - begin
        print(json.dumps(found), file=out)


if __name__ == "__main__":
    serve(*sys.argv[1:])
