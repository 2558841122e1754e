"""Raw text to a data folder: scripts/preprocess.sh, wherever the package is installed."""

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
PARSER = {"add_help": False, "prefix_chars": "\0"}  # all options, --help too, are the script's


def add_arguments(parser) -> None:
    parser.add_argument("options", nargs="*", help="those of preprocess.sh: see --help")


def script() -> Path:
    """Return the script: part of an installed package, beside it in the repository."""
    installed = PACKAGE / "scripts" / "preprocess.sh"
    return installed if installed.exists() else PACKAGE.parent / "scripts" / "preprocess.sh"


def run(args) -> int:
    return subprocess.call(["bash", str(script()), *args.options], env={**os.environ, "PYTHON": sys.executable})
