"""The environment that a candidate is given: an allow-list, never what happens to be set here."""

from __future__ import annotations

from collections.abc import Mapping

from overnight.contracts.loop import LoopConfig

_DEFAULTS = {
    "HF_HUB_OFFLINE": "1",  # there is no network: fail at once instead of after retries
    "WANDB_MODE": "offline",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",  # a killed candidate's last lines must be in its log
    "PYTHONDONTWRITEBYTECODE": "1",
}


def candidate_env(config: LoopConfig, environ: Mapping[str, str], seed: int) -> dict[str, str]:
    """All variables of one candidate beside HOME, PATH and TMPDIR, which the sandbox sets.

    What `env` names wins over `pass_env`, which wins over our defaults. A name of `pass_env`
    that is not set in *environ* is left out.
    """
    passed = {name: environ[name] for name in config.pass_env if name in environ}
    ours = {
        "OVERNIGHT_SEED": str(seed),
        "OVERNIGHT_GATE": config.gate.value,
        "OVERNIGHT_BUDGET": _number(config.budget),
    }
    return _DEFAULTS | passed | config.env | ours


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
