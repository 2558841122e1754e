"""What the papers find out about their models, most of it with those that run.py has trained.

    python examples/papers/analyses.py figure-3 --dataset ptb --scale cpu --workdir papers

A command of the package does the work. It writes WORKDIR/ANALYSIS-DATASET-SCALE.json, with a picture beside it.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Dict

from experiments import ANALYSES, SCALES, Given
from run import DATASETS, held, prepare

from fairseq_groc.cli.programs import BIN, MEMORY, in_process
from fairseq_groc.cli.results import machine, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("analysis", choices=ANALYSES)
    parser.add_argument("--dataset", choices=DATASETS, default="ptb")
    parser.add_argument("--scale", choices=SCALES, default="cpu")
    parser.add_argument("--workdir", type=Path, required=True, help="run.py's")
    parser.add_argument("--in-bf16", action="store_true", help="table-10: GroC in bfloat16, too, for CPUs that have it")
    parser.add_argument("--from", dest="source", type=Path, help="as run.py's, for a text that is not in WORKDIR")
    args = parser.parse_args()
    analysis = ANALYSES[args.analysis]
    os.environ.update({**MEMORY, "PATH": f"{BIN}:{os.environ['PATH']}"})
    others = checkpoints(args, analysis) if analysis.table else {}
    path = others.pop(analysis.model, None)
    scale = SCALES[args.scale]
    given = Given(args.dataset, prepare(args, share=scale.share), scale, args.in_bf16, path, others)
    out = args.workdir / f"{args.analysis}-{args.dataset}-{args.scale}.json"
    with held(out):
        in_process(*analysis.command(given), "--out", out)
        found = json.loads(out.read_text().replace(f"{args.workdir}{os.sep}", ""))  # the same wherever WORKDIR is
        about = {"analysis": args.analysis, "title": analysis.title, "dataset": args.dataset, "scale": args.scale}
        write_json(out, {**about, "model": analysis.model, "in_bf16": args.in_bf16, "machine": machine(), "found": found})
    print(out)


def checkpoints(args, analysis) -> Dict[str, Path]:
    """Return the models of the table that is analysed."""
    table = args.workdir / f"{analysis.table}-{args.dataset}-{args.scale}.json"
    rows = json.loads(table.read_text())["rows"] if table.exists() else {}
    if analysis.model not in rows:
        run = f"examples/papers/run.py {analysis.table} --dataset {args.dataset} --scale {args.scale} --workdir {args.workdir}"
        sys.exit(f"{table} has no {analysis.model}: run {run} first")
    return {label: args.workdir / row["runs"][0]["checkpoint"] for label, row in rows.items()}


if __name__ == "__main__":
    main()
