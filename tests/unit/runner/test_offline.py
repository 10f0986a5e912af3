"""A failure for want of the network says what was wanted, how to fetch it, how to show it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runner.test_verdict import JOB, OK, parse

from overnight.contracts.status import Status
from overnight.runner.offline import wanted
from overnight.runner.verdict import Verdict, classify

TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in main\n    x()\n'
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
GAI = TRACE + "socket.gaierror: [Errno -3] Temporary failure in name resolution\n"


def chain(*errors: str) -> str:
    return DURING.join(TRACE + error + "\n" for error in errors)


CASES = {
    "urllib": (
        GAI + DURING + TRACE + "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure "
        "in name resolution>\n",
        "wanted the network",
        "`reads: [PLACE]`",
    ),
    "requests": (
        chain(
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='data.example.org', "
            "port=443): Max retries exceeded with url: /a/train.bin (Caused by NameResolutionError("
            "\"Failed to resolve 'data.example.org' ([Errno -3] Temporary failure in name "
            'resolution)"))',
        ),
        "wanted data.example.org",
        "`reads: [PLACE]`",
    ),
    "hub, model": (
        chain(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in "
            "the disk cache and outgoing traffic has been disabled.",
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and "
            "couldn't find them in the cached files.\nIt looks like org/small-model is not the "
            "path to a directory containing a file named config.json.",
        ),
        "wanted huggingface.co (org/small-model)",
        "`reads: [~/.cache/huggingface]`",
    ),
    "hub, data set": (
        TRACE + "ConnectionError: Couldn't reach 'org/tiny_stories' on the Hub "
        "(OfflineModeIsEnabled)\n",
        "wanted huggingface.co (org/tiny_stories)",
        "`reads: [~/.cache/huggingface]`",
    ),
    "hub, file": (
        TRACE + "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
        "https://huggingface.co/gpt2/resolve/main/vocab.json: offline mode is enabled. To "
        "disable it, please unset the `HF_HUB_OFFLINE` environment variable.\n",
        "wanted huggingface.co (gpt2)",
        "`reads: [~/.cache/huggingface]`",
    ),
    "nltk": (
        TRACE + "LookupError: \n" + "*" * 70 + "\n  Resource punkt not found.\n  Please use the "
        "NLTK Downloader to obtain the resource:\n\n  >>> import nltk\n  >>> "
        "nltk.download('punkt')\n  \n  Searched in:\n    - '/tmp/home/nltk_data'\n" + "*" * 70,
        "wanted the NLTK data (punkt)",
        "`reads: [~/nltk_data]`",
    ),
    "tiktoken": (
        'Traceback (most recent call last):\n  File "/v/site-packages/tiktoken/load.py", line 8, '
        "in read_file\n    resp = get(blobpath)\nrequests.exceptions.ConnectionError: "
        "HTTPSConnectionPool(host='openaipublic.blob.core.windows.net', port=443): Max retries "
        "exceeded with url: /gpt-2/encodings/main/vocab.bpe\n",
        "wanted openaipublic.blob.core.windows.net",
        "`reads: [~/.cache/tiktoken]` and pass_env: [TIKTOKEN_CACHE_DIR]",
    ),
    "torch hub": (
        'Traceback (most recent call last):\n  File "/v/site-packages/torch/hub.py", line 8, in '
        "download_url_to_file\n    u = urlopen(req)\nurllib.error.URLError: <urlopen error [Errno "
        "-3] Temporary failure in name resolution>\n",
        "wanted download.pytorch.org",
        "`reads: [~/.cache/torch]`",
    ),
    "wandb": (
        'Traceback (most recent call last):\n  File "/v/wandb/sdk.py", line 8, in init\n    x()\n'
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): "
        "Max retries exceeded with url: /graphql\n",
        "wanted api.wandb.ai",
        "log with WANDB_MODE=offline",
    ),
    "curl": (
        "curl: (6) Could not resolve host: example.org\n",
        "wanted example.org",
        "`reads: [PLACE]`",
    ),
    "unreachable": (
        TRACE + "OSError: [Errno 101] Network is unreachable\n",
        "wanted the network",
        "`reads: [PLACE]`",
    ),
}


def judge(stderr: str, stdout: str = "", exit_code: int = 1, **execution: object) -> Verdict:
    ended = replace(OK, exit_code=exit_code, **execution)  # type: ignore[arg-type]
    return classify(ended, parse(stdout.encode(), stderr.encode()), JOB)


@pytest.mark.parametrize("name", CASES)
def test_what_was_wanted_and_how_to_get_it_is_one_line(name: str) -> None:
    text, begins, holds = CASES[name]
    verdict = judge(text)

    assert verdict.status is Status.CRASH
    assert verdict.reason in ("exit_code", "import")
    assert verdict.flags == ("wanted_network",)
    assert verdict.detail.startswith(begins + ", but candidates have no network: ")
    assert holds in verdict.detail
    assert "overnight prepare" in verdict.detail or name == "wandb"
    assert verdict.detail.isprintable()


def test_a_want_that_was_survived_is_not_why_it_ended() -> None:
    later = GAI + "warning: going on without\nepoch 1\n" + TRACE + "ValueError: bad shape\n"
    verdict = judge(later)

    assert verdict.detail == "ValueError: bad shape"
    assert verdict.flags == ()


def test_a_chain_that_began_above_the_last_lines_counts_as_one() -> None:
    text = "urllib.error.URLError: <urlopen error timed out>\n" + DURING + TRACE + "OSError: no\n"

    assert "no network" in judge(text).detail


@pytest.mark.parametrize(
    "text",
    [
        TRACE + "ConnectionRefusedError: [Errno 111] Connection refused\n",
        TRACE + "torch.OutOfMemoryError: CUDA out of memory\n",
        TRACE + "KeyError: 'https://example.org'\n",
        "see https://example.org for help\n",
    ],
)
def test_other_failures_keep_their_own_words(text: str) -> None:
    verdict = judge(text)

    assert "no network" not in verdict.detail
    assert verdict.flags == ()


def test_nothing_is_said_where_the_network_is_there() -> None:
    assert "no network" not in judge(GAI, isolation="none").detail
    with_network = JOB.model_copy(update={"network": "host"})
    verdict = classify(replace(OK, exit_code=1), parse(b"", GAI.encode()), with_network)

    assert "no network" not in verdict.detail


def test_a_script_that_swallowed_it_and_printed_nothing_is_told_too() -> None:
    verdict = judge(GAI, exit_code=0)

    assert (verdict.status, verdict.reason) == (Status.CRASH, "no_metric")
    assert "no network" in verdict.detail


def test_a_scored_run_is_left_alone() -> None:
    verdict = judge(GAI, "val_bpb: 1\n", exit_code=0)

    assert (verdict.status, verdict.flags) == (Status.SCORED, ())


def test_hostile_names_stay_short_and_harmless() -> None:
    hosts = "HTTPSConnectionPool(host='" + "a" * 5000 + "', x) https://user:secret@example.org/x"
    text = judge(TRACE + f"ConnectionError: {hosts} \x1b[31m\n").detail

    assert len(text) <= 500
    assert text.isprintable()
    assert (
        "secret"
        not in judge(
            TRACE + "urllib.error.URLError: <urlopen error> https://user:secret@example.org/x\n"
        ).detail
    )


@given(st.text(max_size=400))
def test_any_last_words_give_one_harmless_line_or_none(text: str) -> None:
    advice = wanted(text, GAI + text)

    assert advice is None or (advice.isprintable() and len(advice) <= 400)
