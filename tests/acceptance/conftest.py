"""The stage of end-to-end tests, for whole evenings too."""

import pytest

pytest.register_assert_rewrite("tests.e2e.procs", "tests.e2e.stage", "tests.e2e.truth")

from tests.e2e.stage import stage  # noqa: E402 - after the line above

__all__ = ["stage"]
