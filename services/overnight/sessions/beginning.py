"""What a new session begins with beside its tree: a plan of a person's, another session's best."""

from __future__ import annotations

from dataclasses import dataclass

from overnight.configuration import PROGRAM_FILE, ResolvedLoop, program_of
from overnight.contracts.errors import ConfigError, UsageError
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import SessionOpened
from overnight.sessions.limits import check_limits
from overnight.sessions.origin import Source, find_source, is_same
from overnight.sessions.preflight import check_sources
from overnight.sessions.program.gaps import check


@dataclass(frozen=True)
class Beginning:
    """Checked, nothing written yet."""

    source: Source | None
    program: str | None  #: text of program.md
    notes: tuple[str, ...] = ()


def begin(resolved: ResolvedLoop, source: str | None, tag: str | None) -> Beginning:
    """Look at all of it. *source*: TAG or TAG/ID of `--from`; *tag*: of the new session.

    Raises:
        UsageError: something of it can't be; names the fix.
    """
    check_limits(resolved)
    program, notes = _program(resolved)
    if source is None:
        check_sources(resolved.repo, resolved.config.editable_files)
        return Beginning(None, program, notes)
    return Beginning(find_source(resolved, source, tag), program, notes)


def _program(resolved: ResolvedLoop) -> tuple[str | None, tuple[str, ...]]:
    """program.md as it is now, and what to say of one that can't be used."""
    config = resolved.config
    try:
        text = program_of(resolved.repo)
    except ConfigError as error:
        if config.policy.require_program:
            raise
        return None, (f"proposers are not told of it: {error}",)
    if config.policy.require_program:
        _check_program(text, resolved)
    return text, ()


def _check_program(text: str | None, resolved: ResolvedLoop) -> None:
    if text is None:
        raise ConfigError(
            f"policy.require_program: no {PROGRAM_FILE} in {resolved.repo}: write one with "
            "`overnight program new`"
        )
    gaps = check(text, resolved.config.metric.name).gaps
    if gaps:
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        raise ConfigError(
            f"policy.require_program: {PROGRAM_FILE}:{gaps[0].line}: {gaps[0].part}: "
            f"{gaps[0].what}{more}; see `overnight program check`"
        )


def check_beginning(opened: SessionOpened, config: LoopConfig, source: str | None) -> None:
    """A session began once. Raises UsageError when it did not begin as is asked for now."""
    if source is not None and not is_same(opened.origin, source):
        raise UsageError(
            f"session {opened.tag} exists and did not begin with {source}: leave out --from to go "
            "on, or name a new one by --tag"
        )
    if config.policy.require_program and opened.program_digest is None:
        raise UsageError(
            f"policy.require_program: session {opened.tag} began without a {PROGRAM_FILE}: write "
            "one, then open another session with --tag"
        )
