"""The key `image`: what a container is made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overnight.configuration import paths
from overnight.configuration.yaml_file import shown
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import ImageBuild, LoopConfig

DOCKERFILE = "Dockerfile"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_CONTAINER = "pools: {default: {executor: docker}}, or --executor docker"


def plain(value: Any, where: str) -> Any:
    """The value of `image` in its one form. Raises ConfigError."""
    if value is None:
        return None
    if isinstance(value, dict) and set(value) == {"build"} and isinstance(value["build"], str):
        return value
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ConfigError(f"{where}: must be an image's name, or {{build: DIR}}, not {shown(value)}")


def check(config: LoopConfig, repo: Path, where: Callable[[str], str]) -> None:
    """An image is a container's; a build's folder has a Dockerfile.

    Raises:
        ConfigError: one line that names the key and the fix.
    """
    if not config.in_container and config.image is not None:
        raise ConfigError(f"{where('image')}: only a container has one: {_CONTAINER}")
    if isinstance(config.image, ImageBuild):
        folder = paths.folder_of(repo, config.image.build, f"{where('image')}.build")
        dockerfile = str((folder / DOCKERFILE).relative_to(repo))
        if dockerfile in config.editable_files:
            raise ConfigError(
                f"{where('editable_files')}: {dockerfile} makes the image that candidates run in"
            )
        if not (folder / DOCKERFILE).is_file():
            raise ConfigError(
                f"{where('image')}.build: no {DOCKERFILE} in {folder}: name the folder that has it"
            )
