"""What evaluation keeps on disk for a model over a vocabulary: tuned settings of adapters."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from filelock import FileLock

from fairseq_groc.adapters import OPTIONS, AdapterSettings
from fairseq_groc.errors import DataError, OptionError
from fairseq_groc.files import replace_file
from fairseq_groc.logs import NOTICE
from fairseq_groc.registry import FOLDER

logger = logging.getLogger(__name__)
TUNED = "adapters.json"  # in the data folder: settings by the model's fingerprint
FORMAT = 2  # of it; raise whenever the meaning of the settings or of the fingerprint changes


def tuned_adapters(data: Path, decoder: Any) -> AdapterSettings | None:
    """Return the settings that were tuned for this model over this folder's vocabulary, and say so; None: there are none.

    Raises:
        DataError: the file is not readable, or has an option of an adapter that is not registered.
    """
    if not os.path.lexists(data / TUNED):  # a link to nothing is no file that nobody has written
        return None
    models = _read(data / TUNED)
    tuned = models.get(decoder.fingerprint())
    if tuned is None:
        logger.log(NOTICE, f"{data / TUNED} has no adapters of this model, only of others: tune stores them")
        return None
    try:
        folders = {name: tuned[name] for name, option in OPTIONS.items() if option.kind == FOLDER and tuned.get(name)}
        settings = AdapterSettings(**tuned["settings"], **folders)
    except OptionError as error:
        raise DataError(f"{data / TUNED}: {error}") from None
    logger.log(NOTICE, f"adapters as tuned on '{tuned['split']}' (--no-tuned-adapters leaves them out): {settings.shown()}")
    return settings


def store_tuned(data: Path, decoder: Any, settings: AdapterSettings, **found: Any) -> None:
    """Write the settings for this model, and what is known of how they were found, beside those of others."""
    path = data / TUNED
    with FileLock(data / f".{TUNED}.lock"):  # another model may be tuned at the same time
        models = _read(path) if path.exists() else {}
        folders = {name: str(Path(folder).resolve()) for name, folder in settings.folders().items()}
        models[decoder.fingerprint()] = {"settings": settings.acting(), **folders, **found}
        with replace_file(path) as file:
            file.write(json.dumps({"format": FORMAT, "models": models}, indent=1, allow_nan=False) + "\n")


def _read(path: Path) -> dict[str, Any]:
    """Return the settings of every model."""
    try:
        stored = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        stored = {}
    stored = stored if isinstance(stored, dict) else {}
    known = stored.get("format", FORMAT)
    if known == FORMAT and _in_range(stored.get("models")):
        return stored["models"]
    what = "is not readable" if known == FORMAT else f"has format {known}, expected {FORMAT}"
    raise DataError(f"{path} {what}. Remove it and tune again: python -m fairseq_groc tune.")


def _in_range(models: Any) -> bool:
    """Say whether these are settings of models, each as its option wants it; those of other people's caches are not known."""
    return isinstance(models, dict) and all(
        isinstance(model, dict)
        and isinstance(model.get("settings"), dict)
        and not any(name in OPTIONS and OPTIONS[name].refusal(value) for name, value in {**model, **model["settings"]}.items())
        and isinstance(model.get("split"), str)
        for model in models.values()
    )
