"""Configuration: the only room that reads environment variables and YAML."""

from overnight.configuration.candidate import candidate_env
from overnight.configuration.command import split_command
from overnight.configuration.digests import changed_track_keys, config_digest, track_digest
from overnight.configuration.interpreter import (
    ResolvedCommand,
    resolve_command,
    resolve_python,
)
from overnight.configuration.keys import did_you_mean, direction_by_name
from overnight.configuration.layers import LOOP_FILE
from overnight.configuration.loop import ResolvedLoop, resolve_loop
from overnight.configuration.places import (
    RedisCandidate,
    device_lock_dir,
    engine_address,
    process_environ,
    redis_candidates,
    redis_source,
    socket_dir,
    spawner_socket,
    state_dir,
)
from overnight.configuration.program_file import PROGRAM_FILE, program_of
from overnight.configuration.redis_login import RedisLogin, redis_login
from overnight.configuration.settings import (
    OrchestratorSettings,
    RecorderSettings,
    RunnerSettings,
    ServiceSettings,
    SpawnerSettings,
    SupervisorSettings,
    load_settings,
)
from overnight.configuration.yaml_file import load_yaml

__all__ = [
    "LOOP_FILE",
    "PROGRAM_FILE",
    "OrchestratorSettings",
    "RecorderSettings",
    "RedisCandidate",
    "RedisLogin",
    "ResolvedCommand",
    "ResolvedLoop",
    "RunnerSettings",
    "ServiceSettings",
    "SpawnerSettings",
    "SupervisorSettings",
    "candidate_env",
    "changed_track_keys",
    "config_digest",
    "device_lock_dir",
    "did_you_mean",
    "direction_by_name",
    "engine_address",
    "load_settings",
    "load_yaml",
    "process_environ",
    "program_of",
    "redis_candidates",
    "redis_login",
    "redis_source",
    "resolve_command",
    "resolve_loop",
    "resolve_python",
    "socket_dir",
    "spawner_socket",
    "split_command",
    "state_dir",
    "track_digest",
]
