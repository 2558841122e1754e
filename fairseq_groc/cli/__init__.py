"""The commands, a module each with add_arguments(parser) and run(args), and those that a ``--user-dir`` registers."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from fairseq_groc import require_fairseq
from fairseq_groc.registry import Registry

require_fairseq()


class Command(NamedTuple):
    """A command: its group and line in ``--help``, its options, and what it does; that returns the exit code, None for 0."""

    group: str
    help: str
    add_arguments: Callable[[ArgumentParser], Any]
    run: Callable[[Namespace], int | None]


Run = TypeVar("Run", bound=Callable[[Namespace], int | None])
COMMANDS: Registry[Command] = Registry("command")  # __main__ puts the package's in


def register_command(name: str, add_arguments: Callable[[ArgumentParser], Any], group: str = "analysis") -> Callable[[Run], Run]:
    """Register a function as a command, which is typed with hyphens for underscores; its docstring's first line is the help.

    Raises:
        OptionError: a name that is taken.
    """

    def register(run: Run) -> Run:
        COMMANDS.add(name, Command(group, (run.__doc__ or "").partition("\n")[0], add_arguments, run))
        return run

    return register
