"""Who reads a vocabulary and who changes it: many threads read at once, one changes it while nobody reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Let readers in together, and a writer alone. Writers that wait go before new readers; neither enters within the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = self._waiting = 0
        self._writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not (self._writing or self._waiting))
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not (self._writing or self._readers))
            finally:  # also where it is interrupted
                self._waiting -= 1
                self._changed.notify_all()
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
