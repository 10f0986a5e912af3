"""The checker: recounts a session that is over from the bytes that it left.

    python -I recount.py SESSION_DIR [--forged WORD]... [--canary PATH]...

Prints one JSON object; exit 0 when all is right, 1 when not. It imports the standard library and
nothing of Overnight: what the protocol promises is written down here a second time, in the
checker's own words, so that a fault of the product can't hide in a rule that both share. What is
left running is counted by `leftovers.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import runpy
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
LOST, DOUBLED, PROBLEMS = "lost", "doubled", "problems"
NEVER_FINAL = ("infra", "cancelled")
NO_TSV_LINE = ("rejected", "infra", "cancelled")
ROW_FIELDS = {"v", "seq", "ts", "session", "kind", "key", "body", "prev", "hash"}
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_RUN_LOG = re.compile(r"run(?:\.(\d+))?\.log")


class Finding(NamedTuple):
    """One thing that is not as promised."""

    kind: str  #: one of the three above
    what: str


@dataclass
class Recount:
    """All that was found."""

    findings: list[Finding] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Counts, and the findings by kind."""
        kinds = Counter(row["kind"] for row in self.rows)
        by_kind = {kind: [f.what for f in self.findings if f.kind == kind]
                   for kind in (LOST, DOUBLED, PROBLEMS)}  # fmt: skip
        decisions = [row["body"] for row in self.rows if row["kind"] == "decision"]
        return {
            "ok": not self.findings,
            "rows": len(self.rows),
            "experiments": kinds["proposed"],
            "attempts": kinds["attempt_issued"],
            "superseded": kinds["superseded"],
            "verdicts": dict(Counter(_verdict(body) for body in decisions).most_common()),
            **by_kind,
        }


def _verdict(body: Row) -> str:
    return ":".join(filter(None, (body["verdict"], body["reason"])))


def recount(root: Path, forged: Sequence[str] = (), canaries: Sequence[str] = ()) -> Recount:
    """Everything about the session in *root*, which must be over.

    forged: words of forged messages, which no row may hold.
    canaries: files that only code out of a queue would have made.
    """
    rows, findings = read_ledger(root)
    try:
        findings += check_rows(rows)
        findings += check_files(root, rows)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        findings.append(Finding(PROBLEMS, f"the rows can't be counted: {error!r}"))
    texts = [canonical(row) for row in rows]
    findings += [Finding(PROBLEMS, f"the ledger took a forged message ({word})")
                 for word in forged if any(word in text for text in texts)]  # fmt: skip
    findings += [Finding(PROBLEMS, f"code from the queue was run: {path} is there")
                 for path in canaries if os.path.lexists(path)]  # fmt: skip
    return Recount(findings, rows)


# -- the chain --------------------------------------------------------------------------------


def canonical(value: object) -> str:
    """Sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def row_hash(row: Row) -> str:
    """sha256(prev + canonical JSON of the row without hash)."""
    plain = {name: value for name, value in row.items() if name != "hash"}
    return hashlib.sha256((row["prev"] + canonical(plain)).encode()).hexdigest()


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and set(row) == ROW_FIELDS and all(
        isinstance(row[name], str) for name in ROW_FIELDS - {"v", "seq", "body"}
    )  # fmt: skip


def read_ledger(root: Path) -> tuple[list[Row], list[Finding]]:
    """All rows up to the first that is none, and what is wrong with chain and head."""
    rows: list[Row] = []
    findings: list[Finding] = []

    def bad(what: str) -> None:
        findings.append(Finding(PROBLEMS, what))

    try:
        *lines, tail = (root / "ledger.jsonl").read_bytes().split(b"\n")
        head = json.loads((root / "ledger.head").read_text())
    except (OSError, ValueError, RecursionError) as error:
        return [], [Finding(PROBLEMS, f"no row can be read: {error}")]
    if tail:
        bad("the last row is torn")
    prev = "0" * 64
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            fits = _is_row(row) and row["hash"] == row_hash(row) and canonical(row).encode() == line
        except (ValueError, RecursionError):
            row = None
        if not _is_row(row):
            bad(f"row {number} is no row")
            break
        if row["seq"] != number:
            bad(f"row {number} has seq {row['seq']}")
        if row["prev"] != prev:
            bad(f"row {number} does not hang on the row before")
        if not fits:
            bad(f"row {number}: the hash does not fit")
        prev = row["hash"]
        rows.append(row)
    if head != {"seq": len(lines), "hash": prev}:
        bad(f"ledger.head names another row than the last one ({len(lines)})")
    for key, count in Counter(row["key"] for row in rows).items():
        if count > 1:
            bad(f"{count} rows have the key {key}")
    if len({row["session"] for row in rows}) > 1:
        bad("there are rows of two sessions")
    return rows, findings


# -- the protocol -----------------------------------------------------------------------------


def bodies(rows: list[Row], kind: str) -> list[Row]:
    """The bodies of all rows of a kind, in order."""
    return [row["body"] for row in rows if row["kind"] == kind]


def is_final(result: Row) -> bool:
    """Does this accepted result end its experiment?"""
    return result["status"] not in NEVER_FINAL or result["reason"] == "gave_up"


def standing(rows: list[Row]) -> list[Row]:
    """Without the final results and decisions that a requeue of the dead letter took back."""
    taken: set[int] = set()
    for row in rows:
        if row["kind"] == "control" and row["body"]["action"] == "requeue":
            taken |= {
                old["seq"]
                for old in rows[: row["seq"]]
                if old["kind"] in ("result", "decision")
                and old["body"]["id"] == row["body"]["id"]
                and old["body"]["reason"] == "gave_up"
            }
    return [row for row in rows if row["seq"] not in taken]


def finals(rows: list[Row]) -> dict[int, Row]:
    """Experiment -> body of its first final accepted result that stands."""
    found: dict[int, Row] = {}
    for body in bodies(standing(rows), "result"):
        if is_final(body):
            found.setdefault(body["id"], body)
    return found


def check_rows(rows: list[Row]) -> list[Finding]:
    """Each experiment ended once and was decided once, on evidence, by the rules."""
    return [*_counted(standing(rows)), *_attempts(rows), *_decisions(standing(rows))]


def _counted(rows: list[Row]) -> Iterator[Finding]:
    ids = [body["id"] for body in bodies(rows, "proposed")]
    rejected = {body["id"] for body in bodies(rows, "proposed") if body["rejection"] is not None}
    rejected |= {body["id"] for body in bodies(rows, "control") if body["action"] == "reject"}
    ended = Counter(body["id"] for body in bodies(rows, "result") if is_final(body))
    decided = Counter(body["id"] for body in _last_words(rows))
    for number in sorted({*range(1, max(ids, default=0) + 1), *ended, *decided} - set(ids)):
        yield Finding(LOST, f"experiment {number} was never proposed")
    for number, count in Counter(ids).items():
        if count > 1:
            yield Finding(DOUBLED, f"experiment {number} was proposed {count} times")
    for number in ids:
        if ended[number] == 0 and number not in rejected:
            yield Finding(LOST, f"experiment {number} has no final result")
        if ended[number] > 1 or (ended[number] and number in rejected):
            yield Finding(DOUBLED, f"experiment {number} has {ended[number]} final results")
        if decided[number] == 0:
            yield Finding(LOST, f"experiment {number} was not decided")
        if decided[number] > 1:
            yield Finding(DOUBLED, f"experiment {number} was decided {decided[number]} times")


def _last_words(rows: list[Row]) -> Iterator[Row]:
    """Decisions; the first of an experiment is replaced when the environment was to blame."""
    found = bodies(rows, "decision")
    blamed = {body["id"] for body in found if body["reason"] == "environment"}
    for body in found:
        if (
            body["reason"] == "environment"
            or body["id"] not in blamed
            or body["verdict"] != "crash"
        ):
            yield body


def _attempts(rows: list[Row]) -> Iterator[Finding]:
    """Issued one after the other, answered once each; what came late is accounted for."""
    issued: dict[int, list[int]] = {}
    answered: Counter[tuple[int, int]] = Counter()
    for row in rows:
        kind, body = row["kind"], row["body"]
        if kind not in ("attempt_issued", "result", "superseded"):
            continue
        number, attempt = body["id"], body["attempt"]
        known = issued.setdefault(number, [])
        name = f"attempt {attempt} of experiment {number}"
        if kind == "attempt_issued":
            if attempt != len(known) + 1 or any(not answered[(number, n)] for n in known):
                yield Finding(PROBLEMS, f"{name} was issued before the last one ended")
            known.append(attempt)
        elif attempt not in known:
            yield Finding(PROBLEMS, f"{name} has a {kind} but was never issued")
        elif kind == "superseded" and not answered[(number, attempt)]:
            yield Finding(PROBLEMS, f"{name}: superseded though nothing came before")
        elif kind == "result" and attempt != known[-1]:
            yield Finding(PROBLEMS, f"{name}: accepted though a newer attempt was issued")
        if kind == "result":
            answered[(number, attempt)] += 1
    for number, attempts in issued.items():
        for attempt in attempts:
            if answered[(number, attempt)] == 0:
                yield Finding(LOST, f"attempt {attempt} of experiment {number} has no result")
    for (number, attempt), count in answered.items():
        if count > 1:
            what = f"attempt {attempt} of experiment {number} has {count} accepted results"
            yield Finding(DOUBLED, what)


def _decisions(rows: list[Row]) -> Iterator[Finding]:
    """Each is what the policy's own words say, in the order of the decisions. `judged.py` lies
    beside this file; it is run by its path, since there is no package where this runs alone."""
    judged = runpy.run_path(str(Path(__file__).with_name("judged.py")))
    return (Finding(PROBLEMS, what) for what in judged["problems"](rows))


# -- the session's files ----------------------------------------------------------------------


def check_files(root: Path, rows: list[Row]) -> list[Finding]:
    """Exports, run logs and folders say what the rows say."""
    return [*check_exports(root, rows), *_logs(root, rows), *check_folders(root)]


def check_exports(root: Path, rows: list[Row]) -> list[Finding]:
    """results.tsv and experiments.jsonl: one line an experiment, at its decision."""
    ended = finals(rows)
    proposed = {body["id"]: body for body in bodies(rows, "proposed")}
    decided = {body["id"]: body for body in bodies(rows, "decision") if body["id"] in proposed}
    opened = bodies(rows, "session_opened")[0]
    table = [f"commit\t{opened['config']['metric']['name']}\tmemory_gb\tstatus\tdescription"]
    facts = []
    for number, decision in decided.items():
        final, proposal = ended.get(number, {}), proposed[number]
        verdict, metric = decision["verdict"], final.get("metric")
        facts.append([number, proposal["hypothesis"], metric, verdict])
        if verdict in NO_TSV_LINE:
            continue
        failed = verdict in ("crash", "timeout")
        status = "crash" if failed else "keep" if verdict == "keep" else "discard"
        text = "baseline" if number == 1 else cell(proposal["hypothesis"])
        text += " (timeout)" if verdict == "timeout" else ""
        text += " (OOM)" if verdict == "crash" and decision["reason"] == "oom" else ""
        label = f"iter{number}" if opened["branch"] is None else proposal["commit"][:7]
        memory = 0.0 if failed else (final["peak_vram_mb"] or 0.0) / 1024
        table.append(f"{label}\t{0.0 if failed else metric:.6f}\t{memory:.1f}\t{status}\t{text}")
    try:
        written = (root / "results.tsv").read_text().split("\n")
        lines = [json.loads(line) for line in (root / "experiments.jsonl").read_text().splitlines()]
    except (OSError, ValueError) as error:
        return [Finding(PROBLEMS, f"exports: {error}")]
    findings = []
    if written != [*table, ""]:
        findings.append(Finding(PROBLEMS, "results.tsv is not what the rows say"))
    names = ["id", "branch", "hypothesis", "metric", "runtime_s", "notes"]
    said = [[line.get(k) for k in ("id", "hypothesis", "metric", "status")] for line in lines]
    if said != facts or any(list(line)[:6] != names for line in lines):
        findings.append(Finding(PROBLEMS, "experiments.jsonl is not what the rows say"))
    return findings


def cell(text: str) -> str:
    """One cell that every spreadsheet takes for plain text."""
    plain = " ".join(text.split()).replace('"', "'")[:1000]
    return f"'{plain}" if plain[:1] in ("=", "+", "-", "@") else plain or "(none)"


def _logs(root: Path, rows: list[Row]) -> Iterator[Finding]:
    """What ran is in the ledger, and what the ledger says was printed."""
    issued = {(body["id"], body["attempt"]) for body in bodies(rows, "attempt_issued")}
    for folder in root.glob("iter*"):
        for path in folder.iterdir():
            match = _RUN_LOG.fullmatch(path.name)
            number = int(folder.name.removeprefix("iter"))
            attempt = int(match[1] or 1) if match else 0
            if match and (number, attempt) not in issued:
                yield Finding(LOST, f"{folder.name}/{path.name} is of an attempt without a row")
        for path in (folder / "out").rglob("*"):
            if not stat.S_ISREG(path.lstat().st_mode) and not stat.S_ISDIR(path.lstat().st_mode):
                yield Finding(PROBLEMS, f"{path.relative_to(root)!s} is no plain file")
    metric = bodies(rows, "session_opened")[0]["config"]["metric"]
    told = metric.get("source")
    source = told if isinstance(told, dict) else {}
    line = re.compile(source.get("regex", rf"^{re.escape(metric['name'])}\s*:\s*(\S+)\s*$"))
    for number, final in finals(rows).items():
        if final["status"] != "scored" or final["log_truncated"] or "json" in source:
            continue
        attempt = final["attempt"]
        path = root / f"iter{number}" / ("run.log" if attempt == 1 else f"run.{attempt}.log")
        if "command" in source:
            path = path.with_name("score.log")
        printed: list[str] = []
        if path.is_file():
            text = _ESCAPE.sub("", path.read_bytes().decode(errors="replace"))
            printed = [m[1] for row in re.split(r"[\r\n]", text) for m in line.finditer(row)]
        if final["metric"] not in [_number(word) for word in printed]:
            yield Finding(PROBLEMS, f"experiment {number}: {path.name} lacks its metric")


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def check_folders(root: Path) -> list[Finding]:
    """A run that is over leaves no stack, no claim, no undelivered result, no working folder."""
    left = [root / name for name in ("stack.json", "stack.tmp", "ledger.tmp")]
    for runner in (root / "runners").glob("*"):
        left += [runner / "claimed", *runner.glob("work-*"), *runner.glob("outbox/**/*.json")]
    return [Finding(PROBLEMS, f"{path.relative_to(root)} is left behind")
            for path in left if os.path.lexists(path)]  # fmt: skip


def main() -> int:
    """Recount, print, and say by the exit code whether all is right."""
    parser = argparse.ArgumentParser(description="recounts a session that is over")
    parser.add_argument("session_dir", type=Path)
    parser.add_argument("--forged", action="append", default=[])
    parser.add_argument("--canary", action="append", default=[])
    options = parser.parse_args()
    found = recount(options.session_dir.absolute(), options.forged, options.canary)
    sys.stdout.write(json.dumps(found.as_json()) + "\n")
    return 0 if not found.findings else 1


if __name__ == "__main__":
    sys.exit(main())
