"""Faults of the one write path: garbage, forgeries, repeats and late results in `ledger.in`."""

from __future__ import annotations

import json
import random
from typing import Any

from overnight.jobqueue import keys
from overnight.jobqueue.connection import edge
from overnight.sessions.torture.victim import MissedError, Victim


def send_garbage(victim: Victim, rng: random.Random) -> str:
    """Entries that no recorder can read."""
    word = victim.forged
    kind, fields = rng.choice((
        ("random bytes", {rng.randbytes(8): rng.randbytes(200)}),
        ("no message", {"key": f"{word}:1"}),
        ("no JSON", {"key": f"{word}:2", "message": '{"key": ' * 50}),
        ("not a number", {"key": f"{word}:3", "message": f'{{"key":"{word}:3","body":NaN}}'}),
        ("deep JSON", {"key": f"{word}:4", "message": "[" * 50_000}),
        ("a long message", {"key": f"{word}:5", "message": json.dumps([word] * 20_000)}),
        ("a foreign key", {"key": "decision:1:1", "message": _message(f"{word}:6", "control", {})}),
        ("an escape as key", {"key": f"{word}\x1b[2J\n", "message": "{}"}),
    ))  # fmt: skip
    _add(victim, fields)
    return f"{kind} sent to the ledger"


def send_forgery(victim: Victim, rng: random.Random) -> str:
    """Messages that are well-formed, and not allowed."""
    word = victim.forged
    number = rng.randint(10**6, 10**7)
    late = {"id": 1, "attempt": 900, "sender": word, "status": "scored", "metric": 1e-9}
    unknown = {**late, "id": number, "attempt": 1}
    verdict = {"id": 1, "verdict": "discard", "reason": None, "incumbent_before": 1,
               "incumbent_after": number, "rests_on": [1], "basis_seq": 1}  # fmt: skip
    proposed = {"id": number, "role": "candidate", "parent": 1, "commit": "0" * 40,
                "tree_digest": "0" * 64, "branch": "x", "hypothesis": word, "proposer": word,
                "seen_seq": 1}  # fmt: skip
    kind, key, row, body, epoch = rng.choice((
        ("a result of no attempt", f"result:1:900:{word}", "result", late, None),
        ("a result of nothing", f"result:{number}:1:{word}", "result", unknown, None),
        ("a result under another's key", "result:1:1:r0", "result", unknown, None),
        ("a superseded row", f"result:1:1:{word}", "superseded", {**late, "attempt": 1}, None),
        ("a decision of an old epoch", f"decision:1:{number}", "decision", verdict, 0),
        ("a decision without epoch", "decision:1:2", "decision", verdict, None),
        ("a proposal of the future", f"proposed:{number}", "proposed", proposed, 10**6),
        ("an opening of the future", f"open:{number}", "session_opened", {"tag": word}, number),
        ("a closing of an old epoch", f"{word}:closed", "session_closed",
         {"outcome": "done", "detail": word}, 0),
        ("a repair", f"{word}:repair", "repaired",
         {"quarantine": word, "lines": 1, "reason": word}, None),
        ("a wish of nobody", f"{word}:wish", "control", {"action": "explode", "by": word}, None),
    ))  # fmt: skip
    _add(victim, {"key": key, "message": _message(key, row, body, epoch)})
    return f"{kind} forged"


def send_late_result(victim: Victim, rng: random.Random) -> str:
    """A second result of an attempt that has one: it may become a `superseded` row, no more."""
    row = rng.choice([row for row in _rows(victim) if row["kind"] == "result"])
    sender = f"late{rng.randrange(10**6)}"
    body = {**row["body"], "sender": sender, "status": "scored", "reason": None, "metric": 1e-6}
    key = f"result:{body['id']}:{body['attempt']}:{sender}"
    _add(victim, {"key": key, "message": _message(key, "result", body)})
    return f"a late result of {body['id']}, attempt {body['attempt']}"


def send_again(victim: Victim, rng: random.Random) -> str:
    """A message that became a row long ago, as it was or with another body."""
    row = rng.choice(_rows(victim))
    body: dict[str, Any] = row["body"] if rng.random() < 0.5 else {"again": victim.forged}
    kind = "result" if row["kind"] == "superseded" else row["kind"]
    key = row["key"]
    for _ in range(rng.randint(1, 3)):
        _add(victim, {"key": key, "message": _message(key, kind, body, body.get("epoch"))})
    return f"{row['kind']} sent again"


def _rows(victim: Victim) -> list[dict[str, Any]]:
    """The newest rows, as far as they can be read."""
    rows = []
    with victim.files.ledger.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - 200_000))
        for line in file.read().split(b"\n")[1:-1]:
            rows.append(json.loads(line))
    if not any(row["kind"] == "result" for row in rows):
        raise MissedError("nothing has ended yet")
    return rows


def _message(key: str, kind: str, body: dict[str, Any], epoch: int | None = None) -> str:
    message = {"key": key, "kind": kind, "body": body, "epoch": epoch}
    return json.dumps(message, sort_keys=True, separators=(",", ":"))


def _add(victim: Victim, fields: dict[Any, Any]) -> None:
    client = victim.redis()
    with edge("torture, sending"), client:
        client.xadd(keys.ledger_in(victim.sid), fields)
