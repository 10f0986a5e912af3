"""Ends what dead runners left on this host: processes, control groups, folders, records.

It judges by what is surely ours. A record whose lock is free has a dead owner. Without a record, a
process or a control group is ours when it carries a token of our own record folder, and abandoned
when the process that made the token is not above it any more. All else is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from overnight.contracts.execution import Stuck, Swept
from overnight.executors import cgroups, fallback, records, survivors, tree

log = structlog.get_logger()

GROUP = "overnight-"  #: the names of control groups and the markers of processes begin so
TOKEN_REST = 24  #: hex digits of a token after the folder's mark


@dataclass(frozen=True)
class Janitor:
    """Of one record folder, which is one user's on one host."""

    folder: Path
    cgroup_root: Path

    def sweep(self, labels: Mapping[str, str]) -> Swept:
        """End all with *labels* whose owner is dead; with none, also what has no record."""
        ended, stuck = 0, []
        for record in records.abandoned(self.folder, labels):
            left = self._end(record)
            if left:
                reason = f"a sandbox can't be ended, pids {_some(left)}"
                stuck.append(Stuck(record.labels, reason, tuple(left)))
            else:
                ended += 1
        if not labels:
            ended += self._end_unrecorded()
            self._remove_unfinished()
        return Swept(ended, records.held(self.folder, labels), tuple(stuck))

    def _end(self, record: records.Record) -> list[int]:
        """What of it still lives."""
        left = _end_all(*_markers(record))
        group = cgroups.find(f"{GROUP}{record.token}", self.cgroup_root, record.cgroup_own)
        if group is not None and not group.remove():
            left = left or group.pids()
        gone = not left and self._remove_scratch(record.scratch)
        log.info("sandbox_reconciled", scratch=str(record.scratch), gone=gone, left=len(left))
        if gone:
            record.remove()
        else:
            record.abandon()
        return left

    def _remove_scratch(self, scratch: Path | None) -> bool:
        if scratch is None or not scratch.exists():
            return True
        try:
            if not tree.is_scratch(scratch):
                # A record that was changed, or somebody put something there: never ours to remove.
                log.error("scratch_left_alone", scratch=str(scratch))
                return True
            tree.remove_tree(scratch)
        except OSError as error:
            log.error("scratch_not_removed", scratch=str(scratch), error=str(error))
            return False
        return True

    def _end_unrecorded(self) -> int:
        """Processes and groups of ours whose record is gone, if their owner is too."""
        mark = records.folder_mark(self.folder)
        carried = survivors.carriers(mark.encode(), TOKEN_REST)
        own = cgroups.own()
        named = [n.removeprefix(GROUP) for n in cgroups.named(GROUP + mark, self.cgroup_root, own)]
        ended = 0
        for token in sorted({*carried, *named}):
            if len(token) != len(mark) + TOKEN_REST or records.is_recorded(self.folder, token):
                continue
            owner = records.owner_of(token)
            group = cgroups.find(f"{GROUP}{token}", self.cgroup_root, own)
            pids = [*carried.get(token, ()), *(() if group is None else group.pids())]
            if any(owner in survivors.ancestors(pid) for pid in pids):
                log.warning("record_missing", token=token, owner_pid=owner)  # its owner lives
                continue
            if group is None and not survivors.alive_with_marker(token.encode()):
                continue  # it was ending while we looked
            left = _end_all(token.encode())
            gone = (group is None or group.remove()) and not left
            log.warning("unrecorded_sandbox_ended", token=token, gone=gone)
            ended += gone
        return ended

    def _remove_unfinished(self) -> None:
        for path in records.unfinished(self.folder):
            try:
                if path.is_dir() and not path.is_symlink():
                    tree.remove_tree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                log.error("leftover_not_removed", path=str(path), error=str(error))


def _markers(record: records.Record) -> tuple[bytes, ...]:
    """What the processes of a sandbox have in their arguments, or without walls in their env."""
    if record.scratch is None:
        return (record.token.encode(),)
    return record.token.encode(), fallback.marker(str(tree.Place(record.scratch, None).out))


def _end_all(*markers: bytes) -> list[int]:
    """End whatever carries one of them; who lives on."""
    gone = [survivors.end_all(marker) for marker in markers]
    if all(gone):
        return []
    return sorted({pid for marker in markers for pid in survivors.alive_with_marker(marker)})


def _some(pids: list[int]) -> str:
    more = f" and {len(pids) - 5} more" if len(pids) > 5 else ""
    return ", ".join(map(str, pids[:5])) + more
