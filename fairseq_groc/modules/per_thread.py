"""Attributes of which each thread has its own value, and values that attributes have for a while.

What one pass through a model knows is no other's.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Values(threading.local):
    """The values of one object, by thread; a copy of the object begins without any."""

    def __reduce__(self) -> Any:
        return _Values, ()


class PerThread:
    """An attribute that is set and read as any other, but by each thread for itself.

    Args:
        default: its value in a thread that has set none
    """

    def __init__(self, default: Any = None):
        self._default, self._name = default, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return getattr(_values(instance), self._name, self._default)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(_values(instance), self._name, value)


def _values(instance: Any) -> _Values:
    return instance.__dict__.setdefault("_of_threads", _Values())


@contextmanager
def having(holder: Any, name: str, value: Any) -> Iterator[None]:
    """Let an object have another value of an attribute meanwhile."""
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)
