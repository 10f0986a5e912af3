"""A report as one JSON value: the four points, and with them all that `--full` shows. Pure."""

from __future__ import annotations

from typing import Any

from overnight.contracts.status import Status
from overnight.sessions.report import figures
from overnight.sessions.report.entries import Entry, Facts
from overnight.sessions.report.gains import gains, noise_words
from overnight.sessions.report.knobs import Knob, knobs
from overnight.sessions.report.patterns import patterns
from overnight.sessions.report.points import Group, outcome, points, tried
from overnight.sessions.report.research import Research

POINT_KEYS = ("best_improvement", "repeated_failures", "add_to_tried", "next_family")
TOP = 10
SHOWN_GROUPS, SHOWN_VALUES = 60, 8


def four_points(facts: Facts) -> dict[str, Any]:
    """The object of `report --json`."""
    best, baseline = facts.best, facts.baseline
    return {
        "tag": facts.tag,
        "state": facts.state,
        "metric": facts.metric.name,
        "direction": facts.metric.direction.value,
        "ideas": len(facts.ideas),
        "baseline": baseline.metric if baseline else None,
        "best": {"id": best.id, "metric": best.metric} if best else None,
        "points": dict(zip(POINT_KEYS, points(facts), strict=True)),
    }


def whole(facts: Facts, found: Research) -> dict[str, Any]:
    """The object of `report --full --json`."""
    return {
        **four_points(facts),
        "research": {
            "configuration": [
                {"name": name, "best": now, "baseline": then}
                for name, now, then in found.configuration
            ],
            "learned": found.learned,
            "next": found.next,
            "why": found.why,
            "confidence": found.confidence,
            "reasons": found.reasons,
        },
        "kept": [
            {
                "id": gain.entry.id,
                "what": figures.what(gain.entry, 200),
                "metric": gain.entry.metric,
                "gain": gain.gain,
                "standing": gain.standing.value,
                "jump": gain.jump,
                "in_best": gain.entry.id in facts.path,
                "words": gain.words,
            }
            for gain in gains(facts)
        ],
        "counts": dict(facts.counts),
        "failures": [
            {"cause": p.cause, "count": p.count, "example": p.example, "shared": p.shared}
            for p in patterns(facts)
        ],
        "knobs": [_knob(knob) for knob in knobs(facts).values()],
        "tried": [_group(group) for group in tried(facts)],
        "noise": None if facts.noise is None else {"sigma": facts.noise[0], "runs": facts.noise[1]},
        "noise_words": noise_words(facts),
        **places(facts),
    }


def top_kept(facts: Facts, limit: int = TOP) -> list[Entry]:
    """Kept ideas, the best metric first."""
    kept = [e for e in facts.entries if e.status is Status.KEEP and e.metric is not None]
    minimize = facts.gain(0.0, 1.0) != 1.0
    return sorted(kept, key=lambda e: (e.metric or 0.0) * (1 if minimize else -1))[:limit]


def places(facts: Facts) -> dict[str, Any]:
    """On what it ran, and how far apart from the host."""
    peaks = [e.peak_vram_mb for e in facts.entries if e.peak_vram_mb is not None]
    return {
        "hardware": sorted({e.hardware for e in facts.entries if e.hardware}),
        "isolation": sorted({e.isolation for e in facts.entries if e.isolation}),
        "peak_vram_mb": max(peaks, default=None),
        "runtime_s": sum(e.runtime_s for e in facts.entries if e.runtime_s is not None),
    }


def _knob(knob: Knob) -> dict[str, Any]:
    best = knob.best
    return {
        "name": knob.name,
        "best_value": knob.here,
        "values": knob.values[:50],
        "trials": len(knob.trials),
        "alone": len(knob.alone),
        "kept": knob.kept,
        "failed": len(knob.failed),
        "best_gain": best.entry.gain if best else None,
        "best_id": best.entry.id if best else None,
    }


def _group(group: Group) -> dict[str, Any]:
    failed = group.of(Status.CRASH, Status.TIMEOUT)
    return {
        "group": group.name,
        "tried": len(group.entries),
        "kept": len(group.of(Status.KEEP)),
        "failed": len(failed),
        "discarded": len(group.entries) - len(group.of(Status.KEEP)) - len(failed),
        "examples": [values_tried(entry) for entry in group.entries[:SHOWN_VALUES]],
    }


def values_tried(entry: Entry) -> str:
    """`0.003 kept, better by 0.08 (002)` of an idea, for the list of what was tried."""
    told = figures.what(entry, 80)
    word = "kept, " if entry.status is Status.KEEP else ""
    return f"{told}: {word}{outcome(entry)} ({entry.id:03d})"
