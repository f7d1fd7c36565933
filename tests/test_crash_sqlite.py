"""SQLite under `kill -9`: what was acknowledged is there, whole, and nothing else is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import keelfs
from keelfs.testing import workload
from keelfs.testing.killer import Killed, rounds

#: Attempts to catch a careless writer; each round catches most of them.
ATTEMPTS = 40


class Played:
    """A store in which the script is played on, round after round, each ended by a kill."""

    def __init__(self, directory: Path, seed: int, *options: str) -> None:
        self.url = f"sqlite:///{directory / 'store.db'}"
        self.seed = seed
        self.options = options
        self.at = 0
        #: How often the kill fell between an operation's beginning and its acknowledgement.
        self.inside = 0

    def spawn(self, number: int) -> list[str]:
        command = [sys.executable, "-m", "keelfs.testing.workload", self.url]
        return [*command, f"--seed={self.seed}", f"--start={self.at}", *self.options]

    def verify(self, killed: Killed) -> None:
        acked, begun = max(killed.acked), max(killed.begun)
        with keelfs.open(self.url) as store:
            self.at = workload.reached(store, self.seed, acked, begun)
        self.inside += begun > acked


def _torment(directory: Path, count: int, seed: int, *options: str) -> Played:
    played = Played(directory, seed, *options)
    rounds(count, played.spawn, played.verify, seed=seed)
    return played


@pytest.mark.parametrize("durability", ["full", "relaxed"])
def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path, durability: str) -> None:
    """ "relaxed" promises as much as "full", as long as it is not the power that fails."""
    played = _torment(tmp_path, 10, 21, f"--durability={durability}")
    assert played.at > 50
    assert played.inside, "no kill hit an operation under way"


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(5))
def test_a_writer_killed_forty_times_loses_nothing(tmp_path: Path, seed: int) -> None:
    assert _torment(tmp_path, 40, seed).inside


@pytest.mark.parametrize(("careless", "told"), [("early", "LOST"), ("pieces", "NONATOMIC")])
def test_a_careless_writer_is_convicted(tmp_path: Path, careless: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        _torment(tmp_path, ATTEMPTS, 22, f"--careless={careless}")
