"""A folder of binarised text is built beside what is there, and takes its place at the end."""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fairseq_groc.data.fingerprint import FILE
from fairseq_groc.errors import DataError
from fairseq_groc.lexicon.tables_file import FOLDER

SCRATCH = ".preprocess-unfinished"
TEXTS = re.compile(r"(train|valid\d*|test\d*)\.(bin|idx|contexts|context\.(categories|numbers)\.npy)|context\.json")
LAST = ["dict.txt", FILE]  # without the dictionary nothing is read, and the note says that all is there
logger = logging.getLogger(__name__)


def check_target(target: str, *read: str | None) -> Path:
    """Return the folder to write.

    Args:
        target: as it was given
        read: folders of binarised text, and files in such folders, that are read; their texts must not be replaced

    Raises:
        DataError: it is a file, has texts that preprocessing did not make, or is read itself.
    """
    folder = Path(target)
    if not target:
        raise DataError("--dest is empty: give a folder to write")
    if target.startswith("-"):
        raise DataError(f"--dest {target}: a folder whose name begins with - is taken for an option. Write ./{target}.")
    if folder.exists() and not folder.is_dir():
        raise DataError(f"--dest {target} is a file: give a folder to write")
    if (folder / SCRATCH).is_symlink():  # what is in it would be removed
        raise DataError(f"{folder / SCRATCH} is a link: remove it")
    for path in filter(None, read):
        found = os.path.realpath(path)  # first: a link to a file may lie anywhere
        if os.path.realpath(folder) == (found if os.path.isdir(found) else os.path.dirname(found)):
            raise DataError(f"--dest {target} would replace the texts of a folder that is read ({path}): give another --dest")
    if (texts := _texts(folder)) and not any((folder / name).exists() for name in (*LAST, SCRATCH)):
        raise DataError(f"{folder} has {texts[0].name}, which preprocess did not make: move it away, or give another --dest")
    return folder


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder on the same file system; what is in its ``made`` at the end takes the place of an earlier text.

    What is there stays whole until then, and so do all other files. What a killed run left is removed.

    Raises:
        DataError: another command writes the folder, or something cannot be read or written.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    scratch, left_with = folder / SCRATCH, "nothing was written to it"
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        with _only_one(scratch):
            for left in scratch.iterdir():
                if left.name != "lock":
                    _remove(left)
            (scratch / "made").mkdir()
            yield scratch
            left_with = "it is not complete: make it again"
            _swap(scratch / "made", folder)
    except OSError as error:
        raise DataError(f"{folder}: {left_with} ({error})") from None
    finally:
        for path in new:  # those that are empty
            with contextlib.suppress(OSError):
                path.rmdir()


@contextmanager
def _only_one(scratch: Path) -> Iterator[None]:
    lock = FileLock(scratch / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DataError(f"another preprocess writes {scratch.parent} at this moment") from None
    try:
        yield
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()


def _swap(made: Path, folder: Path) -> None:
    names = {path.name for path in made.iterdir()}
    old = _texts(folder)
    if gone := sorted(path.name for path in old if path.name not in names):
        logger.warning(f"{folder} has no longer {', '.join(gone)}: they were of the text that was there before")
    for path in (*map(folder.joinpath, reversed(LAST)), folder / FOLDER, *old):
        _remove(path)
    for name in sorted(names, key=lambda name: (LAST.index(name) if name in LAST else -1, name)):
        os.replace(made / name, folder / name)


def _texts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if TEXTS.fullmatch(path.name)] if folder.is_dir() else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
