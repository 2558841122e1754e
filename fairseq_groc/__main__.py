"""``python -m fairseq_groc``: commands around fairseq's own."""

import argparse
import logging
import sys
from pathlib import Path

from fairseq.utils import import_user_module

from fairseq_groc.cli import (
    config,
    coverage,
    curves,
    evaluate,
    explain,
    export,
    frequency_bins,
    nearest,
    preprocess,
    presets,
    remember,
    score,
    tables,
    training_speed,
    tune,
    user_dir,
)
from fairseq_groc.errors import GrocError, OptionError

COMMANDS = {
    "user-dir": user_dir,
    "preprocess": preprocess,
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
    "training-speed": training_speed,
}
USER = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
USER.add_argument("--user-dir", help="folder of a Python package to import first: heads, lexicons and caches of your own")


def main(arguments=None) -> int:
    """Run a command; an error of ours is one line and exit code 1."""
    try:
        _import_user_module(USER.parse_known_args(arguments)[0])
        return _run(_parser().parse_args(arguments))
    except GrocError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _import_user_module(args) -> None:
    """Import what ``--user-dir`` says, as fairseq's programs do: it may bring options."""
    if args.user_dir is not None and not Path(args.user_dir, "__init__.py").is_file():
        raise OptionError(f"--user-dir {args.user_dir}: expected the folder of a Python package, with an __init__.py")
    import_user_module(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairseq_groc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=str(module.__doc__).splitlines()[0], parents=[USER]))
    return parser


def _run(args) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for library in ("filelock", "faiss"):
        logging.getLogger(library).setLevel(logging.WARNING)  # fairseq may leave the root logger talkative
    return COMMANDS[args.command].run(args) or 0


if __name__ == "__main__":
    sys.exit(main())
