"""Settings of what watches a runner's GPUs: OVERNIGHT_DEVICES_<FIELD>, or devices.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from overnight.configuration.settings import Seconds, ServiceSettings


class DeviceSettings(ServiceSettings):
    """When a GPU is empty again, and when it is given a rest."""

    service = "devices"

    clear_seconds: Seconds = 30.0  #: after an attempt, until a GPU must be empty; then quarantine
    slack_mb: Annotated[int, Field(ge=0)] = 512  #: memory above the least seen that still is none
    failures: Annotated[int, Field(ge=1, le=1000)] = 2  #: of a device, in a row, before it rests
    pause_seconds: Seconds = 10.0  #: after each failure before that, while other runners live
    rest_seconds: Seconds = 60.0  #: the first rest; each failure that follows at once doubles it
    rest_max_seconds: Seconds = 600.0
