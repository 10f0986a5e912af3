"""Service settings: OVERNIGHT_<SERVICE>_<FIELD> > <OVERNIGHT_CONFIG>/<service>.yaml > default.

The files in config/ say the same as the defaults here; everything works without them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from overnight.configuration.keys import did_you_mean
from overnight.configuration.yaml_file import Document, load_document, scalar, shown
from overnight.contracts.errors import ConfigError

Seconds = Annotated[float, Field(gt=0, le=86400)]
Port = Annotated[int, Field(ge=0, le=65535)]  #: 0 = any free port
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9.:-]{1,253}$")]


class ServiceSettings(BaseSettings):
    """Base of all services' settings: frozen, no unknown field. Build with `load_settings`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    service: ClassVar[str]  #: the file's name and the variables' middle part

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load_settings` passes: it knows where each value stands, for the message."""
        return (init_settings,)


class ServedSettings(ServiceSettings):
    """Of a service that serves metrics."""

    metrics_host: Host = "127.0.0.1"  #: the address to listen on; 0.0.0.0 = every one
    metrics_port: Port = 0


class OrchestratorSettings(ServedSettings):
    """How the orchestrator watches and gives up."""

    service = "orchestrator"

    poll_seconds: Seconds = 0.5  #: between two looks at the ledger
    max_attempts: Annotated[int, Field(ge=1, le=1000)] = 3  #: infra failures of one experiment
    lost_after_seconds: Seconds = 15.0  #: neither lease nor queue entry for so long: lost
    rejected_pause: Annotated[int, Field(ge=1)] = 10  #: proposals rejected in a row that pause
    given_up_pause: Annotated[int, Field(ge=1)] = 3  #: ideas given up in a row that pause
    hang_seconds: Seconds = 300.0  #: silent for so long, it is ended and started again


class RunnerSettings(ServedSettings):
    """How a runner holds a lease and delivers."""

    service = "runner"

    lease_seconds: Seconds = 15.0  #: life of a lease that is not renewed
    renew_seconds: Seconds = 5.0  #: between two renewals
    resend_seconds: Seconds = 2.0  #: between two tries to deliver a result
    disk_mb: Annotated[int, Field(ge=64)] = 20480  #: a candidate's files; at most half the free
    disk_files: Annotated[int, Field(ge=1000)] = 1_000_000  #: how many they may be
    hang_seconds: Seconds = 300.0  #: silent for so long beyond a deadline, it is started again

    @model_validator(mode="after")
    def _renews_in_time(self) -> RunnerSettings:
        if self.renew_seconds * 2 > self.lease_seconds:
            raise ValueError("renew_seconds must be at most half of lease_seconds")
        return self


class RecorderSettings(ServedSettings):
    """How the recorder reads its stream."""

    service = "recorder"

    poll_seconds: Seconds = 0.5  #: the longest wait for a message
    hang_seconds: Seconds = 300.0  #: silent for so long, it is ended and started again


class SpawnerSettings(ServedSettings):
    """What the holder of the container engine's socket lets others ask for."""

    service = "spawner"

    image: Annotated[str, Field(min_length=1)] = "overnight-sandbox:cpu"  #: for who names none
    images: str = ""  #: names that may be asked for beside it, by commas; empty: any that is there
    reads: str = ""  #: folders below which data may be shown, by commas; empty: any, checked here
    network_host: bool = True  #: may a profile ask for the host's network?
    clients: str = ""  #: user ids that may connect beside root and our own, by commas
    max_sandboxes: Annotated[int, Field(ge=1, le=4096)] = 256  #: at the same time
    starts_per_minute: Annotated[int, Field(ge=1)] = 600
    orphan_seconds: Seconds = 300.0  #: what a dead runner left and nobody asked for is removed then
    hang_seconds: Seconds = 300.0  #: silent for so long, it is ended and started again


class SupervisorSettings(ServiceSettings):
    """How the embedded tree restarts its children."""

    service = "supervisor"

    crash_loop: Annotated[int, Field(ge=1, le=1000)] = 5  #: deaths in a row before it was ready
    backoff_seconds: Seconds = 0.2  #: before the first restart; doubled for each further one
    backoff_max_seconds: Seconds = 5.0
    stop_seconds: Seconds = 30.0  #: a stop that can't be recorded for so long ends all the same
    targets_dir: str = ""  #: where Prometheus looks for this host's sessions; "": nobody is told


S = TypeVar("S", bound=ServiceSettings)


def load_settings(cls: type[S], environ: Mapping[str, str]) -> S:
    """The settings of one service.

    Raises:
        ConfigError: one line that names the variable, or the file and line.
    """
    document = _file(cls, environ)
    values: dict[str, Any] = dict(document.values)
    where = {key: f"{document.name}:{line}: {key[0]}" for key, line in document.lines.items()}
    prefix = f"OVERNIGHT_{cls.service.upper()}_"
    fields = frozenset(cls.model_fields)
    for name in sorted(environ):
        if not name.startswith(prefix) or not environ[name]:
            continue
        field = name.removeprefix(prefix).lower()
        if field not in fields:
            raise ConfigError(f"{name} is not a known setting{did_you_mean(field, fields)}")
        text = environ[name].strip()
        is_text = cls.model_fields[field].annotation is str  # `clients: 1000` is one user's id
        values[field] = text if is_text else scalar(text)
        where[(field,)] = name
    unknown = sorted(set(values) - fields)
    if unknown:
        hint = did_you_mean(unknown[0], fields)
        raise ConfigError(f"{where[(unknown[0],)]} is not a known setting{hint}")
    for field, value in values.items():
        # Strict, but 15 is as good as 15.0.
        if isinstance(value, int) and not isinstance(value, bool) and field.endswith("_seconds"):
            values[field] = float(value)
    try:
        return cls(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = first["loc"][:1]
        named = where.get(key, cls.service)
        value = f", not {shown(values[str(key[0])])}" if key else ""
        reason = first["msg"].removeprefix("Value error, ").lower()
        raise ConfigError(f"{named}: {reason}{value}") from error


def _file(cls: type[ServiceSettings], environ: Mapping[str, str]) -> Document:
    folder = environ.get("OVERNIGHT_CONFIG")
    name = f"{cls.service}.yaml"
    if folder and not os.path.isdir(folder):
        raise ConfigError(f"OVERNIGHT_CONFIG: {folder} is not a folder")
    path = Path(folder) / name if folder else None
    if path is None or not path.exists():
        return Document(name=name, values={}, lines={})
    return load_document(path, name)
