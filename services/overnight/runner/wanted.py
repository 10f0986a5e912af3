"""How many devices each experiment of a session gets: its bindings say so, for all alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, UsageError, WireError
from overnight.contracts.rows import Opening
from overnight.ledger.files import SessionFiles


def gpus_each(files: SessionFiles) -> int:
    """GPUs that an experiment gets; 0: it wants none.

    Raises:
        InfrastructureError: the session is not opened, or its opening can't be read.
    """
    try:
        opening = wire.decode(Opening, files.opening.read_text("utf-8"))
    except (WireError, UnicodeDecodeError) as error:
        raise InfrastructureError(f"{files.opening}: {error}") from error
    except OSError as error:
        raise InfrastructureError(f"{files.opening}: {error.strerror}") from error
    config: Mapping[str, Any] = opening.session.config
    gpus = config.get("gpus", 1)
    return gpus if isinstance(gpus, int) else 1


def check_slots(each: int) -> None:
    """Raises UsageError where processor slots are no place for such experiments."""
    if each > 1:
        raise UsageError(
            f"each experiment of this session needs {each} GPUs (gpus: {each}): start its runners "
            "with --gpus all, on a machine that has them"
        )
