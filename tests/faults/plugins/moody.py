"""A proposer from outside, by the ordinary door: `random`, but with a flag file up it proposes
what can't be applied, so that the session pauses itself."""

from __future__ import annotations

import os
from pathlib import Path

from overnight.contracts.experiment import Proposal
from overnight.contracts.proposing import History
from overnight.plugins import PROPOSERS, load


class MoodyProposer:
    """Options: those of `random`. The flag is <FAULT_FOLDER>/moody."""

    name = "moody"

    def __init__(self, options: dict[str, object]) -> None:
        self._good = load(PROPOSERS, "random")(options)
        self._flag = Path(os.environ["FAULT_FOLDER"]) / "moody"

    def propose(self, history: History) -> Proposal:
        """A random setting; in a bad mood, an edit of a file that may not change."""
        proposal: Proposal = self._good.propose(history)
        if not self._flag.exists():
            return proposal
        return proposal.model_copy(update={"changes": {"pace.py": "pass\n"}})
