"""Coding agents on this host: which are installed, and whether they seem to be logged in.

Nothing is called: only versions are asked for, and credentials are looked for, never read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from overnight.sessions.readiness.check import Check, fail, ok, warn
from overnight.sessions.readiness.hardware import said


@dataclass(frozen=True)
class _Agent:
    """One agent's command, where it keeps its login, and what else it takes for one."""

    program: str
    login: tuple[str, ...]  #: below the home folder
    keys: tuple[str, ...]  #: variables
    install: str


AGENTS = {
    "claude": _Agent("claude", (".claude/.credentials.json", ".claude.json"),
                     ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
                     "npm install -g @anthropic-ai/claude-code, then `claude` once"),
    "codex": _Agent("codex", (".codex/auth.json",), ("OPENAI_API_KEY",),
                    "npm install -g @openai/codex, then `codex login`"),
    "gemini": _Agent("gemini", (".gemini/oauth_creds.json",), ("GEMINI_API_KEY",),
                     "npm install -g @google/gemini-cli, then `gemini` once"),
    "aider": _Agent("aider", (".aider.conf.yml",), ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
                    "pip install aider-chat in an environment of its own"),
    "opencode": _Agent("opencode", (".local/share/opencode/auth.json",), (),
                       "npm install -g opencode-ai, then `opencode auth login`"),
}  # fmt: skip


def check_agents(environ: Mapping[str, str], wanted: str | None) -> list[Check]:
    """Those that are there; *wanted* must be."""
    if wanted is not None and wanted not in AGENTS:
        program = shutil.which(wanted, path=environ.get("PATH", os.defpath))
        if program is None:
            known = ", ".join(AGENTS)
            return [fail("agent", f"no program {wanted!r} on the PATH", f"known ones: {known}")]
        return [ok("agent", f"{wanted} ({program}); no preset for it, so no word on its login")]
    rows = []
    for name, agent in AGENTS.items():
        program = shutil.which(agent.program, path=environ.get("PATH", os.defpath))
        if program is not None:
            rows.append(_row(name, agent, program, environ))
        elif name == wanted:
            rows.append(fail("agent", f"{name} is not on the PATH", agent.install))
    if not rows:
        rows.append(ok("agent", "none, and none is needed: search proposes"))
    return [row for row in rows if wanted is None or row.status == "fail" or wanted in row.detail]


def _row(name: str, agent: _Agent, program: str, environ: Mapping[str, str]) -> Check:
    version = said(program, "--version") or "version unknown"
    home = Path(environ.get("HOME") or "/nonexistent")
    key = next((key for key in agent.keys if environ.get(key)), None)
    file = next((place for place in agent.login if (home / place).is_file()), None)
    if key is not None:
        return ok("agent", f"{name} {version}, {key} is set")
    if file is not None:
        return ok("agent", f"{name} {version}, login in ~/{file}")
    return warn("agent", f"{name} {version}, no login seen", f"log in: run `{agent.program}` once")
