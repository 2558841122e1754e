"""Train a queue of rows at the papers' size in the background, at the lowest priority: start (or go on), stop, status.

    python examples/papers/background.py start --workdir papers [--texts FOLDER] [--threads 1]
    python examples/papers/background.py status --workdir papers
    python examples/papers/background.py stop --workdir papers

`run` is `start` in the foreground; with --minutes 9 it stops cleanly by then, and the next one goes on.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from experiments import EXPERIMENTS
from filelock import FileLock, Timeout
from preparing import DATASETS
from scales import SCALES

from fairseq_groc.errors import DataError
from fairseq_groc.evaluation.results import write_json
from fairseq_groc.evaluation.training_log import read_curves
from fairseq_groc.programs import started

HERE = Path(__file__).resolve().parent
GRACE = 20  # seconds to save in; a row that is told to stop in validation stops at once
STATE, LOG, LOCK = "queue.state", "queue.log", "queue.lock"  # no .json: report.py takes those for results
_PROGRESS = re.compile(r"epoch (\d+): +\d+ / (\d+) .*ups=([\d.]+),.*num_updates=(\d+)")
_SAVED = re.compile(r"Saved checkpoint .* \(epoch (\d+) @ (\d+) updates")


class Line(NamedTuple):
    """A line of the queue.

    Args:
        words: arguments of run.py
        dataset: name of the text
        results: name of the file that has its rows when they are done
        rows: their labels; none where only run.py can tell whether all is done
    """

    words: list[str]
    dataset: str
    results: str
    rows: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["start", "run", "stop", "status"])
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--queue", type=Path, default=HERE / "queue.txt")
    parser.add_argument("--texts", type=Path, help="folder of folders ptb, wikitext-2 of train.txt and so on; else downloaded")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--nice", type=int, default=19, help="19: what else runs goes first")
    parser.add_argument("--minutes", type=float, help="stop cleanly after so many")
    parser.add_argument("--code-changed", action="store_true", help="go on with runs that other code has begun")
    args = parser.parse_args()
    {"start": start, "run": work, "stop": stop, "status": status}[args.action](args)


def lines_of(queue: Path) -> list[Line]:
    """Read a queue; refuse a row that there is none of."""
    parser = argparse.ArgumentParser(prog=str(queue), add_help=False)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--dataset", choices=DATASETS, default="ptb")
    parser.add_argument("--scale", choices=SCALES, default="paper")
    parser.add_argument("--rows", nargs="+", default=[])
    lines = []
    for text in queue.read_text(encoding="utf-8").splitlines():
        if words := shlex.split(text, comments=True):
            found, others = parser.parse_known_args(words)
            labels = [row.label for row in EXPERIMENTS[found.experiment].rows]
            if unknown := set(found.rows).difference(labels):
                sys.exit(f"{queue}: {text}: no {', '.join(sorted(unknown))}: expected some of {', '.join(labels)}")
            results = f"{found.experiment}-{found.dataset}-{found.scale}.json"
            rows = [] if {"--seeds", "--setting", "--settings"} & set(others) else found.rows
            words += [] if "--scale" in words else ["--scale", found.scale]
            lines.append(Line(words, found.dataset, results, rows))
    return lines


def is_done(line: Line, workdir: Path) -> bool:
    """Say whether a line's rows are trained and scored."""
    results = workdir / line.results
    return bool(line.rows) and results.exists() and set(line.rows).issubset(json.loads(results.read_text())["rows"])


def start(args) -> None:
    """Start or go on in a session of its own; return when it is under way."""
    refuse_second(args.workdir)
    args.workdir.mkdir(parents=True, exist_ok=True)
    words = ["run" if word == "start" else word for word in sys.argv[1:]]
    with open(args.workdir / LOG, "a") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    while process.poll() is None and state_of(args.workdir).get("pid") != process.pid:
        time.sleep(0.1)
    if process.poll():
        sys.exit(f"it ended at once: {args.workdir / LOG} says why")
    print(f"started: {args.workdir / LOG}")


def work(args) -> None:
    """Train and score line by line what is not done, until there is no more or it is told to stop."""
    lines = lines_of(args.queue)
    args.workdir.mkdir(parents=True, exist_ok=True)
    os.setpriority(os.PRIO_PROCESS, 0, args.nice)
    os.environ.update(OMP_NUM_THREADS=str(args.threads), MKL_NUM_THREADS=str(args.threads))
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 60 * (args.minutes or 0), 1)  # 0: never; again, for Python loses one inside a fork
    try:
        with FileLock(args.workdir / LOCK, timeout=1):
            for number, line in enumerate(lines):
                about = {"pid": os.getpid(), "line": shlex.join(line.words), "number": number + 1, "lines": len(lines)}
                write_json(args.workdir / STATE, about)
                if not is_done(line, args.workdir) and train(line, args):
                    note_end(args.workdir, "this line failed")
                    sys.exit(1)
            note_end(args.workdir, "all done")
    except Timeout:
        refuse_second(args.workdir)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        note_end(args.workdir, "stopped")


def note_end(workdir: Path, how: str) -> None:
    """Say how it ended, here and in the state."""
    write_json(workdir / STATE, {**state_of(workdir), "ended": how})
    print(how, flush=True)


def train(line: Line, args) -> int:
    """Run a line and return its exit code; what trains is in its process group, which saves and ends when this is interrupted."""
    command = [sys.executable, HERE / "run.py", *line.words, "--workdir", args.workdir]
    command += ["--from", args.texts / DATASETS[line.dataset]] if args.texts else []
    command += ["--code-changed"] if args.code_changed else []
    with started(command, start_new_session=True) as process:
        lower_session(process.pid, args.nice)
        try:
            return process.wait()
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            end_group(process)
            raise


def lower_session(pid: int, nice: int) -> None:
    """Give a process's session a priority: Linux shares a CPU out between sessions before it looks at processes."""
    with contextlib.suppress(OSError):  # not Linux, or without these groups
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def end_group(leader: subprocess.Popen) -> None:
    """Have all processes of a group end, by force those that do not within the grace."""
    try:
        os.killpg(leader.pid, signal.SIGTERM)
        limit = time.monotonic() + GRACE
        while time.monotonic() < limit:
            leader.poll()  # or it would stay in the group
            os.killpg(leader.pid, 0)
            time.sleep(0.1)
        os.killpg(leader.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stop(args) -> None:
    """Have it save and end, and wait for that."""
    if not is_running(args.workdir):
        sys.exit(f"nothing runs in {args.workdir}")
    for _ in range(2 * GRACE):  # Python loses a signal inside a fork
        with contextlib.suppress(ProcessLookupError):
            os.kill(state_of(args.workdir)["pid"], signal.SIGTERM)
        with contextlib.suppress(Timeout), FileLock(args.workdir / LOCK, timeout=1):
            return print("stopped")
    sys.exit(f"it does not end: {args.workdir / LOG}")


def status(args) -> None:
    """Print in one line what is under way or was, how far it is, and when it ends at the latest."""
    state = state_of(args.workdir)
    if not state:
        sys.exit(f"nothing was started in {args.workdir}")
    how = "running" if is_running(args.workdir) else state.get("ended", "killed")
    logs = sorted(args.workdir.glob("*/*/train.log"), key=lambda path: path.stat().st_mtime)
    where = progress(logs[-1]) if logs else "nothing trained yet"
    print(f"{state['line']} (line {state['number']} of {state['lines']}), {how}: {where}")


def progress(log: Path) -> str:
    """Return how far a training is, from its log."""
    text = log.read_text(errors="replace")
    steps = _PROGRESS.findall(text)[-5:]
    places = [(int(step[3]), step[0]) for step in steps] + [(int(updates), epoch) for epoch, updates in _SAVED.findall(text)]
    if not places:
        return "no update logged yet"
    updates, epoch = max(places)
    parts = [f"epoch {epoch.lstrip('0')}, update {updates:,}"]
    with contextlib.suppress(DataError):  # not validated yet
        parts.append(f"validation {' '.join(f'{ppl:.1f}' for _, ppl in read_curves(log)['valid'])}")
    if steps and (speed := sum(float(step[2]) for step in steps) / len(steps)):
        parts.append(f"{speed:.2g} updates a second")
        options = json.loads((log.parent / "made.json").read_text())["options"]
        if last := last_update(options, int(steps[-1][1])):
            end = time.localtime(time.time() + max(0, last - updates) / speed)
            parts.append(f"at the latest done by {time.strftime('%Y-%m-%d %H:%M', end)} ({last:,} updates)")
    return ", ".join(parts)


def last_update(options: str, epoch: int) -> int | None:
    """Return the update at which the schedule ends if nothing ends it before, of an epoch's length."""
    limits = dict(re.findall(r"--max-(update|epoch) (\d+)", options))
    ends = [int(limits[name]) * length for name, length in (("update", 1), ("epoch", epoch)) if name in limits]
    return min(ends, default=None)


def refuse_second(workdir: Path) -> None:
    if is_running(workdir):
        sys.exit(f"{workdir} has one running: status shows it, stop ends it")


def is_running(workdir: Path) -> bool:
    """Say whether one works in a folder: it holds a lock as long as it lives."""
    if not workdir.exists():
        return False
    try:
        with FileLock(workdir / LOCK, timeout=0):
            return False
    except Timeout:
        return True


def state_of(workdir: Path) -> dict[str, Any]:
    """Return what the last one wrote when it began a line."""
    path = workdir / STATE
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return state


if __name__ == "__main__":
    main()
