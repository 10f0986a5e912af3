"""Tells a Prometheus of this host where a session's metrics are, in a folder that it watches."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from overnight.contracts.errors import ConfigError

log = structlog.get_logger()

SERVICES = frozenset({"orchestrator", "recorder", "spawner"})  #: every other child is a runner


class Targets:
    """One session's file for `file_sd_configs`: there while its services run.

    A supervisor that is killed leaves it, so that its session is seen to be down.

    folder: an absolute path; "" tells nobody.
    """

    def __init__(self, folder: str, sid: str) -> None:
        self._path = Path(folder) / f"{sid}.json" if folder else None
        self._told = ""
        if folder and not os.path.isdir(folder):
            raise ConfigError(f"OVERNIGHT_SUPERVISOR_TARGETS_DIR: {folder} is not a folder")

    def tell(self, endpoints: Mapping[str, str]) -> None:
        """Where each service serves, by its name. A disk that refuses it changes nothing else."""
        text = json.dumps(targets(endpoints), indent=1) + "\n"
        if self._path is None or text == self._told:
            return
        beside = self._path.with_suffix(".tmp")
        try:
            beside.write_text(text)
            beside.chmod(0o644)  # Prometheus is somebody else
            os.replace(beside, self._path)
            self._told = text
        except OSError as error:
            log.warning("targets_not_told", reason=str(error))

    def forget(self) -> None:
        """The services are gone, as they should be."""
        try:
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("targets_not_removed", reason=str(error))


def targets(endpoints: Mapping[str, str]) -> list[dict[str, object]]:
    """Target groups as Prometheus reads them; each names its job, as compose's scrape jobs do."""
    return [
        {
            "targets": [url.removeprefix("http://").partition("/")[0]],
            "labels": {"job": name if name in SERVICES else "runner"},
        }
        for name, url in sorted(endpoints.items())
    ]
