"""A space in which the script of the crash tests is played on, from crash to crash."""

from __future__ import annotations

import sys

import keelfs
from keelfs.testing import workload
from keelfs.testing.killer import Killed


class Played:
    """A space in which the script is played on, round after round, each ended by a kill."""

    def __init__(self, url: str, seed: int, *options: str, space: str = workload.SPACE) -> None:
        self.url = url
        self.seed = seed
        self.space = space
        self.options = options
        self.at = 0
        #: How often the kill fell between an operation's beginning and its acknowledgement.
        self.inside = 0

    def spawn(self, number: int) -> list[str]:
        """The command of a writer that goes on where the last one was killed."""
        return [
            *(sys.executable, "-m", "keelfs.testing.workload", self.url, f"--seed={self.seed}"),
            *(f"--start={self.at}", f"--space={self.space}", *self.options),
        ]

    def verify(self, killed: Killed) -> None:
        """Objects to a store that has lost anything acknowledged, or holds half of anything."""
        acked, begun = max(killed.acked), max(killed.begun)
        with keelfs.open(self.url) as store:
            self.at = workload.reached(store, self.seed, acked, begun, self.space)
        self.inside += begun > acked
