"""What scripts need that run fairseq's commands with the plugin."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

FOLDER = Path(__file__).resolve().parent  # what --user-dir takes
ROOT = FOLDER.parent  # of the repository, in a checkout
BIN = Path(sys.executable).parent  # where this Python's programs are
PLUGIN = ["--user-dir", str(FOLDER), "--task", "wordnet_lexicon"]
# glibc returns large blocks to the system at once, and training asks for them again at every step: keep them instead
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 28)}
GRACE = 10  # seconds that a program has to end in

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1  # prctl(2)


def run(*command: Any, log: Path | None = None) -> float:
    """Run and show a command; its last lines are shown if it fails. Return its peak memory in GiB.

    Args:
        log: file to which its output is appended
    """
    words = [str(part) for part in command]
    print("+", *shortened(words), file=sys.stderr, flush=True)
    with open(log, "a+") if log else tempfile.TemporaryFile("w+") as output:
        code, peak = _ended(words, output)
        output.seek(0)
        if code:
            sys.exit(f"{output.read()[-3000:]}\nfailed: {' '.join(words)}")
    return peak


def measured(program: str, *arguments: Any, log: Path) -> tuple[int, float]:
    """Run one of this Python's programs with its output in *log*; return its exit code and its peak memory in GiB."""
    words = [str(BIN / program), *(str(part) for part in arguments)]
    with open(log, "w") as output:
        return _ended(words, output, env={**os.environ, **MEMORY})


@contextmanager
def started(words: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a program, its errors in its output; it does not outlive this process, or it would write beside the next one.

    Linux alone ends it where this process is killed; elsewhere it is ended by what this process can catch, as Ctrl-C.
    """
    words = [str(word) for word in words]
    process = subprocess.Popen(words, stderr=subprocess.STDOUT, preexec_fn=_end_with_parent, **options)
    try:
        yield process
    except BaseException:
        process.terminate()  # torchrun ends its workers then, and not if it is killed
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()
        raise


def _end_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other commands, that may run beside this one, from writing the same; say so where they are waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=1)
    except Timeout:
        print(f"waiting for another command that makes {path}", flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def check_settings(workdir: Path, settings: dict[str, str]) -> None:
    """Make a folder for what is skipped once it is done, and note the settings that it is made with.

    Raises:
        SystemExit: it was made with others.
    """
    path = workdir / "settings.json"
    if path.exists() and json.loads(path.read_text()) != settings:
        sys.exit(f"error: {workdir} was made with other settings ({path}): give another --workdir")
    workdir.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings, indent=1) + "\n")


def _ended(words: list[str], output: IO[str], **options: Any) -> tuple[int, float]:
    """Run a program; return its exit code and its peak memory in GiB."""
    with started(words, stdout=output, **options) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
    return process.returncode, usage.ru_maxrss / 2**20


def shortened(words: Sequence[str]) -> list[str]:
    return [word if len(word) < 80 else "..." for word in words]
