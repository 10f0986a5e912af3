"""The curve and the page: nothing overlaps, nothing escapes, three experiments or ten thousand."""

from __future__ import annotations

import itertools
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.sessions.report.sessions_of import Facts, Idea, facts_of

from overnight.contracts.errors import UsageError
from overnight.sessions.report import canvas, labels, save, scale
from overnight.sessions.report.canvas import Ink, Words
from overnight.sessions.report.curve import curve
from overnight.sessions.report.page import MARK, page
from overnight.sessions.report.png import png
from overnight.sessions.report.research import research
from overnight.sessions.report.svg import svg

NASTY = "</title><script>alert(1)</script>\u202e\u2028<img src=x onerror=y>&amp;\"'$x^2$\x1b[31m"


def _session(count: int, seed: int = 1) -> Facts:
    rng = random.Random(seed)
    ideas = []
    for n in range(count):
        kind = rng.random()
        metric = None if kind < 0.15 else 2.0 - 0.8 * n / count + abs(rng.gauss(0, 0.2))
        ideas.append(Idea(metric=metric, knobs={rng.choice(["LR", "DEPTH"]): n + 5}))
    return facts_of(*ideas)


@pytest.mark.parametrize("count", [0, 1, 3, 60, 600])
def test_names_cover_neither_each_other_nor_a_kept_point(count: int) -> None:
    picture = curve(_session(count))
    spots = [s.point for s in picture.shapes if isinstance(s, canvas.Spot)]
    named = [s for s in picture.shapes if isinstance(s, Words) and re.match(r"\d{3} ", s.text)]
    boxes = []
    for words in named:
        width = canvas.text_width(words.text, words.size)
        left = words.point[0] - {"start": 0, "middle": width / 2, "end": width}[words.align]
        top = words.point[1] - words.size * 0.8
        boxes.append(labels.Box(left, top, left + width, words.point[1]))

    assert named
    assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))
    assert not any(box.meets(around) for box in boxes for around in labels.around(spots, 2))
    assert all(box.left >= 0 and box.right <= picture.width for box in boxes)


def test_the_best_is_always_among_the_named() -> None:
    for seed in range(8):
        told = _session(200, seed)
        texts = [s.text for s in curve(told).shapes if isinstance(s, Words)]

        assert any(text.startswith(f"{told.best_id:03d} ") for text in texts), seed


def test_what_crashed_stands_at_the_border() -> None:
    picture = curve(_session(60))
    ticks = [s for s in picture.shapes if isinstance(s, canvas.Ticks) and s.ink is Ink.FAILED]

    assert len(ticks) == 1
    assert len({y for _, y in ticks[0].points}) == 1


@pytest.mark.parametrize(
    ("kept", "others", "log", "off"),
    [
        ([2.0, 1.0], [1.5, 2.2], False, []),
        ([100.0, 0.5], [30.0], True, []),
        ([2.0, 1.0], [1.5] * 20 + [1e9], False, [1e9]),
        ([1e308, -1e308], [0.0], False, []),
        ([1.0], [1.0], False, []),
        ([0.0], [], False, []),
        ([1e-320, 1e-310], [], True, []),
        ([1e-320, 1e308], [-1.0], False, []),
        ([1e-320, 1e308], [], True, []),
        ([-5.0, -6.0], [-4.0], False, []),
        ([], [], False, []),
    ],
)
def test_an_axis_shows_what_matters_and_places_everything(
    kept: list[float], others: list[float], log: bool, off: list[float]
) -> None:
    axis = scale.value_axis(kept, [*kept, *others], 300.0, 60.0, minimize=True)

    assert axis.log is log
    assert [v for v in others if axis.off(v)] == off
    for value in [*kept, *others]:
        assert 60.0 <= axis.place(value) <= 300.0
    ticks = axis.ticks()
    assert len(ticks) <= 12
    assert all(scale.label(tick, ticks) for tick in ticks)


def test_maximise_clips_what_is_far_below() -> None:
    axis = scale.value_axis([0.8, 0.9], [0.85] * 20 + [-50.0], 300.0, 60.0, minimize=False)

    assert axis.off(-50.0) == -1
    assert not axis.log


class _Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def _hostile() -> Facts:
    return facts_of(
        Idea(metric=1.9, hypothesis=NASTY, knobs={"LR": NASTY[:50]}),
        Idea(hypothesis=NASTY, result={"detail": NASTY, "signature": NASTY, "hardware": NASTY}),
        Idea(metric=1.95, hypothesis=f"{NASTY}: {NASTY}"),
        start={"LR": 0.1, NASTY[:40]: 1},
    )


def test_nothing_that_a_proposer_wrote_is_markup() -> None:
    told = _hostile()
    text = page(told, research(told))
    parsed = _Page()
    parsed.feed(text)

    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert "&lt;script&gt;" in text
    assert not re.search("[\u2028\u202e\x1b\x00]", text)


def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    told = _session(20)
    text = page(told, research(told))
    parsed = _Page()
    parsed.feed(text)

    assert text.startswith(f"<!doctype html>\n{MARK}")
    assert "default-src 'none'" in text
    assert not {"script", "link", "iframe", "img", "object"} & set(parsed.tags)
    assert not [v for n, v in parsed.attributes if n in ("href", "src")]
    assert re.findall(r"https?://[^\"\s<]+", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in text
    for row in re.findall(r"<tr>.*?</tr>", text):
        assert row.count("<t") == row.count("</t"), row


def test_many_experiments_make_a_picture_of_bounded_size() -> None:
    told = _session(1500)

    assert len(svg(curve(told))) < 120_000
    assert page(told, research(told)).count("<tr>") > 1500


def test_a_picture_is_drawn_whatever_stands_in_it() -> None:
    pytest.importorskip("matplotlib")
    for told in (_hostile(), facts_of(), facts_of(baseline=None), _session(12)):
        data = png(curve(told))

        assert data.startswith(b"\x89PNG")
        assert len(data) > 5000


def test_the_same_session_gives_the_same_picture() -> None:
    pytest.importorskip("matplotlib")

    assert png(curve(_session(12))) == png(curve(_session(12)))


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)

    with pytest.raises(UsageError, match=r"pip install 'overnight\[report\]'"):
        png(curve(facts_of()))


def test_only_reports_are_written_over(tmp_path: Path) -> None:
    ours, theirs, new = tmp_path / "a.html", tmp_path / "train.py", tmp_path / "new.html"
    told = facts_of()
    save.save(ours, page(told, research(told)).encode())
    theirs.write_text("LR = 1\n")

    assert save.save_all({ours: lambda: b"x", new: lambda: b"y"}, force=False) == [ours, new]
    with pytest.raises(UsageError, match="is no report: give another name, or --force"):
        save.save_all({new.with_name("b.html"): lambda: b"z", theirs: lambda: b"x"}, force=False)
    assert theirs.read_text() == "LR = 1\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "new.html", "train.py"]
    save.save_all({theirs: lambda: b"x"}, force=True)
    assert theirs.read_text() == "x"
    for bad in (tmp_path, tmp_path / "no" / "a.html"):
        with pytest.raises(UsageError, match="folder"):
            save.check_place(bad, force=True)
