"""Splits a run command written as one text into arguments, as a shell would, without a shell."""

from __future__ import annotations

import shlex

from overnight.contracts.errors import ConfigError

_OPERATORS = ("&&", "||", ">>", "<<", "&", "|", ";", "<", ">", "(", ")")
_EXPANDED = "*?"  #: a shell would replace these by file names
_IN_QUOTES = "$`"  #: a shell would replace these even inside double quotes


def split_command(text: str) -> tuple[str, ...]:
    """The arguments of *text*.

    Raises:
        ConfigError: needs a shell (an operator, a variable, a pattern), or is not balanced.
    """
    found = _needs_shell(text)
    if found is not None:
        raise ConfigError(
            f"{found!r} needs a shell and none is used: give a list of arguments, or put the "
            "command into a script (run_cmd: bash run.sh)"
        )
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"can't be split into arguments: {str(error).lower()}") from error
    if not words or not words[0]:
        raise ConfigError("is empty: name the command, e.g. python train.py")
    if "=" in words[0] and words[0].split("=", 1)[0].isidentifier():
        raise ConfigError(f"{words[0]!r} sets a variable: put it under env: instead")
    return words


def _needs_shell(text: str) -> str | None:
    """The first thing in *text* that only a shell can do, if there is one."""
    quote = ""
    index = 0
    word_start = True
    while index < len(text):
        char = text[index]
        if char == "\\" and quote != "'":
            index += 2
            word_start = False
            continue
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        elif (quote != "'" and char in _IN_QUOTES) or (not quote and char in _EXPANDED):
            return char
        elif not quote:
            for operator in _OPERATORS:
                if text.startswith(operator, index):
                    return operator
            if char == "\n" and text[index:].strip():
                return "a second line"
            if word_start and char in "~#":
                return char
        word_start = not quote and char.isspace()
        index += 1
    return None
