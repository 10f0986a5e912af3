"""`run --from TAG`: another session's best as the tree that a new one begins with."""

from __future__ import annotations

from dataclasses import dataclass

from overnight.configuration import ResolvedLoop, changed_track_keys
from overnight.contracts.errors import UsageError
from overnight.contracts.rows import Origin
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.sessions.experiments import BEST, find_experiment
from overnight.sessions.locate import Found, read_state, sessions_beside
from overnight.sessions.preflight import changed_since
from overnight.snapshots.store import SnapshotStore


@dataclass(frozen=True)
class Source:
    """One experiment of another session."""

    found: Found
    state: SessionState
    experiment: ExperimentState
    commit: str

    @property
    def store(self) -> SnapshotStore:
        """Its objects; read only."""
        return SnapshotStore(self.found.files.root)

    @property
    def origin(self) -> Origin:
        """For the new session's ledger."""
        return Origin(
            tag=self.found.tag, sid=self.found.sid, id=self.experiment.id, commit=self.commit
        )

    @property
    def message(self) -> str:
        """Of the commit that the new session begins with."""
        return f"base: experiment {self.experiment.id} of {self.found.tag}"

    @property
    def base_head(self) -> str | None:
        """The user's commit that it began with."""
        return self.state.opened.base_head if self.state.opened else None

    def notes(self, resolved: ResolvedLoop) -> tuple[str, ...]:
        """What a person should know of a session that begins with it."""
        metric = self.state.metric_of(self.experiment.id)
        best = "the best" if self.experiment.id == self.state.incumbent else "as you named it"
        told = "" if metric is None else f", {metric:.6g}"
        notes = [f"begins with experiment {self.experiment.id} of {self.found.tag} ({best}{told})"]
        notes += self._newer_edits(resolved)
        assert self.state.config is not None  # it has an experiment
        changed = changed_track_keys(self.state.config, resolved.config)
        if changed:
            notes.append(
                f"other bindings than {self.found.tag} ({'; '.join(changed)}): a new comparison "
                "track, its results are not compared"
            )
        return tuple(notes)

    def _newer_edits(self, resolved: ResolvedLoop) -> list[str]:
        assert self.state.opened is not None  # it has an experiment
        changed = changed_since(self.store, self.state.opened.base_commit, resolved.repo)
        if not changed:
            return []
        names = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        return [f"edited since {self.found.tag} began, and not in this session: {names}"]


def find_source(resolved: ResolvedLoop, wanted: str, tag: str | None) -> Source:
    """What `--from TAG` or `--from TAG/ID` means for a new session *tag*.

    Raises:
        UsageError: no such session or experiment, or one without a tree; names the fix.
    """
    name, _, which = wanted.partition("/")
    if name == tag:
        raise UsageError(f"--from {wanted}: a session can't begin with itself: name another --tag")
    beside = sessions_beside(resolved.session_root)
    found = next((each for each in beside if each.tag == name), None)
    if found is None:
        there = ", ".join(each.tag for each in beside) or "none"
        raise UsageError(f"--from {wanted}: no session {name} here (there is: {there})")
    state = read_state(found.files)
    try:
        experiment = find_experiment(state, which or BEST)
    except UsageError as error:
        raise UsageError(f"--from {wanted}: {error}") from error
    commit = experiment.proposed.commit
    if commit is None:
        raise UsageError(f"--from {wanted}: experiment {experiment.id} has no tree: rejected")
    return Source(found, state, experiment, commit)


def is_same(origin: Origin | None, wanted: str) -> bool:
    """Did a session begin as *wanted* says? Then the same command goes on with it."""
    name, _, which = wanted.partition("/")
    return origin is not None and origin.tag == name and which in ("", BEST, str(origin.id))
