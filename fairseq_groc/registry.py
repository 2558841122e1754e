"""Names that options take, the package's and those of a ``--user-dir``, and the options that what they name brings."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from fairseq_groc.errors import OptionError

T = TypeVar("T")


class Option(NamedTuple):
    """A value that a part can be given.

    Args:
        default: what it is otherwise; an option takes values of its type, a folder a text or None
        help: what it is, for ``--help``
        kind: which values it takes: one of ``KINDS``, or the words that it chooses from
        several: its name where it takes several values, in ``tune``; empty: the same
    """

    default: Any
    help: str
    kind: str | Collection[str] = "number"
    several: str = ""

    def refusal(self, value: Any) -> str | None:
        """Return what is expected in place of a value, or None where it will do."""
        if not isinstance(self.kind, str):
            return None if value in self.kind else f"one of {', '.join(self.kind)}"
        expected, fits = KINDS[self.kind]
        if isinstance(self.default, list) or self.kind == FOLDER:
            return None if fits(value) else expected
        number = isinstance(value, (int, float)) and isinstance(value, (int, type(self.default))) and not isinstance(value, bool)
        return None if number and -math.inf < value < math.inf and fits(value) else expected


FOLDER = "folder"
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "weight": ("a number from 0 to below 1", lambda value: 0 <= value < 1),
    "dropout": ("a number from 0 to below 1", lambda value: 0 <= value < 1),  # a checkpoint's may be another
    "dropout or -1": ("a number from 0 to below 1, or -1", lambda value: 0 <= value < 1 or value == -1),
    "factor": ("a number above 0", lambda value: value > 0),
    "share": ("a number above 0, at most 1", lambda value: 0 < value <= 1),
    "count": ("1 or more", lambda value: value >= 1),
    "natural": ("0 or more", lambda value: value >= 0),
    "number": ("a number", lambda value: True),
    FOLDER: ("the name of a folder", lambda value: value is None or isinstance(value, str)),
    "counts": (
        "a list of counts like [32,32,64]",
        lambda value: any(value) and all(isinstance(n, int) and n >= 0 for n in value),
    ),
}


def flag(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def shown_value(value: Any) -> str:
    """Return a value as it is typed: 0, not 0.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_options(options: Mapping[str, Option], values: Mapping[str, Any]) -> None:
    """Refuse values that options do not take.

    Raises:
        OptionError: with the option, its value and what was expected.
    """
    for name, option in options.items():
        value = values[name]
        if expected := option.refusal(value):
            raise OptionError(f"{flag(name)} {shown_value(value)}: expected {expected}")


def expect(kind: str, **values: Any) -> None:
    """Refuse values, by the names of their options, that are not of a kind.

    Raises:
        OptionError: with the option, its value and what was expected.
    """
    check_options({name: Option(value, "", kind) for name, value in values.items()}, values)


class Registry(dict[str, T]):
    """Parts of a kind by name, and the options of all of them.

    Args:
        kind: for errors, as in "output head 'x' is registered already"
        options: those of parts of another kind that come by the same way; None: there are none
    """

    def __init__(self, kind: str, options: dict[str, Option] | None = None):
        super().__init__()
        self.kind = kind
        self.options: dict[str, Option] = {} if options is None else options
        self.taken: dict[str, Mapping[str, Option]] = {}  # by each part
        self._listeners: list[Callable[[dict[str, Option]], None]] = []

    def listen(self, listener: Callable[[dict[str, Option]], None]) -> None:
        """Let somebody who shows the options know those that are new from now on; it may refuse them."""
        self._listeners.append(listener)

    def add(self, name: str, part: T, options: Mapping[str, Option] | None = None) -> None:
        """Register a part with its options; parts may share one whose meaning is the same.

        Raises:
            OptionError: a name that is taken, or none that an option can have; a default that an option does not take.
        """
        options = options or {}
        check_options(options, {option: value.default for option, value in options.items()})
        shared = [option for option in options if self.options.get(option) == options[option]]
        _check_name(self, self.kind, name)
        for option in options.keys() - shared:
            _check_name(self.options, f"{self.kind} option", option)
        new = {option: value for option, value in options.items() if option not in shared}
        for listener in self._listeners if new else ():
            listener(new)
        self[name], self.taken[name] = part, options
        self.options.update(new)

    def decorator(
        self,
        name: str,
        options: Mapping[str, Option],
        implied: Callable[[Any], Mapping[str, Option]] = lambda cls: {},
        part: Callable[[Any], T] = lambda cls: cls,
    ) -> Callable[[Any], Any]:
        """Return what registers a class that has ``options``; the first time they become the class's, for those made from it.

        Args:
            options: besides those of the class
            implied: from the class, what all like it take
            part: from the class, what is registered
        """

        def register(cls: Any) -> Any:
            own = {**cls.options, **options}
            self.add(name, part(cls), {**implied(cls), **own})
            if "options" not in vars(cls):
                cls.options = own
            return cls

        return register

    def find(self, name: str) -> T:
        """Return what is registered by a name.

        Raises:
            OptionError: nothing is.
        """
        if name not in self:
            raise OptionError(
                f"{self.kind} {name!r} is not registered: expected one of {', '.join(self)}, or the --user-dir that registers it"
            )
        return self[name]


def _check_name(registry: Mapping[str, Any], what: str, name: str) -> None:
    if not name.isidentifier():
        raise OptionError(f"{what} {name!r}: expected a name of letters, digits and underscores")
    if name in registry:
        raise OptionError(f"{what} {name!r} is registered already: choose a name that is none of {', '.join(registry)}")
