"""What evaluation keeps on disk for a model over a vocabulary: tuned settings of adapters, and remembered text."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from filelock import FileLock

from fairseq_groc.errors import CacheError, DataError
from fairseq_groc.lexicon.tables import words_fingerprint
from fairseq_groc.modules.adapters import AdapterSettings
from fairseq_groc.modules.adapters.store import REMEDY, EntryStore, read_header
from fairseq_groc.modules.export import fingerprint as module_fingerprint

logger = logging.getLogger(__name__)
TUNED = "adapters.json"  # in the data folder: settings by the model's fingerprint
FORMAT = 1  # of it; raise whenever the meaning of the settings or of the fingerprint changes


def fingerprint(decoder) -> str:
    """Return a digest of a decoder's parameters and of its vocabulary: the words, and the lexicon that they were looked up in.

    Buffers are not in it: some come and go with what was read, and those of a vocabulary follow from it.
    """
    vocabulary = f"{words_fingerprint(decoder.dictionary.symbols)} {decoder.lexicon}"
    return hashlib.sha256(f"{module_fingerprint(decoder, buffers=False)} {vocabulary}".encode()).hexdigest()


def tuned_adapters(data: Path, decoder) -> Optional[Tuple[AdapterSettings, Optional[str]]]:
    """Return the settings that were tuned for this model over this folder's vocabulary, with the folder of the text that
    an unbounded cache remembered, and say so; None: there are none.

    Raises:
        DataError: the file is not readable.
    """
    if not (data / TUNED).exists():
        return None
    tuned = _read(data / TUNED).get(fingerprint(decoder))
    if tuned is None:
        return None
    settings = AdapterSettings(**tuned["settings"])
    chosen = ", ".join(f"{name} {value:g}" for name, value in settings.changes().items())
    logger.info(f"adapters as tuned on '{tuned['split']}' (--no-tuned-adapters leaves them out): {chosen or 'none'}")
    return settings, tuned.get("cache_text")


def store_tuned(data: Path, decoder, settings: AdapterSettings, **found: Any) -> None:
    """Write the settings for this model, and what is known of how they were found, beside those of others."""
    path, scratch = data / TUNED, data / f".{TUNED}"
    with FileLock(data / f".{TUNED}.lock"):  # another model may be tuned at the same time
        models = _read(path) if path.exists() else {}
        models[fingerprint(decoder)] = {"settings": settings.changes(), **found}
        scratch.write_text(json.dumps({"format": FORMAT, "models": models}, indent=1) + "\n")
        os.replace(scratch, path)


def _read(path: Path) -> Dict[str, Any]:
    """Return the settings of every model."""
    try:
        stored = dict(json.loads(path.read_text()))
        if stored.get("format") == FORMAT:
            return dict(stored["models"])
    except (ValueError, TypeError, KeyError):
        stored = {}
    what = f"has format {stored['format']}, expected {FORMAT}" if "format" in stored else "is not readable"
    raise DataError(f"{path} {what}. Remove it and tune again: python -m fairseq_groc tune.") from None


def open_remembered(folder: Path, decoder) -> EntryStore:
    """Open the entries of a text that ``python -m fairseq_groc remember`` has stored.

    Raises:
        CacheError: there are none, or another model's or vocabulary's.
    """
    header = read_header(folder)
    model, _, _ = str(header["fingerprint"]).partition(" ")
    expected = f"{fingerprint(decoder)}{header['fingerprint'][len(model) :]}"
    store = EntryStore(folder, int(header["dim"]), expected, reading=True)
    largest = int(store.entries()[1].max()) if store.count else 0
    if largest >= len(decoder.dictionary):
        raise CacheError(f"{folder} has word {largest:,} of a vocabulary of {len(decoder.dictionary):,}: it is damaged. {REMEDY}")
    logger.info(f"{folder}: {store.count:,} words remembered")
    return store
