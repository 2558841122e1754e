"""``python -m fairseq_groc``: commands around fairseq's own."""

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from fairseq_groc.arguments import DefaultsFormatter
from fairseq_groc.cli import COMMANDS, Command
from fairseq_groc.errors import GrocError, OptionError
from fairseq_groc.logs import at_least, of_commands, show_log
from fairseq_groc.programs import shortened

_GROUPS = {  # modules of ``cli``
    "data": "preprocess tables explain",
    "training": "user_dir presets",
    "scoring": "score rescore evaluate tune gradient_statistics remember ngram export",
    "contexts": "classify boosted likelihood_ratio contexts",
    "analysis": "compare curves frequency_bins coverage nearest training_speed",
}
if "preprocess" not in COMMANDS:  # this file runs twice where ``python -m`` meets an import of it
    for _group, _names in _GROUPS.items():
        for _name in _names.split():
            _module = import_module(f"fairseq_groc.cli.{_name}")
            COMMANDS.add(_name, Command(_group, str(_module.__doc__).partition("\n")[0], _module.add_arguments, _module.run))
PROGRAM = "python -m fairseq_groc"


class Parser(argparse.ArgumentParser):
    """One whose errors are ours: a line that says where the options are listed."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): (.+: expected)", r"\1 \2", message)  # a number, as other errors have it
        raise OptionError(f"{message}{'' if message.endswith('?') else '.'} Options: {self.prog} --help")


class CommandParser(Parser):
    """That of a command, which takes no options of others."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, others = super().parse_known_args(args, namespace)
        if others:
            near = get_close_matches(others[0].partition("=")[0], self._option_string_actions, 1)
            self.error(f"unrecognized arguments: {' '.join(others)}" + "".join(f". Did you mean {name}?" for name in near))
        return found, others


USER = Parser(prog=PROGRAM, add_help=False, allow_abbrev=False)
USER.add_argument(
    "--user-dir", default=argparse.SUPPRESS, help="folder of a Python package to import first: parts and commands of your own"
)
USER.add_argument("--verbose", action="store_true", default=argparse.SUPPRESS, help="also show what fairseq and the package log")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error of ours, or a file that cannot be read or written, is one line and exit code 1."""
    try:
        common = USER.parse_known_args(arguments, argparse.Namespace(user_dir=None, verbose=False))[0]
        show_log()
        with at_least(of_commands(common.verbose)):
            _import_user_module(common)
            args = _parser().parse_args(arguments)
            code = COMMANDS[args.command.replace("-", "_")].run(args) or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever reads the output has enough
        code = 128 + signal.SIGPIPE
    except GrocError as error:
        code = _refused(str(error))
    except UnicodeEncodeError as error:
        code = _refused(f"{error.encoding} lacks {error.object[error.start]!a}: set PYTHONIOENCODING=utf-8:surrogateescape")
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # PyTorch's
            raise
        code = _refused("the GPU has too little memory: give --cpu, or fewer --streams or --tokens-per-sample")
    except OSError as error:
        code = _refused(f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error))
    _end_output()
    return code


def in_process(*command: Any) -> None:
    """Run a command of the package in this process, which has loaded all it needs; it is shown, what it prints is not."""
    words = [str(part) for part in command]
    print("+ fairseq_groc", *shortened(words), file=sys.stderr, flush=True)
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(words)
    if code:
        sys.exit(code)


def _refused(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


def _end_output() -> None:
    """Write what was printed; where nobody takes it, let go of it, or Python would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _import_user_module(args: Namespace) -> None:
    """Import what ``--user-dir`` says, as fairseq's programs do: it may bring options."""
    if args.user_dir is not None and not Path(args.user_dir, "__init__.py").is_file():
        raise OptionError(f"--user-dir {args.user_dir}: expected the folder of a Python package, with an __init__.py")
    from fairseq.utils import import_user_module

    import_user_module(args)


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog=PROGRAM, description=__doc__, epilog=_listed(), parents=[USER], formatter_class=raw)
    parser.set_defaults(user_dir=None, verbose=False)
    kind: type[argparse.ArgumentParser] = CommandParser
    one = "one of those below; has a --help"
    commands = parser.add_subparsers(parser_class=kind, dest="command", required=True, metavar="COMMAND", help=one)
    for name, command in COMMANDS.items():
        typed = name.replace("_", "-")
        command.add_arguments(
            commands.add_parser(typed, description=command.help, parents=[USER], formatter_class=DefaultsFormatter)
        )
    return parser


def _listed() -> str:
    """Return what the commands are for, by groups."""
    wrapped = textwrap.TextWrapper(shutil.get_terminal_size().columns - 2, subsequent_indent=" " * 20)
    listed = {group: [f"{group}:"] for group, *_ in COMMANDS.values()}
    for name, command in COMMANDS.items():
        listed[command.group].append(wrapped.fill(f"  {name.replace('_', '-'):<16}  {command.help}"))
    return "\n\n".join(map("\n".join, listed.values()))


if __name__ == "__main__":
    show_log(anew=True)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.excepthook = lambda *_: None  # Python ends by the signal, as shells expect, and shows nothing
        raise
