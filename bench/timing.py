"""How things are timed: subject and floor by turns, medians of the turns."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median

from bench.row import Measured

#: Does some work and tells how many seconds one unit of it took.
Timed = Callable[[], float]

_SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}


def block(calls: int, work: Callable[[int], object]) -> Timed:
    """`calls` calls at a stretch, each with the next number; the mean of them."""
    numbers = count()

    def timed() -> float:
        mine = [next(numbers) for _ in range(calls)]
        started = time.perf_counter()
        for number in mine:
            work(number)
        return (time.perf_counter() - started) / calls

    return timed


def once(work: Callable[[int], object], after: Callable[[int], object] | None = None) -> Timed:
    """One call, then what makes the next one possible, which is not timed."""
    numbers = count()

    def timed() -> float:
        number = next(numbers)
        started = time.perf_counter()
        work(number)
        taken = time.perf_counter() - started
        if after is not None:
            after(number)
        return taken

    return timed


def by_turns(subject: Timed, floor: Timed, rounds: int, unit: str) -> Measured:
    """The ratio is the median of the rounds' ratios: a slow moment of the machine hits both sides.

    The first round warms caches and is forgotten. Who goes first alternates.
    """
    subjects: list[float] = []
    floors: list[float] = []
    with _collected():
        for number in range(rounds + 1):
            if number % 2:
                subjects.append(subject())
                floors.append(floor())
            else:
                floors.append(floor())
                subjects.append(subject())
    del subjects[0], floors[0]
    ratio = median(mine / other for mine, other in zip(subjects, floors, strict=True))
    scale = _SCALES[unit]
    return Measured(median(subjects) * scale, median(floors) * scale, unit, ratio)


def as_rate(measured: Measured, amount: float, unit: str) -> Measured:
    """Seconds per piece turned into pieces of `amount` per second, larger being faster."""
    scale = _SCALES[measured.unit]
    return Measured(
        amount * scale / measured.subject,
        amount * scale / measured.floor,
        unit,
        1 / measured.ratio,
    )


def faster(measured: Measured) -> Measured:
    """The same, its ratio saying how many times faster the subject is."""
    return Measured(measured.subject, measured.floor, measured.unit, 1 / measured.ratio)


def crowd(works: list[Callable[[int], object]], calls: int) -> Timed:
    """One thread per work, all begun at once; seconds per call over all of them."""
    numbers = count()

    def timed() -> float:
        turn = next(numbers)
        barrier = threading.Barrier(len(works) + 1)
        errors: list[BaseException] = []

        def run(work: Callable[[int], object]) -> None:
            barrier.wait()
            try:
                for number in range(turn * calls, (turn + 1) * calls):
                    work(number)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        barrier.wait()
        started = time.perf_counter()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - started
        if errors:
            raise errors[0]
        return taken / (len(works) * calls)

    return timed


@contextmanager
def _collected() -> Iterator[None]:
    """Begins without garbage, so that no row pays for what the one before it has left."""
    gc.collect()
    yield
