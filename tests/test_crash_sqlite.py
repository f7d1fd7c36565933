"""SQLite under `kill -9`: what was acknowledged is there, whole, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from keelfs.testing.killer import rounds
from played import Played

#: Attempts to catch a careless writer; each round catches most of them.
ATTEMPTS = 40


def _torment(directory: Path, count: int, seed: int, *options: str) -> Played:
    played = Played(f"sqlite:///{directory / 'store.db'}", seed, *options)
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
