"""Service settings: the files in config/ say what the code does, a variable wins over both."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.configuration import (
    OrchestratorSettings,
    RecorderSettings,
    RunnerSettings,
    ServiceSettings,
    SupervisorSettings,
    load_settings,
    load_yaml,
)
from overnight.configuration.devices import DeviceSettings
from overnight.contracts.errors import ConfigError

CONFIG = Path(__file__).parents[3] / "config"
SERVICES: list[type[ServiceSettings]] = [
    OrchestratorSettings,
    RunnerSettings,
    RecorderSettings,
    SupervisorSettings,
    DeviceSettings,
]


@pytest.mark.parametrize("cls", SERVICES)
def test_the_file_in_config_says_exactly_the_defaults(cls: type[ServiceSettings]) -> None:
    defaults = load_settings(cls, {})

    assert load_yaml(CONFIG / f"{cls.service}.yaml", cls.service) == defaults.model_dump()
    assert load_settings(cls, {"OVERNIGHT_CONFIG": str(CONFIG)}) == defaults


def test_a_variable_beats_the_file_and_the_file_beats_the_default(tmp_path: Path) -> None:
    (tmp_path / "runner.yaml").write_text("lease_seconds: 30\nresend_seconds: 9.5\n")
    environ = {"OVERNIGHT_CONFIG": str(tmp_path), "OVERNIGHT_RUNNER_LEASE_SECONDS": "40"}
    settings = load_settings(RunnerSettings, environ)

    assert settings.lease_seconds == 40.0
    assert settings.resend_seconds == 9.5
    assert settings.renew_seconds == 5.0


def test_the_process_environment_is_not_consulted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERNIGHT_RUNNER_LEASE_SECONDS", "99")

    assert load_settings(RunnerSettings, {}).lease_seconds == 15.0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("LEASE_SECONDS", "abc", "input should be a valid number, not 'abc'"),
        ("LEASE_SECONDS", "-1", "input should be greater than 0, not -1.0"),
        ("LEASE_SECONDS", "true", "input should be a valid number, not true"),
        ("METRICS_PORT", "70000", "input should be less than or equal to 65535, not 70000"),
        ("METRICS_PORT", "1.5", "input should be a valid integer, not 1.5"),
    ],
)
def test_a_bad_variable_is_one_line_that_names_it(name: str, value: str, message: str) -> None:
    variable = f"OVERNIGHT_RUNNER_{name}"
    with pytest.raises(ConfigError) as caught:
        load_settings(RunnerSettings, {variable: value})

    assert str(caught.value) == f"{variable}: {message}"


def test_an_unknown_setting_is_named_with_the_closest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(RunnerSettings, {"OVERNIGHT_RUNNER_LEASE_SECOND": "1"})
    assert str(caught.value) == (
        "OVERNIGHT_RUNNER_LEASE_SECOND is not a known setting: did you mean lease_seconds?"
    )

    (tmp_path / "recorder.yaml").write_text("poll_seconds: 1\npol_seconds: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(RecorderSettings, {"OVERNIGHT_CONFIG": str(tmp_path)})
    assert str(caught.value) == (
        "recorder.yaml:2: pol_seconds is not a known setting: did you mean poll_seconds?"
    )


def test_a_lease_that_is_renewed_too_late_is_refused() -> None:
    with pytest.raises(ConfigError, match="renew_seconds must be at most half of lease_seconds"):
        load_settings(RunnerSettings, {"OVERNIGHT_RUNNER_RENEW_SECONDS": "10"})


def test_a_config_folder_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^OVERNIGHT_CONFIG: /none/such is not a folder$"):
        load_settings(RecorderSettings, {"OVERNIGHT_CONFIG": "/none/such"})
