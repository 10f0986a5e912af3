"""One inferred binding with its evidence, and what is missing to infer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overnight.contracts.errors import UsageError

GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One binding, and what it rests on."""

    value: Any
    evidence: str  #: one line, with file:line where there is one

    @staticmethod
    def given(value: Any) -> Finding:
        """A binding that the user gave."""
        return Finding(value=value, evidence=GIVEN)


class UnknownBindingError(UsageError):
    """A binding that nothing speaks for, or that two things contradict: only a person can say."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key  #: dotted

    def __reduce__(self) -> tuple[type[UnknownBindingError], tuple[str, str]]:
        return type(self), (self.key, str(self))
