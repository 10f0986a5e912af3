"""Xid: the driver's number for what went wrong on a card. Whose fault is it?

Sources: NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors) for what each number means, and
NVIDIA's device plugin for Kubernetes, which takes the same six for faults of the application
after which the card is healthy. A number that nobody listed is the hardware's: a candidate must
not be blamed for what we don't know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Whose."""

    CANDIDATE = "candidate"  #: what the code did; the verdict is its ending, as on any machine
    NOTED = "noted"  #: the card mended or recorded something: a result counts, with a flag
    HARDWARE = "hardware"  #: the attempt is nobody's fault and is run again


CANDIDATES = {
    13: "graphics engine exception",  # an illegal instruction, or an array out of bounds
    31: "memory page fault",  # an address that is not mapped
    43: "GPU stopped processing",  # a software fault ended the context; the card goes on
    45: "cleanup after an earlier error",  # also when a process is killed, as at each deadline
    68: "video processor exception",
    109: "context switch timeout",  # a kernel that never ends
}
NOTED = {
    63: "a page was retired or a row remapped",  # the record of it; takes effect with a reset
    92: "many single-bit errors, all corrected",
}
HARDWARE = {
    48: "double-bit memory error",
    62: "internal controller halt",
    64: "a page could not be retired or a row remapped",
    74: "NVLink error",
    79: "fell off the bus",
    94: "contained memory error",  # the process that was hit is gone, the card goes on
    95: "uncontained memory error",
    119: "GSP does not answer",
    120: "GSP error",
    140: "unrecovered memory error",
}


@dataclass(frozen=True)
class Xid:
    """One event on one device."""

    uuid: str
    number: int

    @property
    def fault(self) -> Fault:
        """Whose it is."""
        if self.number in CANDIDATES:
            return Fault.CANDIDATE
        return Fault.NOTED if self.number in NOTED else Fault.HARDWARE

    @property
    def shown(self) -> str:
        """For a person."""
        known = {**CANDIDATES, **NOTED, **HARDWARE}.get(self.number)
        return f"Xid {self.number}{f' ({known})' if known else ''} on {self.uuid}"


def worst(events: Iterable[Xid]) -> Xid | None:
    """The one that decides: the hardware's before what was noted, that before the candidate's.

    A hardware fault usually brings a 45 along, as the driver ends what ran there.
    """
    order = (Fault.HARDWARE, Fault.NOTED, Fault.CANDIDATE)
    return min(events, key=lambda event: order.index(event.fault), default=None)
