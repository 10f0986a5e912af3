"""Which paths are bound read-only: the fewest that cover all but the editable files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overnight.runner.frozen import covering

NAMES = st.sampled_from(["a", "b", "c.py", "d.py"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("files", "editable", "expected"),
    [
        (["train.py", "prepare.py"], ["train.py"], ("prepare.py",)),
        (["train.py", "data/a", "data/b/c"], ["train.py"], ("data",)),
        (["src/m/train.py", "src/m/x.py", "src/lib/y.py"], ["src/m/train.py"],
         ("src/lib", "src/m/x.py")),
        (["train.py"], ["train.py"], ()),
        (["a/b/t.py", "a/z"], ["a/b/t.py"], ("a/z",)),
    ],
)  # fmt: skip
def test_folders_are_taken_whole_where_nothing_below_is_editable(
    files: list[str], editable: list[str], expected: tuple[str, ...]
) -> None:
    assert covering(files, editable) == expected


@given(st.sets(PATHS, max_size=12), st.sets(PATHS, max_size=3))
def test_every_other_file_is_covered_and_no_editable_one_is(
    files: set[str], editable: set[str]
) -> None:
    everything = {
        f for f in files | editable if not any(o.startswith(f"{f}/") for o in files | editable)
    }
    wanted = sorted(editable & everything)
    chosen = covering(sorted(everything), wanted)

    def covered(path: str) -> bool:
        return any(path == c or path.startswith(f"{c}/") for c in chosen)

    assert all(covered(path) for path in everything - set(wanted))
    assert not any(covered(path) for path in wanted)
