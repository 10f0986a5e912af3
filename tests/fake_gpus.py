"""Writes the file that the stand-in for NVML reads: cards, MIG, processes, memory, Xid, errors."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "fake_nvml"
LOST, UNKNOWN, NOT_SUPPORTED, NO_PERMISSION = 15, 999, 3, 4


def uuid(number: int) -> str:
    """Of the *number*-th card."""
    return f"GPU-{number:08x}-0000-4000-8000-{number:012x}"


class FakeGpus:
    """One host's cards. Every change is on the disk, whole, when it returns."""

    def __init__(self, path: Path, cards: int = 0) -> None:
        self.path = path
        self.host: dict[str, Any] = {"cards": [], "events": []}
        for number in range(cards):
            self.add(number)
        self.save()

    def add(self, number: int, name: str = "NVIDIA H100 80GB HBM3", **more: Any) -> str:
        """One more card."""
        card = {"uuid": uuid(number), "name": name, "minor": number, "memory_mb": 81559,
                "used_mb": 4, "processes": [], "graphics": [], **more}  # fmt: skip
        self.host["cards"].append(card)
        self.save()
        return uuid(number)

    def instance(self, number: int, place: int, gi: int, ci: int = 0) -> dict[str, Any]:
        """One MIG instance, for `add(..., mig=[...])`."""
        return {"uuid": f"MIG-{number}-{gi}-{ci}", "name": "NVIDIA H100 MIG 1g.10gb",
                "place": place, "gi": gi, "ci": ci, "memory_mb": 9728, "used_mb": 2,
                "processes": [], "graphics": []}  # fmt: skip

    def change(self, uuid: str, **changes: Any) -> None:
        """E.g. processes=[7], used_mb=9000, errors={"*": LOST}."""
        for card in self.host["cards"]:
            for device in (card, *(card.get("mig") or ())) if card else ():
                if device["uuid"] == uuid:
                    device.update(changes)
        self.save()

    def vanish(self, uuid: str) -> None:
        """It is listed no more; the ones behind it move up."""
        self.host["cards"] = [c for c in self.host["cards"] if c is None or c["uuid"] != uuid]
        self.save()

    def xid(self, uuid: str, number: int, **where: int) -> None:
        """The driver tells an event."""
        self.host["events"].append({"uuid": uuid, "xid": number, **where})
        self.save()

    def save(self) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(self.host, indent=1))
        os.replace(beside, self.path)

    def environ(self, inherited: dict[str, str]) -> dict[str, str]:
        """For a process that is to see these cards."""
        paths = [str(FOLDER), inherited.get("PYTHONPATH", "")]
        joined = os.pathsep.join(path for path in paths if path)
        return {**inherited, "PYTHONPATH": joined, "FAKE_NVML": str(self.path)}

    def load(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        """The stand-in, for this process."""
        monkeypatch.setenv("FAKE_NVML", str(self.path))
        spec = importlib.util.spec_from_file_location("fake_pynvml", FOLDER / "pynvml.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
