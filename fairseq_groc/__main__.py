"""``python -m fairseq_groc``: commands around fairseq's own."""

import argparse
import logging
import sys

from fairseq_groc.cli import (
    config,
    coverage,
    curves,
    evaluate,
    explain,
    export,
    frequency_bins,
    nearest,
    prepare,
    preprocess,
    presets,
    remember,
    score,
    tables,
    tune,
    user_dir,
)
from fairseq_groc.errors import GrocError

COMMANDS = {
    "user-dir": user_dir,
    "preprocess": preprocess,
    "prepare": prepare,
    "tables": tables,
    "explain": explain,
    "score": score,
    "evaluate": evaluate,
    "tune": tune,
    "remember": remember,
    "export": export,
    "config": config,
    "presets": presets,
    "curves": curves,
    "frequency-bins": frequency_bins,
    "coverage": coverage,
    "nearest": nearest,
}


def main(arguments=None) -> int:
    """Run a command; an error of ours is one line and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_groc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        options = getattr(module, "PARSER", {})
        module.add_arguments(commands.add_parser(name, help=str(module.__doc__).splitlines()[0], **options))
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for library in ("filelock", "faiss"):
        logging.getLogger(library).setLevel(logging.WARNING)  # fairseq may leave the root logger talkative
    try:
        return COMMANDS[args.command].run(args) or 0
    except GrocError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
