"""Both databases are like the model in memory, and the check finds every planted bug."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from databases import ENGINES, Opened
from keelfs.memory import MemorySpace
from keelfs.model import Limits
from keelfs.store.home import SpaceHome
from keelfs.testing.model_check import machine
from keelfs.testing.planted import BUGS

#: Tight enough to be met by chance.
BYTES = 200
TIGHT = Limits(bytes=BYTES, nodes=60, file_bytes=180, depth=5, history_count=3)
WIDER = Limits(bytes=BYTES + 1, nodes=60, file_bytes=180, depth=5, history_count=3)


def profile(examples: int, steps: int, **more: Any) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, database=None,
        derandomize=True, suppress_health_check=list(HealthCheck), **more,
    )  # fmt: skip


def tight() -> MemorySpace:
    return MemorySpace(limits=TIGHT)


def test_two_sound_volumes_agree() -> None:
    """A volume is like its own model, and its counters equal a recount after every run."""
    opened: list[MemorySpace] = []

    def recounted() -> MemorySpace:
        for space in opened:
            assert space.recount() == {name: space._state.totals[name] for name in space.recount()}
        opened[:] = [tight()]
        return opened[0]

    run_state_machine_as_test(machine(recounted, tight), settings=profile(40, 40))


def compare_with_memory(engine: str, url: str, examples: int, steps: int) -> None:
    opened = Opened(engine, url)

    def empty() -> SpaceHome:
        space = opened.space(opened.tenant())
        space.set_limits(TIGHT)
        return space

    try:
        run_state_machine_as_test(machine(empty, tight), settings=profile(examples, steps))
    finally:
        opened.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_database_agrees_with_memory(engine: str, request: pytest.FixtureRequest) -> None:
    """A space of a store is like the model, answer by answer and tree by tree."""
    compare_with_memory(engine, request.getfixturevalue(f"{engine}_url"), 10, 30)


@pytest.mark.torture
@pytest.mark.parametrize("engine", ENGINES)
def test_a_database_agrees_with_memory_for_long(
    engine: str, request: pytest.FixtureRequest
) -> None:
    """The same, for longer."""
    compare_with_memory(engine, request.getfixturevalue(f"{engine}_url"), 500, 100)


def test_there_are_enough_bugs_to_find() -> None:
    assert len(BUGS) >= 20


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_planted_bugs_are_found(bug: str) -> None:
    """Every planted bug is found, as a difference and not as a crash of the check."""
    limits = WIDER if bug == "QuotaOffByOne" else TIGHT
    broken = machine(lambda: BUGS[bug](MemorySpace(limits=limits)), tight)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(broken, settings=profile(1600, 40, phases=[Phase.generate]))


@pytest.mark.torture
def test_two_sound_volumes_agree_for_long() -> None:
    """The same, for longer."""
    run_state_machine_as_test(machine(tight, tight), settings=profile(1000, 100))
