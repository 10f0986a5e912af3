"""Untrusted text made safe to show: on a terminal, in one line, in a cell. Never for deciding."""

from __future__ import annotations

import re

#: Whole escape sequences, also cut off ones. A string sequence (OSC, DCS, SOS, PM, APC) that is
#: never closed ends with its line, or one stray introducer would hide all that follows it.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Bidi controls reorder what a person reads, characters without width and tags hide in it; lone
#: surrogates can't be written as UTF-8. Joiners stay: scripts and emoji need them.
_DISGUISES = re.compile(
    "[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
#: All that str.splitlines, an editor or a spreadsheet may take for the end of a line.
_LINE_ENDS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
#: A spreadsheet runs a cell that starts with one of these, some also with the full-width ones.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CUT = "..."


def strip_escapes(text: str) -> str:
    """*text* without terminal escape sequences (7-bit and 8-bit); other controls stay."""
    return _ESCAPES.sub("", text)


def strip_terminal(text: str) -> str:
    """*text* that can't steer a terminal: its only controls are newline and tab.

    CR becomes a newline; bidi controls and lone surrogates are shown as backslash escapes.
    """
    plain = strip_escapes(text.replace("\r\n", "\n").replace("\r", "\n"))
    return _DISGUISES.sub(_shown, _CONTROLS.sub("", plain))


def one_line(text: str, limit: int) -> str:
    """*text* as one terminal-safe line of at most *limit* characters, white space collapsed."""
    line = " ".join(strip_terminal(_LINE_ENDS.sub("\n", text)).split())
    if len(line) <= limit:
        return line
    return line[: max(0, limit - len(_CUT))].rstrip() + _CUT[:limit]


def tsv_cell(text: str, limit: int = 1000) -> str:
    """*text* as one cell that every TSV reader and spreadsheet takes for plain text."""
    cell = one_line(text, limit).replace('"', "'")
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
