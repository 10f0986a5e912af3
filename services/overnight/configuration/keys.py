"""The keys of loop.run.yaml: which exist, which must still stay off, and their short forms.

Turns one layer (file, track, environment, flags) into leaves: key path -> plain value.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from overnight.configuration import image, measures
from overnight.configuration.yaml_file import KeyPath, dotted, shown
from overnight.contracts.errors import ConfigError
from overnight.contracts.loop import (
    Confirm,
    LoopConfig,
    MetricSpec,
    Plausible,
    Policy,
    Pool,
    ProposerSpec,
)

#: What may describe a track.yaml beside the loop's own keys; the loop ignores it.
TRACK_ONLY = frozenset(
    {"name", "title", "description", "licence", "license", "data", "harness", "recorded"}
)

#: Keys whose feature does not exist in this version -> the values that mean "off".
UNBUILT: dict[KeyPath, tuple[object, ...]] = {
    ("scoring",): ("printed",),
}

#: Keys that exist with one value only until their feature does.
ONLY: dict[KeyPath, tuple[object, ...]] = {
    ("policy", "confirm", "runs"): (0,),
}
_LATER_NAMES: dict[KeyPath, frozenset[str]] = {
    ("proposer", "name"): frozenset({"inbox", "llm", "agent", "mix"}),
    ("pools", "default", "executor"): frozenset({"kubernetes"}),
}

#: Measures whose name alone says which way is better, by a word of the name.
LOWER_WORDS = frozenset({"bpb", "bpc", "loss", "error", "err", "perplexity", "ppl", "mse", "rmse"})
LOWER_WORDS |= {"mae", "nll", "wer", "cer", "fid", "crossentropy"}
HIGHER_WORDS = frozenset({"accuracy", "acc", "f1", "auc", "auroc", "bleu", "rouge", "iou", "miou"})
HIGHER_WORDS |= {"dice", "ndcg", "mrr", "psnr", "ssim", "reward"}


def direction_by_name(metric: str) -> str | None:
    """minimize or maximize where the metric's name is evidence for it, else None."""
    for mark in "/.-@":
        metric = metric.replace(mark, "_")
    words = set(metric.lower().split("_"))
    lower, higher = bool(words & LOWER_WORDS), bool(words & HIGHER_WORDS)
    if lower == higher:
        return None
    return "minimize" if lower else "maximize"


def _level(model: type[Any], path: KeyPath) -> frozenset[str]:
    depth = len(path)
    later = {str(key[depth]) for key in UNBUILT if key[:depth] == path}
    return frozenset(model.model_fields) | later


#: Mappings with a closed set of keys. `*` stands for any name.
SECTIONS: dict[KeyPath, frozenset[str]] = {
    (): _level(LoopConfig, ()) | {"entrypoint"},
    ("metric",): _level(MetricSpec, ("metric",)),
    ("plausible",): _level(Plausible, ("plausible",)),
    ("policy",): _level(Policy, ("policy",)),
    ("policy", "confirm"): _level(Confirm, ("policy", "confirm")),
    ("policy", "simplicity"): frozenset({"per_line", "tie_epsilon"}),
    ("policy", "limits"): frozenset(
        {"experiments", "hours", "gpu_hours", "usd", "vram_gb", "per_experiment"}
    ),
    ("policy", "limits", "per_experiment"): frozenset({"gpu_hours", "usd"}),
    ("research",): frozenset({"question", "starting_hypothesis"}),
    ("pools", "*"): _level(Pool, ("pools", "*")),
}
_OPEN = frozenset({("env",), ("pools",), ("proposer",), ("proposer", "options")})
_NULL_IS_OFF = frozenset(
    {("research",), ("policy", "simplicity"), ("policy", "limits"), ("env",)}
    | {("policy", "limits", "per_experiment")}
)
_SCALAR_OR_LIST = frozenset({"editable_files", "reads", "pass_env"})
_PROPOSER_KEYS = frozenset(ProposerSpec.model_fields)


class Leaf(NamedTuple):
    """One value, where it came from, and how a message names it."""

    value: Any
    origin: str  #: e.g. "loop.run.yaml:7", "OVERNIGHT_BUDGET", "--budget"
    where: str  #: e.g. "loop.run.yaml:7: budget"


Leaves = dict[KeyPath, Leaf]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One source of values."""

    label: str  #: e.g. loop.run.yaml
    values: Mapping[str, Any]
    names: Mapping[KeyPath, str]  #: where each key stands, as `origin` shows it
    names_keys: bool  #: do the names already say which key it is?
    is_track: bool = False

    def origin(self, path: KeyPath) -> str:
        """Where *path*, or the closest key above it, stands."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.names:
                return self.names[path[:length]]
        return self.label

    def where(self, path: KeyPath) -> str:
        """How a message names *path*."""
        origin = self.origin(path)
        return origin if self.names_keys else f"{origin}: {dotted(path)}"


def leaves(layer: Layer) -> Leaves:
    """All values of *layer* in their long form, checked for unknown and unbuilt keys.

    Raises:
        ConfigError: one line that names the key as the user wrote it.
    """
    result: Leaves = {}
    _walk(layer, (), dict(layer.values), result)
    _check_unbuilt(result)
    return {path: leaf for path, leaf in result.items() if path not in UNBUILT}


def did_you_mean(name: str, known: frozenset[str] | set[str]) -> str:
    """The end of a message on an unknown name: the closest known one, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f": did you mean {close[0]}?" if close else ""


def _walk(layer: Layer, path: KeyPath, values: Mapping[str, Any], out: Leaves) -> None:
    for key, value in values.items():
        here = (*path, key)
        if not path and layer.is_track and key in TRACK_ONLY:
            continue
        _check_known(layer, path, key)
        expanded = _expand(layer, here, value)
        if isinstance(expanded, dict) and (_is_section(here) or here in _OPEN):
            if here == ("proposer",):
                expanded = _gather_options(layer, expanded)
            _walk(layer, here, expanded, out)
        elif _is_section(here) or here in _OPEN:
            if expanded is None and here in _NULL_IS_OFF:
                continue
            raise ConfigError(f"{layer.where(here)} must be a mapping, not {shown(value)}")
        else:
            target = ("run_cmd",) if here == ("entrypoint",) else here
            if target in out:
                raise ConfigError(f"{layer.where(here)} and run_cmd are the same key: keep one")
            out[target] = Leaf(expanded, layer.origin(here), layer.where(here))


def _check_known(layer: Layer, path: KeyPath, key: str) -> None:
    if path in _OPEN:
        if path == ("pools",) and key != "default":
            where = layer.where((*path, key))
            raise ConfigError(f"{where} is not in this version (only: default)")
        return
    known = SECTIONS[_generic(path)]
    if key not in known:
        hint = did_you_mean(key, known)
        raise ConfigError(f"{layer.where((*path, key))} is not a known key{hint}")
    if key == "plausible" and not path and layer.label == "loop.run.yaml":
        raise ConfigError(f"{layer.where(('plausible',))} can be set by a track.yaml only")


def _generic(path: KeyPath) -> KeyPath:
    return ("pools", "*") if path[:1] == ("pools",) and len(path) == 2 else path


def _is_section(path: KeyPath) -> bool:
    return bool(path) and _generic(path) in SECTIONS


def _expand(layer: Layer, path: KeyPath, value: Any) -> Any:
    """Short forms to long ones."""
    if path == ("metric",) and isinstance(value, str):
        return _short_metric(layer, value)
    if path == ("proposer",) and isinstance(value, str):
        return {"name": value}
    if path == ("policy", "approval") and value is None:
        return "none"
    if path in {("run_cmd",), ("entrypoint",), ("guard",), ("prepare",)}:
        return measures.command(value, layer.where(path))
    if path == ("image",):
        return image.plain(value, layer.where(path))
    if path == ("metric", "source"):
        return measures.metric_source(value, layer.where(path))
    if path == ("constraints",):
        return measures.constraints(value, layer.where(path))
    if len(path) == 1 and path[0] in _SCALAR_OR_LIST and isinstance(value, str):
        return [value]
    if path == ("frozen_files",) and isinstance(value, str) and value != "auto":
        return [value]
    return value


def _short_metric(layer: Layer, name: str) -> dict[str, str]:
    if direction_by_name(name) == "maximize":
        raise ConfigError(
            f"{layer.where(('metric',))}: {name} reads as higher is better, the short form means "
            f"lower: write metric: {{name: {name}, direction: maximize}} (or minimize)"
        )
    return {"name": name, "direction": "minimize"}


def _gather_options(layer: Layer, spec: Mapping[str, Any]) -> dict[str, Any]:
    """`proposer: {name, anything}` = `{name, options: {anything}}`."""
    options = spec.get("options", {})
    if not isinstance(options, dict):
        where = layer.where(("proposer", "options"))
        raise ConfigError(f"{where} must be a mapping, not {shown(options)}")
    loose = {key: value for key, value in spec.items() if key not in _PROPOSER_KEYS}
    twice = sorted(set(loose) & set(options))
    if twice:
        raise ConfigError(f"{layer.where(('proposer', twice[0]))} stands twice")
    named = {"name": spec["name"]} if "name" in spec else {}
    return named | {"options": options | loose}


def _check_unbuilt(found: Leaves) -> None:
    for path, (value, _, where) in found.items():
        allowed = UNBUILT.get(path) or ONLY.get(path)
        if allowed is not None and not _is_one_of(value, allowed):
            if path == ("policy", "confirm", "runs") and (
                not isinstance(value, int) or isinstance(value, bool) or value < 0
            ):
                continue  # not even a number of runs: the contract says so better
            off = "null" if allowed[0] is None else str(allowed[0]).lower()
            raise ConfigError(f"{where}: {shown(value)} is not in this version (only: {off})")
        if isinstance(value, str) and value in _LATER_NAMES.get(path, ()):
            raise ConfigError(f"{where}: {value} is not in this version")


def _is_one_of(value: object, allowed: tuple[object, ...]) -> bool:
    # True == 1 in Python, but `gpus: true` is not `gpus: 1`.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)
