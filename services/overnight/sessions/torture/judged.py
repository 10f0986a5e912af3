"""The policy a second time: is each decision what the rows say? Part of the checker.

As `recount.py`, which loads it, it imports the standard library and nothing of Overnight, and says
in its own words what docs/policy.md promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
NEVER_FINAL = ("infra", "cancelled")


@dataclass
class _Night:
    """What is known by now."""

    config: Row = field(default_factory=dict)
    version: int = 1
    proposed: dict[int, Row] = field(default_factory=dict)
    final: dict[int, tuple[int, Row]] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)  #: by a person, or since nobody answered
    resumed: list[int] = field(default_factory=list)  #: somebody had seen to it by then
    kept: list[int] = field(default_factory=list)
    decided: dict[int, Row] = field(default_factory=dict)

    @property
    def smaller(self) -> bool:
        """Is a smaller metric better?"""
        return bool(self.config["metric"]["direction"] == "minimize")

    def metric(self, number: int) -> float:
        """Its metric, turned so that less is better."""
        return float(self.final[number][1]["metric"]) * (1 if self.smaller else -1)


def problems(rows: list[Row]) -> Iterator[str]:
    """What is wrong with the decisions, each against all rows before it."""
    night = _Night()
    for row in rows:
        kind, body = row["kind"], row["body"]
        if kind == "session_opened":
            night.config, night.version = body["config"], body.get("policy_version", 1)
        elif kind == "proposed":
            night.proposed[body["id"]] = body
        elif kind == "control" and body["action"] == "reject":
            night.refused.add(body["id"])
        elif kind == "control" and body["action"] == "resume":
            night.resumed.append(row["seq"])
        elif kind == "result" and _is_final(body):
            night.final.setdefault(body["id"], (row["seq"], body))
        elif kind == "decision" and body["id"] in night.proposed:
            try:
                yield from _decision(night, row)
            except (KeyError, IndexError, TypeError) as error:  # a row before it is not there
                yield f"decision on experiment {body['id']} can't be judged: {error!r}"


def _is_final(result: Row) -> bool:
    return result["status"] not in NEVER_FINAL or result["reason"] == "gave_up"


def _decision(night: _Night, row: Row) -> Iterator[str]:
    body, number = row["body"], row["body"]["id"]
    name = f"decision on experiment {number}"
    best = night.kept[-1] if night.kept else None
    if night.proposed[number]["rejection"] is not None or number in night.refused:
        verdict = "rejected"
    elif number not in night.final:
        yield f"{name} came without a final result"
        return
    else:
        seq, result = night.final[number]
        if seq not in body["rests_on"] or max(body["rests_on"]) >= row["seq"]:
            yield f"{name} does not rest on its result (row {seq})"
        verdict = _verdict(night, number, result)
    after = number if verdict == "keep" else best
    if body["incumbent_before"] != best:
        yield f"{name} forgot the incumbent {best}"
    if body["verdict"] != verdict or body["incumbent_after"] != after:
        yield f"{name} says {body['verdict']}, the rows say {verdict}"
    earlier = night.decided.get(number, {}).get("reason", "gave_up")
    if number in night.decided and body["reason"] != "environment" and earlier != "gave_up":
        yield f"{name} replaces another for no reason"
    night.decided[number] = body
    if verdict == "keep":
        night.kept.append(number)


def _verdict(night: _Night, number: int, result: Row) -> str:
    own = night.proposed[number]
    if night.version > 1 and _not_its_fault(night, own, result):
        return "infra"
    if result["status"] != "scored":
        return str(result["status"])
    if own.get("role") == "replicate":
        return "discard"
    worthy = night.version == 1 or not _breaks_a_bound(night.config, result)
    if number == 1:
        return "keep" if worthy else "discard"
    parent = night.proposed.get(own["parent"], {})
    if parent.get("tree_digest") == own["tree_digest"] or not worthy:
        return "discard"
    return "keep" if _better(night, own, night.metric(number)) else "discard"


def _breaks_a_bound(config: Row, result: Row) -> bool:
    for bound in config["constraints"]:
        value = result["measures"].get(bound["name"])
        if value is None or not (
            (bound["min"] is None or value >= bound["min"])
            and (bound["max"] is None or value <= bound["max"])
        ):
            return True
    most, peak = config["policy"]["limits"]["vram_gb"], result["peak_vram_mb"]
    if most is not None and (peak is None or peak > most * 1024):
        return True
    return result["guard"] == "failed" and config["guard"] is not None


def _better(night: _Night, own: Row, metric: float) -> bool:
    best = night.kept[-1]
    gain = night.metric(best) - metric
    if night.version == 1:
        return gain > 0
    guarded = night.config["guard"] is None or night.final[own["id"]][1]["guard"] == "passed"
    rules, scale = night.config["policy"]["simplicity"], abs(night.metric(1))
    sizes = own["code_lines"], night.proposed[best]["code_lines"]
    known = None not in sizes
    more = sizes[0] - sizes[1] if known else own["lines_added"] - own["lines_removed"]
    if gain > 0:
        return bool(guarded and gain > 1.05 * rules["per_line"] * scale * max(0, more))
    epsilon = rules["tie_epsilon"]
    if epsilon == "auto":
        epsilon = 10 * rules["per_line"] * scale
    close = metric <= min(night.metric(number) for number in night.kept) + epsilon
    return bool(guarded and known and more <= -5 and close)


def _not_its_fault(night: _Night, own: Row, result: Row) -> bool:
    """Did the best fail as well when it was run again because of crashes like this one?"""
    if own.get("role") == "replicate":
        return result["status"] in ("crash", "timeout")
    if result["status"] != "crash":
        return False
    for number, again in night.proposed.items():
        if again["role"] != "replicate" or number not in night.final:
            continue
        failed = night.final[number][1]["status"] in ("crash", "timeout")
        if failed and again["details"].get("signature") == result["signature"]:
            first = night.final[min(again["details"]["checks"])][0]
            mended = [seq for seq in night.resumed if seq > night.final[number][0]]
            if first <= night.final[own["id"]][0] < min(mended, default=float("inf")):
                return True
    return False
