"""Files: written whole or not at all, to places that were looked at before the work; read only as they were written."""

import codecs
import hashlib
import logging
import os
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fairseq_groc.errors import OptionError

logger = logging.getLogger(__name__)


@contextmanager
def replace_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a new file that takes the place of *path* at the end; however the writing ends before, what was there stays.

    Args:
        path: of the file; where it is a link, what it points to is replaced
        mode: "w" for text in UTF-8, in which stray bytes are as they were read, "wb" for bytes

    Raises:
        OSError: with *path* as its file name, so that a line can say what could not be written.
    """
    target = Path(os.path.realpath(path))
    scratch = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with writing_to(path, scratch):
            encoding, errors = (None, None) if "b" in mode else ("utf-8", "surrogateescape")
            with open(scratch, mode.replace("w", "x"), encoding=encoding, errors=errors) as file:
                yield file
            os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def writing_to(path: Path, *scratch: Path) -> Iterator[None]:
    """Let an error of writing, as on a full disk, name *path*: it names no file by itself, or one of *scratch*."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, *map(str, scratch)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def check_archive(path: Path) -> None:
    """Compare a file of ``torch.save`` with the checksums in it, at which PyTorch does not look; one before PyTorch 1.6 has none.

    Raises:
        zipfile.BadZipFile: a part of it is not what was written; other errors of zipfile's, for whatever else a file may have.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} in it is damaged")


def check_place(option: str, path: Path) -> None:
    """Refuse, before the work, a file that cannot be written.

    Args:
        option: what the path was given for, as it is typed

    Raises:
        OptionError: a folder, or in one that is missing or may not be written to.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        if Path(path).is_dir():
            raise OptionError(f"{option} {path} is a folder: give the name of a file")
    except OSError as error:
        raise OptionError(f"{option} {path}: {error.strerror}") from None
    if not folder.is_dir():
        raise OptionError(f"{option} {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OptionError(f"{option} {path}: nothing may be written to {folder}")


def why_no_file(path: Path) -> str:
    """Return what a path is that is no file."""
    return "a folder, expected a file" if path.is_dir() else "no regular file: save it first" if path.exists() else "no such file"


def chunks(path: Path) -> Iterator[bytes]:
    """Yield what is in a file, little by little."""
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def digest(*paths: Path) -> str:
    """Return the SHA-256 of files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        for chunk in chunks(path):
            total.update(chunk)
    return total.hexdigest()


def has_mark(head: bytes, name: str) -> bool:
    """Say whether a file begins with a byte-order mark, which is no part of its first word, and note it."""
    if not head.startswith(codecs.BOM_UTF8):
        return False
    logger.warning(f"{name} begins with a byte-order mark (BOM), which is left out")
    return True
