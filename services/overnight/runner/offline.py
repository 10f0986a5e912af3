"""A candidate that failed because it wanted the network: what it wanted, and how it gets it. Pure.

Candidates have none. What they need is fetched once by a person's own `prepare:` command and shown
to them by `reads:`, so the words of such a failure end with these two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from overnight.contracts.untrusted import one_line

WANTED_NETWORK = "wanted_network"  #: flag of a result
NAME_CHARACTERS = 80
LAST_LINES = 4  #: where no traceback tells what ended it

_NO_NETWORK = re.compile(
    r"gaierror|name resolution|name or service not known|nodename nor servname|getaddrinfo failed"
    r"|failed to resolve|could not resolve host|unable to resolve host|cannot resolve"
    r"|network is unreachable|max retries exceeded with url|HTTPS?ConnectionPool\("
    r"|cannot connect to host|urlopen error|LocalEntryNotFoundError|OfflineModeIsEnabled"
    r"|outgoing traffic has been disabled|couldn't connect to 'https?://|offline mode is enabled"
    r"|Couldn't reach .{1,200} on the Hub|nltk\.download\(",
    re.IGNORECASE,
)
_CHAIN = re.compile(r"^(During handling of the above|The above exception was the direct)")
_HEAD = "Traceback (most recent call last)"
_HOST = re.compile(
    r"HTTPS?ConnectionPool\(host='([\w.-]+)'|(?:resolve|connect to) host:? '?([\w.-]+\.\w+)"
    r"|failed to resolve '([\w.-]+)'|https?://(?:[^/@\s'\"]{0,100}@)?([A-Za-z0-9.-]+)",
    re.IGNORECASE,
)
_REPO = "([A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)?)"
_ITEMS = (
    re.compile(rf"/api/(?:models|datasets|spaces)/{_REPO}"),
    re.compile(rf"huggingface\.co/(?:datasets/)?{_REPO}/resolve/"),
    re.compile(rf"(?:like|reach) '?{_REPO}'? (?:is not the path|on the Hub)"),
    re.compile(r"nltk\.download\('([\w.-]+)'\)"),
    re.compile(r"https?://[A-Za-z0-9.-]+/[^\s'\")]{0,200}?([\w.-]+\.(?:pth?|bin|tiktoken|zip|gz|npz"
               r"|safetensors|json|csv|parquet|txt))"),
)  # fmt: skip


@dataclass(frozen=True)
class _Library:
    """Whose downloads land where."""

    marks: re.Pattern[str]
    name: str  #: what is wanted from, where no host is named
    reads: str
    more: str = ""  #: what it takes beside `reads`


_LIBRARIES = (
    _Library(
        re.compile(
            r"huggingface|hf_hub|LocalEntryNotFound|OfflineMode|outgoing traffic|on the Hub", re.I
        ),
        "huggingface.co",
        "~/.cache/huggingface",
    ),
    _Library(re.compile(r"\bnltk[/_.]", re.I), "the NLTK data", "~/nltk_data"),
    _Library(
        re.compile(r"tiktoken|openaipublic", re.I),
        "openaipublic.blob.core.windows.net",
        "~/.cache/tiktoken",
        " and pass_env: [TIKTOKEN_CACHE_DIR]",
    ),
    _Library(
        re.compile(r"torch[/.]hub|torchvision|download\.pytorch\.org", re.I),
        "download.pytorch.org",
        "~/.cache/torch",
    ),
    _Library(
        re.compile(r"scikit_learn_data|sklearn[/.]datasets", re.I),
        "its data",
        "~/scikit_learn_data",
    ),
    _Library(
        re.compile(r"keras[/.](?:src[/.])?(?:datasets|utils)|tf-keras-datasets", re.I),
        "its data",
        "~/.keras",
    ),
)
_WANDB = re.compile(r"\bwandb\b", re.I)


def wanted(*tails: str) -> str | None:
    """What to do about it, as one safe line; None where the network is not what ended it.

    *tails*: last lines of the output, those of stderr alone first.
    """
    for tail in tails:
        words = _ending(tail)
        if _NO_NETWORK.search(words):
            return _advice(words)
    return None


def _ending(tail: str) -> str:
    """The last exception with those that led to it; without one, the last lines.

    What was survived before stands above, and is not why it ended.
    """
    lines = tail.rstrip().split("\n")
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith(_HEAD)]
    if not heads:
        return "\n".join(lines[-LAST_LINES:])
    start = heads.pop()
    while heads and any(_CHAIN.match(line) for line in lines[heads[-1] : start]):
        start = heads.pop()
    cut_above = not heads and any(_CHAIN.match(line) for line in lines[:start])
    return "\n".join(lines if cut_above else lines[start:])


def _advice(words: str) -> str:
    host = next((_first(match) for match in _HOST.finditer(words)), "")
    library = next((one for one in _LIBRARIES if one.marks.search(words)), None)
    what = host or (library.name if library else "the network")
    item = next((match[1] for one in _ITEMS if (match := one.search(words))), "")
    shown = one_line(f"{what} ({item})" if item else what, NAME_CHARACTERS)
    if library is None and _WANDB.search(words):
        return f"wanted {shown}, but candidates have no network: log with WANDB_MODE=offline"
    reads = library.reads if library else "PLACE"
    more = library.more if library else ""
    return (
        f"wanted {shown}, but candidates have no network: fetch it once with `prepare: COMMAND` "
        f"and `overnight prepare`, then show it to them with `reads: [{reads}]`{more}"
    )


def _first(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group), "")
