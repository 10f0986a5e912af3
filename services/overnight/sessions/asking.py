"""A wish to a session that must not keep its supervisor from its other children."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from overnight.contracts.errors import OvernightError


class Asking:
    """A wish, asked for in a thread until it is answered: the tree is tended meanwhile."""

    def __init__(self, wish: Callable[[], object]) -> None:
        self._wish = wish
        self._error: OvernightError | None = None
        self._thread = Thread(target=self._ask, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Is it answered?"""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises what it was refused for."""
        if self._error is not None:
            raise self._error

    def _ask(self) -> None:
        try:
            self._wish()
        except OvernightError as error:
            self._error = error
