"""Tags, slugs and commit messages made of whatever somebody writes."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.errors import UsageError
from overnight.snapshots.tags import check_tag, commit_message, default_tag, slug


@pytest.mark.parametrize(
    ("day", "tag"),
    [(date(2026, 3, 5), "mar5"), (date(2025, 12, 31), "dec31"), (date(2026, 5, 1), "may1")],
)
def test_the_default_tag_is_an_english_month_and_a_day_without_zero(day: date, tag: str) -> None:
    assert default_tag(day) == tag


@pytest.mark.parametrize("tag", ["mar5", "a", "x.y", "gpu-0_b", "a.b.c"])
def test_plain_tags_are_taken(tag: str) -> None:
    assert check_tag(tag) == tag


@pytest.mark.parametrize(
    "tag", ["", "-x", "a..b", "a/b", "x.lock", "a.", "a b", "ä", "a\n", "../x", "a" * 64, ".a"]
)
def test_a_tag_that_can_name_no_branch_or_folder_is_refused(tag: str) -> None:
    with pytest.raises(UsageError):
        check_tag(tag)


@given(st.text(max_size=300))
def test_every_slug_is_short_and_plain(hypothesis: str) -> None:
    made = slug(hypothesis)

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", made)
    assert len(made) <= 40


def test_a_slug_keeps_the_first_words() -> None:
    assert (
        slug("Raise the Learning-Rate to 0.04, größer") == "raise-the-learning-rate-to-0-04-groer"
    )
    assert slug("学习率") == "idea"


@given(st.text(max_size=5000))
def test_every_commit_message_is_one_safe_line(hypothesis: str) -> None:
    message = commit_message(hypothesis)

    assert message.startswith("exp: ")
    assert len(message.splitlines()) == 1
    assert len(message.encode()) < 2100
    assert "\0" not in message


def test_a_message_can_not_turn_the_direction_of_text() -> None:
    assert commit_message("a\u202eb\tc\u2028d\x85e") == "exp: a b c d e"
