"""apply: what a session found, as commits on a branch of the user's repository, or as files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overnight.contracts.errors import UsageError
from overnight.contracts.rows import SessionOpened
from overnight.contracts.status import Role, Status
from overnight.ledger.fold import ExperimentState, SessionState
from overnight.sessions.experiments import BEST, find_experiment
from overnight.sessions.locate import Found, read_state
from overnight.sessions.places import repository_of
from overnight.sessions.view import path_to
from overnight.snapshots import homecoming, userrepo
from overnight.snapshots.errors import SnapshotMissingError
from overnight.snapshots.homecoming import EXPERIMENT_TRAILER, SESSION_TRAILER, Files, Planned, Step
from overnight.snapshots.identity import author
from overnight.snapshots.patches import write_folder
from overnight.snapshots.store import SnapshotStore
from overnight.snapshots.tags import commit_message
from overnight.snapshots.userrepo import UserRepo

SHOWN_FILES = 3  #: of many, in a sentence


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asked for."""

    which: str = BEST
    repo: Path | None = None  #: None: where the session was made, or lies now
    here: Path  #: what --dir names
    onto: str | None = None
    squash: bool = False
    to: Path | None = None  #: a folder for files instead of a branch


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What was brought home."""

    tag: str
    id: int
    changes: tuple[ExperimentState, ...]  #: from the baseline to it
    files: tuple[str, ...]  #: changed, from the top of the repository
    repo: Path | None = None
    branch: str | None = None
    made: bool = False  #: the branch is new
    start: str | None = None  #: commit that the new ones stand on
    commits: tuple[tuple[str, tuple[int, ...]], ...] = ()  #: each with its experiments
    skipped: tuple[int, ...] = ()  #: the branch has them already
    own_edits: tuple[str, ...] = ()  #: the user's uncommitted ones, as a commit before the others
    notes: tuple[str, ...] = ()
    to: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """The object of `apply --json`."""
        return {
            "tag": self.tag,
            "id": self.id,
            "changes": [e.id for e in self.changes],
            "repo": None if self.repo is None else str(self.repo),
            "branch": self.branch,
            "made": self.made,
            "start": self.start,
            "commits": [{"commit": commit, "experiments": ids} for commit, ids in self.commits],
            "skipped": self.skipped,
            "own_edits": self.own_edits,
            "files": self.files,
            "notes": self.notes,
            "to": None if self.to is None else str(self.to),
        }


def apply(found: Found, wish: Wish, environ: Mapping[str, str]) -> Applied:
    """Bring an experiment and the kept changes before it home.

    Raises:
        UsageError: nothing to bring, nowhere to bring it, no name for the commits, or it does not
            fit; nothing was written then.
        SnapshotError: the session's store or the user's repository can't be read or written.
    """
    state = read_state(found.files)
    changes = changes_to(state, wish.which)
    notes = _standing(changes[-1])
    store = SnapshotStore(found.files.root)
    if wish.to is not None:
        base, last = _commit_of(state.experiments[1]), _commit_of(changes[-1])
        names = write_folder(store, base, last, wish.to)
        return Applied(
            tag=found.tag, id=changes[-1].id, changes=changes, files=names, notes=notes, to=wish.to
        )
    assert state.opened is not None  # there is an experiment
    repo = wish.repo or repository_of(found.files, state.opened, wish.here)
    home = userrepo.find(repo)
    if home is None:
        raise UsageError(
            f"{repo} is no git repository: take the files by `overnight apply --to DIR`"
        )
    if home.git().run("rev-parse", "--show-object-format").decode().strip() != "sha1":
        raise UsageError(
            f"{repo} keeps no sha1 objects, which is all that we can write: take the files by "
            "`overnight apply --to DIR`"
        )
    return _Homecoming(found, state, state.opened, store, home).bring(changes, wish, environ, notes)


def changes_to(state: SessionState, which: str) -> tuple[ExperimentState, ...]:
    """What leads from the baseline to the experiment meant, itself last.

    Raises:
        UsageError: no such experiment, not decided, without a tree, or nothing changed by it.
    """
    experiment = find_experiment(state, which)
    if experiment.proposed.role is Role.REPLICATE and experiment.proposed.of is not None:
        experiment = state.experiments[experiment.proposed.of]
    if experiment.id == 1:
        raise UsageError(_only_baseline(state, which))
    if experiment.proposed.commit is None:
        raise UsageError(
            f"experiment {experiment.id} has no tree: rejected ({experiment.proposed.rejection})"
        )
    if experiment.decision is None:
        raise UsageError(f"experiment {experiment.id} is not decided yet: wait for its verdict")
    return tuple(path_to(state, experiment.id))


def _only_baseline(state: SessionState, which: str) -> str:
    if which != BEST:
        return "nothing to apply: experiment 1 is the baseline, what the session began with"
    origin = state.opened.origin if state.opened else None
    fix = "" if origin is None else f": `overnight apply {origin.id} --tag {origin.tag}`"
    return f"nothing to apply: no change was kept yet, the best is the baseline itself{fix}"


def _standing(last: ExperimentState) -> tuple[str, ...]:
    assert last.decision is not None  # changes_to
    verdict = last.decision.verdict
    if verdict is Status.KEEP:
        return ()
    reason = f":{last.decision.reason}" if last.decision.reason else ""
    return (f"experiment {last.id} was not kept ({verdict.value}{reason}): it is taken because you "
            "named it",)  # fmt: skip


def _commit_of(experiment: ExperimentState) -> str:
    commit = experiment.proposed.commit
    if commit is None:  # never: a rejected edit has no children
        raise SnapshotMissingError(f"experiment {experiment.id} has no commit")
    return commit


@dataclass(frozen=True)
class _Homecoming:
    """From one session into one repository."""

    found: Found
    state: SessionState
    opened: SessionOpened
    store: SnapshotStore
    home: UserRepo

    def bring(
        self,
        changes: tuple[ExperimentState, ...],
        wish: Wish,
        environ: Mapping[str, str],
        notes: tuple[str, ...],
    ) -> Applied:
        branch = wish.onto or f"overnight/{self.found.tag}"
        start, said = self._start()
        where = homecoming.target(self.home, branch, start, must_be_new=wish.onto is None)
        person = author(self.home, environ)
        own, more = self._own_edits(where)
        notes = (*notes, *(said if where.tip is None else ()), *more)
        there: set[int] = set()
        if where.tip is not None:
            there = homecoming.already_there(self.home, where.tip, self.found.tag, self.found.sid)
        missing = [e for e in changes if e.id not in there]
        steps = [self._step(e) for e in missing]
        planned = homecoming.work_out(self.home, self.store, where, steps, own)
        done = {number for each in planned for number in each.ids}
        if wish.squash and planned:
            planned = [self._squashed(planned, [e for e in missing if e.id in done])]
        first = [Planned(files=own, message=self._own_message())] if own else []
        written = homecoming.write(self.home, where, [*first, *planned], person) if planned else ()
        made = list(zip(written, [*first, *planned], strict=False))
        return Applied(
            tag=self.found.tag,
            id=changes[-1].id,
            changes=changes,
            files=tuple(sorted({path for each in planned for path in each.files})),
            repo=self.home.folder,
            branch=branch,
            made=where.tip is None and bool(written),
            start=where.start,
            commits=tuple((commit, each.ids) for commit, each in made if each.ids),
            skipped=tuple(e.id for e in changes if e.id not in done),
            own_edits=tuple(sorted(own)),
            notes=notes,
        )

    def _start(self) -> tuple[str, tuple[str, ...]]:
        """Where a new branch begins: at the user's commit that the session began with."""
        head = homecoming.commit_named(self.home, "HEAD")
        if head is None:
            raise UsageError(
                "the repository has no commit yet: commit first, or take the files by "
                "`overnight apply --to DIR`"
            )
        began = self.opened.base_head
        if began is not None and homecoming.commit_named(self.home, began) is not None:
            return began, ()
        why = "had no commit" if began is None else f"was at {began[:9]}, which is gone"
        return head, (f"the repository {why} when the session began: this stands on HEAD",)

    def _own_edits(self, where: homecoming.Target) -> tuple[Files, tuple[str, ...]]:
        """The user's uncommitted edits that candidates ran with, where a new branch needs them."""
        clean = self.opened.branch is not None and self.opened.origin is None
        if clean or self.opened.base_head is None:
            return {}, ()  # `branches` refuses a dirty tree
        began = homecoming.commit_named(self.home, self.opened.base_head)
        if began is None:
            return {}, ()
        editable = self.state.config.editable_files if self.state.config else ()
        base = self.opened.base_commit
        own = homecoming.own_edits(self.home, self.store, base, began, editable)
        notes: list[str] = []
        if own.files and not self._has_origin(where):
            first = "not brought" if where.tip is not None else "brought first, by its own commit"
            notes.append(f"{self._began_with()} ({_few(own.files)}): {first}")
        if own.untracked:
            notes.append(
                f"not in git when the session began, and not on the branch: {_few(own.untracked)}"
            )
        return ({} if where.tip is not None else own.files), tuple(notes)

    def _has_origin(self, where: homecoming.Target) -> bool:
        """Does the branch hold what the session began with already?"""
        origin = self.opened.origin
        if origin is None or where.tip is None:
            return False
        return origin.id in homecoming.already_there(self.home, where.tip, origin.tag, origin.sid)

    def _began_with(self) -> str:
        """What stood in the tree that the session began with, beside the user's commit."""
        origin = self.opened.origin
        if origin is not None:
            return f"session {self.found.tag} began with experiment {origin.tag}/{origin.id}"
        return f"session {self.found.tag} began with edits that were not committed"

    def _own_message(self) -> str:
        words = self._began_with()
        return f"{words[0].upper()}{words[1:]}\n\n{SESSION_TRAILER}: {self.found.sid}"

    def _step(self, experiment: ExperimentState) -> Step:
        parent = self.state.experiments[experiment.proposed.parent or 1]
        return Step(
            before=_commit_of(parent),
            after=_commit_of(experiment),
            message="\n\n".join(
                (commit_message(experiment.proposed.hypothesis), self._trailers([experiment]))
            ),
            ids=(experiment.id,),
        )

    def _squashed(self, planned: list[Planned], changes: list[ExperimentState]) -> Planned:
        files = {path: state for each in planned for path, state in each.files.items()}
        if len(changes) == 1:
            return Planned(files=files, message=planned[-1].message, ids=(changes[0].id,))
        ideas = [commit_message(e.proposed.hypothesis).removeprefix("exp: ") for e in changes]
        title = f"exp: {len(changes)} changes of session {self.found.tag}"
        message = "\n\n".join(
            (title, "\n".join(f"- {idea}" for idea in ideas), self._trailers(changes))
        )
        return Planned(files=files, message=message, ids=tuple(e.id for e in changes))

    def _trailers(self, changes: list[ExperimentState]) -> str:
        lines = [f"{EXPERIMENT_TRAILER}: {self.found.tag}/{e.id}" for e in changes]
        metric = self.state.metric_of(changes[-1].id)
        if metric is not None and self.state.config is not None:
            lines.append(f"Overnight-Metric: {self.state.config.metric.name} {metric:.10g}")
        return "\n".join((*lines, f"{SESSION_TRAILER}: {self.found.sid}"))


def _few(names: Files | tuple[str, ...]) -> str:
    """The first of some names, and how many more there are."""
    listed = sorted(names)
    more = len(listed) - SHOWN_FILES
    return ", ".join(listed[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
