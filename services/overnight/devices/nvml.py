"""NVML, and the one place that talks to it: answers as values, its errors as two of ours.

Not run on a GPU: tests give a stand-in for the module `pynvml` (`tests/fake_nvml/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from overnight.contracts.errors import InfrastructureError

#: What NVML says of a card that nothing can be run on until it is reset or its host restarted.
#: UNKNOWN is among them: it is what drivers answer for a card that fell off the bus just now.
_LOST = (
    "NVML_ERROR_GPU_IS_LOST",
    "NVML_ERROR_RESET_REQUIRED",
    "NVML_ERROR_NOT_FOUND",
    "NVML_ERROR_GPU_NOT_FOUND",
    "NVML_ERROR_UNKNOWN",
)
WHOLE_CARD = 0xFFFFFFFF  #: an event's instance, where it means all of the card


class NvmlUnavailableError(InfrastructureError):
    """No driver, no library or no module: as far as we can see there is no NVIDIA GPU here."""


class DeviceLostError(InfrastructureError):
    """The card fell off the bus, vanished, or answers nothing until it is reset."""


def nvml_module() -> Any:
    """The module of the package nvidia-ml-py. Raises ImportError."""
    import pynvml

    return pynvml


class Nvml:
    """An open connection to the driver. Close it; any thread may use it."""

    def __init__(self, load: Callable[[], Any] = nvml_module) -> None:
        """Raises NvmlUnavailableError."""
        try:
            self._nvml = load()
        except ImportError as error:
            raise NvmlUnavailableError("the package nvidia-ml-py is not installed") from error
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise NvmlUnavailableError(f"NVML: {error}") from error

    def close(self) -> None:
        """Let go of the driver."""
        with _quiet(self._nvml):
            self._nvml.nvmlShutdown()

    @contextmanager
    def asking(self, uuid: str) -> Iterator[Any]:
        """Ask something of one device.

        Raises:
            DeviceLostError: it is lost, or there is none of that name any more.
            InfrastructureError: NVML refused for another reason.
        """
        try:
            yield self._nvml
        except self._nvml.NVMLError as error:
            if self.is_one_of(error, *_LOST):
                raise DeviceLostError(f"{uuid}: NVML says: {error}") from error
            raise InfrastructureError(f"{uuid}: NVML says: {error}") from error

    @property
    def module(self) -> Any:
        """For a call whose refusal means something to the caller."""
        return self._nvml

    def is_one_of(self, error: Exception, *names: str) -> bool:
        """Is *error* one of these NVML_ERROR_...? An older module may not know them all."""
        value = getattr(error, "value", None)
        return any(value == getattr(self._nvml, name, object()) for name in names)

    def handle(self, uuid: str) -> Any:
        """Of a card or a MIG instance. Raises as `asking`."""
        with self.asking(uuid) as nvml:
            return nvml.nvmlDeviceGetHandleByUUID(uuid)

    def maybe(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Its answer; None where this card or driver can't say."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None


@contextmanager
def _quiet(nvml: Any) -> Iterator[None]:
    try:
        yield
    except nvml.NVMLError:
        return


def text_of(value: str | bytes) -> str:
    """Older releases of the module answer in bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
