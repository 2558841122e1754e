"""What the papers find out about their models: with those that run.py has trained.

    python examples/papers/analyses.py figure-3 --dataset ptb --scale cpu --workdir papers

A command of the package does the work. It writes WORKDIR/ANALYSIS-DATASET-SCALE.json, with a picture beside it.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from experiments import ANALYSES, SCALES

from fairseq_groc.cli.programs import MEMORY, in_process
from fairseq_groc.cli.results import machine, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("analysis", choices=ANALYSES)
    parser.add_argument("--dataset", default="ptb")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--workdir", type=Path, required=True, help="run.py's")
    args = parser.parse_args()
    analysis = ANALYSES[args.analysis]
    table = args.workdir / f"{analysis.table}-{args.dataset}-{args.scale}.json"
    rows = json.loads(table.read_text())["rows"] if table.exists() else {}
    if analysis.model not in rows:
        sys.exit(f"{table} has no {analysis.model}: run examples/papers/run.py {analysis.table} --dataset {args.dataset} first")
    os.environ.update(MEMORY)
    paths = {label: args.workdir / row["runs"][0]["checkpoint"] for label, row in rows.items()}
    path = paths.pop(analysis.model)
    out = args.workdir / f"{args.analysis}-{args.dataset}-{args.scale}.json"
    in_process(*analysis.command(path, paths, args.workdir / "data" / args.dataset), "--out", out)
    found = json.loads(out.read_text().replace(f"{args.workdir}{os.sep}", ""))  # the same wherever WORKDIR is
    about = {"analysis": args.analysis, "title": analysis.title, "dataset": args.dataset, "scale": args.scale}
    write_json(out, {**about, "model": analysis.model, "machine": machine(), "found": found})
    print(out)


if __name__ == "__main__":
    main()
