"""Names that options take: embeddings, heads, lexicons and caches, the package's and those of a ``--user-dir``."""

from __future__ import annotations

from typing import Dict, TypeVar

from fairseq_groc.errors import OptionError

T = TypeVar("T")


def check_name(registry: Dict[str, T], what: str, name: str) -> None:
    """Refuse a name for something new.

    Args:
        what: the kind of thing, for the error

    Raises:
        OptionError: the name is taken, or none that an option can have.
    """
    if not name.isidentifier():
        raise OptionError(f"{what} {name!r}: expected a name of letters, digits and underscores")
    if name in registry:
        raise OptionError(f"{what} {name!r} is registered already: choose a name that is none of {', '.join(registry)}")


def add(registry: Dict[str, T], what: str, name: str, value: T) -> None:
    """Register a value by a name, which ``check_name`` may refuse."""
    check_name(registry, what, name)
    registry[name] = value


def find(registry: Dict[str, T], what: str, name: str) -> T:
    """Return what is registered by a name.

    Raises:
        OptionError: nothing is.
    """
    if name not in registry:
        raise OptionError(
            f"{what} {name!r} is not registered: expected one of {', '.join(registry)}, or the --user-dir that registers it"
        )
    return registry[name]
