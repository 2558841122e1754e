"""Run a benchmark and keep what it printed, for the table of benchmarks/README.md.

    python benchmarks/record.py "NAME ARGUMENTS"

NAME is that of a program in this folder; DIR among its arguments stands for a folder that is thrown away.
benchmarks/results/printed/NAME.json gets the command, the minutes of one core and the output; `make tables` then renews the page.
"""

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from fairseq_groc.evaluation.results import write_json

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "printed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", metavar="NAME ARGUMENTS", help="a program and its arguments; DIR: a folder that is thrown away")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    args = parser.parse_args()
    name, *arguments = shlex.split(args.run)
    if not (program := FOLDER / f"{name}.py").exists():
        parser.error(f"{name}: expected one of {', '.join(sorted(path.stem for path in FOLDER.glob('*.py')))}")
    with tempfile.TemporaryDirectory() as folder:
        given = [folder if argument == "DIR" else argument for argument in arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, program, *given]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    typed = shlex.join(["python", f"benchmarks/{name}.py", *arguments])
    printed = [line.replace(folder, "DIR").rstrip() for line in done.stdout.splitlines()]
    found = {"command": typed, "core_minutes": (used.ru_utime + used.ru_stime) / 60, "printed": printed}
    args.results.mkdir(parents=True, exist_ok=True)
    write_json(args.results / f"{name}.json", found)
    print(done.stdout, end="")


if __name__ == "__main__":
    main()
