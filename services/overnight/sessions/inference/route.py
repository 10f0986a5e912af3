"""Whether a repository is what the system is for; if not, which tool is.

Said early, before anything is asked: without a command that prints a number there is nothing to
keep or to discard.
"""

from __future__ import annotations

import re

from overnight.sessions.sources import Repository

_TRACING = re.compile(r"\b(?:langsmith|langfuse|braintrust|weave|promptfoo|phoenix)", re.I)
_PROMPT = re.compile(
    r"(?:^|/)(?:[\w-]*prompts?[\w-]*|agents|claude)(?:/|\.(?:md|txt|ya?ml|j2)$)", re.I
)


def route_out(repo: Repository) -> str | None:
    """One line that names the tool for this repository; None: it may be ours."""
    if any(script.printed or script.written for script in repo.scripts):
        return None
    names = sorted(repo.files)
    skill = next((name for name in names if name.rpartition("/")[2] == "SKILL.md"), None)
    if skill is not None:
        return (
            f"{skill}, and no command that prints a number: to improve instructions, prompts or "
            "a skill use skill-autoresearch; Overnight needs a run that prints a metric "
            "(there is one? --run-cmd)"
        )
    tracing = next((n for n in names if _TRACING.search(n)), None)
    if tracing is not None:
        return (
            f"{tracing}, and no command that prints a number: for tracing, feedback review or "
            "evaluation dashboards use LangSmith, Braintrust, Weave or Promptfoo; Overnight needs "
            "a run that prints a metric (there is one? --run-cmd)"
        )
    prompt = next((name for name in names if _PROMPT.search(name)), None)
    if prompt is not None:
        return (
            f"{prompt}, and no command that prints a number: to improve prompts use "
            "skill-autoresearch; Overnight needs a run that prints a metric (there is one? "
            "--run-cmd)"
        )
    if (
        not repo.scripts
        and names
        and all(n.endswith((".md", ".bib", ".tex", ".pdf")) for n in names)
    ):
        return (
            "only text, and no command that prints a number: for literature use a survey tool; "
            "Overnight needs a run that prints a metric (there is one? --run-cmd)"
        )
    return None
