"""The killer hits writers at work, and finds those that acknowledge too early or write in halves.

The writers here keep a file of fixed lines; they are honest, hasty, or do things in two steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from keelfs.errors import StoreFailed
from keelfs.testing.killer import Killed, rounds

WRITER = """
import os, sys, time
path, manner = sys.argv[1:]
def say(word, n): print(word, n, flush=True)
with open(path, "ab", buffering=0) as file:
    for n in range(1, 10_000):
        say("begin", n)
        if manner == "hasty":
            say("ack", n); time.sleep(0.001)
        first, second = b"%06d a\\n" % n, b"%06d b\\n" % n
        if manner == "halves":
            file.write(first); time.sleep(0.001); file.write(second)
        else:
            time.sleep(0.001); file.write(first + second)
        if manner == "breaks" and n == 3: raise RuntimeError("the writer broke")
        if manner != "hasty": say("ack", n)
"""


class Verifier:
    """Counts what it finds wrong instead of stopping at the first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lost = self.halved = 0

    def path(self, number: int) -> Path:
        return self.directory / f"{number}.txt"

    def __call__(self, killed: Killed) -> None:
        lines = self.path(killed.number).read_text().splitlines()
        whole = {int(line.split()[0]) for line in lines if line.endswith("b")}
        assert killed.acked <= killed.begun
        assert max(killed.begun) - len(killed.acked) <= 1
        assert whole <= killed.begun
        self.lost += not killed.acked <= whole
        self.halved += len(lines) % 2


def _run(directory: Path, manner: str, count: int = 12) -> tuple[Verifier, list[Killed]]:
    verifier = Verifier(directory)
    done = rounds(
        count,
        lambda number: [sys.executable, "-c", WRITER, str(verifier.path(number)), manner],
        verifier,
        seed=11,
    )
    return verifier, done


def test_an_honest_writer_passes_and_is_hit_at_different_moments(tmp_path: Path) -> None:
    verifier, done = _run(tmp_path, "honest")
    assert (verifier.lost, verifier.halved) == (0, 0)
    assert len({len(killed.acked) for killed in done}) >= 5
    assert any(killed.begun - killed.acked for killed in done), "no kill hit a change under way"


def test_a_writer_that_acknowledges_too_early_is_found(tmp_path: Path) -> None:
    verifier, _ = _run(tmp_path, "hasty")
    assert verifier.lost >= 3


def test_a_writer_that_works_in_halves_is_found(tmp_path: Path) -> None:
    verifier, _ = _run(tmp_path, "halves")
    assert verifier.halved >= 2


def test_a_writer_that_breaks_by_itself_is_reported_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="the writer broke"):
        _run(tmp_path, "breaks", 1)


def test_what_a_verifier_objects_to_is_told_with_the_round_and_the_seed(tmp_path: Path) -> None:
    def verify(killed: Killed) -> None:
        raise AssertionError("not this")

    command = [sys.executable, "-c", WRITER, str(tmp_path / "f"), "honest"]
    with pytest.raises(AssertionError, match="not this") as caught:
        rounds(1, lambda number: command, verify, seed=12)
    assert "round 0 of seed 12" in caught.value.__notes__[0]


def test_something_else_may_be_crashed_first(tmp_path: Path) -> None:
    crashed: list[int] = []
    command = [sys.executable, "-c", WRITER, str(tmp_path / "f"), "honest"]
    rounds(2, lambda number: command, lambda killed: None, seed=13, crash=crashed.append)
    assert crashed == [0, 1]
