"""A session's tag, and one line or one short word made from a hypothesis."""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from overnight.contracts.errors import UsageError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TAG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,62}")
_SLUG_LENGTH = 40
_MESSAGE_LENGTH = 500
#: Control characters, surrogates, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS_TEXT = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def default_tag(day: date) -> str:
    """`mar5` for the fifth of March: English month, no zero."""
    return f"{_MONTHS[day.month - 1]}{day.day}"


def check_tag(tag: str) -> str:
    """*tag* itself when it can name a branch and a folder.

    Raises:
        UsageError: it can't.
    """
    if not _TAG.fullmatch(tag) or tag.endswith((".lock", ".")):
        raise UsageError(
            f"tag {tag[:80]!r}: use letters, digits, dot, dash and underscore, at most 63"
        )
    return tag


def slug(hypothesis: str) -> str:
    """A few words of *hypothesis* as `a-z0-9-`, at most 40 characters, never empty."""
    plain = unicodedata.normalize("NFKD", hypothesis).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    text = ""
    for word in words:
        longer = f"{text}-{word}" if text else word[:_SLUG_LENGTH]
        if len(longer) > _SLUG_LENGTH:
            break
        text = longer
    return text or "idea"


def one_line(text: str) -> str:
    """*text* as one safe line: no control character, line separator or change of direction."""
    kept = (
        " " if char in _TURNS_TEXT or unicodedata.category(char) in _UNSAFE else char
        for char in text
    )
    return " ".join("".join(kept).split())[:_MESSAGE_LENGTH].rstrip()


def commit_message(hypothesis: str) -> str:
    """`exp: <hypothesis>`, one line."""
    return f"exp: {one_line(hypothesis) or 'no hypothesis'}"
