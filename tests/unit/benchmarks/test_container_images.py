"""The table of images in docs/containers.md."""

from __future__ import annotations

import pytest
from benchmarks import container_images
from benchmarks.container_images import Image, page_part


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_images, "_today", lambda: "2026-01-31")
    monkeypatch.setattr(container_images, "_machine", lambda: "2 shared cores")


def test_a_figure_that_was_not_measured_is_left_empty() -> None:
    text = page_part(
        [
            Image("ours:latest", 432_100_000, 72.4, 0.44, 6.96),
            Image("base:1", 1_150_000_000, stand_in=True),
        ],
        bases_seconds=None,
    )

    assert text == (
        "Measured on 2026-01-31: 2 shared cores. Sizes include the base image.\n"
        "\n"
        "| image | size | built cold | nothing changed | code changed |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| `ours:latest` | 432 MB | 72 s | 0.4 s | 7.0 s |\n"
        "| `base:1` (stand-in) | 1,150 MB |  |  |  |\n"
    )


def test_the_stand_ins_time_is_told_where_all_were_made() -> None:
    assert "All stand-ins together: 91 s from nothing." in page_part([], bases_seconds=90.6)


def test_the_page_has_a_place_for_the_table() -> None:
    page = container_images.PAGE.read_text("utf-8")

    assert len(container_images._BLOCK.findall(page)) == 1
