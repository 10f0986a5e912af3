"""The configuration that ran is read off the code, in whatever case its names are written."""

from __future__ import annotations

import pytest

from overnight.sessions.report.constants import constants


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LR = 3e-3\nNAME = 'x'\n", {"LR": "3e-3", "NAME": "'x'"}),
        ("learning_rate = 1e-3\nn_layer: int = 4\n", {"learning_rate": "1e-3", "n_layer": "4"}),
        ("batch_size = -1\ndropout = 0.0\n", {"batch_size": "-1", "dropout": "0.0"}),
        ("seed = 1337\nbest_loss = 1e9\ni = 0\n_lr = 1\nout_dir = 'out'\nmax_iters = 9\n", {}),
        ("lr = compute()\nfor lr in (1, 2): pass\n", {}),
    ],
)
def test_settings_are_found_by_capitals_or_by_what_their_name_tells(
    text: str, found: dict[str, str]
) -> None:
    assert constants({"train.py": text}) == found
