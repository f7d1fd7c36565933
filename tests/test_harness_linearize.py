"""The judge of histories agrees with trying everything, is fast, and finds what is planted."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from keelfs.errors import Conflict, InDoubt, NotFound
from keelfs.model import ABSENT, ANY, Kind, Stat
from keelfs.ops import Append, Op, Open, Remove, Write
from keelfs.testing.linearize import NOTHING, Call, Outcome, Recorder, State, follow, violations


class Register:
    """A single file, honest or with one of the faults a store could have."""

    def __init__(self, fault: str = "") -> None:
        self.state, self.former = NOTHING, NOTHING
        self.fault = fault

    def answer(self, call: Call) -> Call:
        """The call with its answer filled in."""
        revision, value = self.state
        met = call.expect is None or call.expect == revision
        if self.fault == "lost update":
            met = met or call.expect == revision - 1
        if call.verb == "read":
            revision, value = self.former if self.fault == "stale read" else self.state
            if self.fault == "torn read" and len(value) > 1:
                value = value[:1] + self.former[1][1:]
            if not revision:
                return replace(call, outcome="missing")
            return replace(call, revision=revision, value=value)
        if call.verb == "remove" and not revision:
            return replace(call, outcome="missing")
        if not met:
            return replace(call, outcome="conflict")
        if call.verb == "append" and revision and not call.data:
            return replace(call, revision=revision)
        self.former = self.state
        if call.verb == "remove":
            self.state = NOTHING
            return call
        kept = value + call.data if call.verb == "append" else call.data
        if call.verb == "append" and self.fault == "lost append" and revision == 1:
            kept = value
        self.state = (revision + 1, kept)
        return replace(call, revision=revision + 1)


def history(
    rng: random.Random, calls: int, processes: int, path: str = "f", fault: str = ""
) -> list[Call]:
    """Calls of a few processes on one register; each takes effect somewhere between its ends."""
    register = Register(fault)
    free = dict.fromkeys(range(processes), 0.0)
    events: list[tuple[float, float, float]] = []
    for _ in range(calls):
        process = rng.choice(list(free))
        begin = free[process] + rng.random()
        instant = begin + rng.random() * 3
        end = free[process] = instant + rng.random() * 3
        events.append((instant, begin, end))
    answered: list[Call] = []
    for number, (_, begin, end) in enumerate(sorted(events)):
        call = Call(
            path=path,
            verb=rng.choice(["read", "read", "write", "append", "remove"]),
            invoked=int(begin * 1000),
            returned=int(end * 1000),
            data=b"%d," % number if rng.random() < 0.9 else b"",
            expect=rng.choice([None, None, 0, register.state[0], rng.randrange(4)]),
        )
        if call.verb == "read":
            call = replace(call, data=b"", expect=None)
        answered.append(register.answer(call))
    return answered


def possible(calls: Sequence[Call]) -> bool:
    """Whether any order at all explains the history: tries every one."""
    doubtful = [call for call in calls if call.outcome == "in_doubt"]
    sure = [call for call in calls if call.outcome != "in_doubt"]
    chosen = itertools.chain.from_iterable(
        itertools.combinations(doubtful, n) for n in range(len(doubtful) + 1)
    )
    return any(_orderable([*sure, *some], NOTHING) for some in chosen)


def _orderable(calls: list[Call], state: State) -> bool:
    if not calls:
        return True
    horizon = min(
        (call.returned for call in calls if call.outcome != "in_doubt"), default=float("inf")
    )
    for call in calls:
        if call.invoked <= horizon:
            after = follow(state, call)
            rest = [other for other in calls if other is not call]
            if after is not None and _orderable(rest, after):
                return True
    return False


def spoiled(rng: random.Random, calls: list[Call]) -> list[Call]:
    """The history with a few answers changed or withheld."""
    outcomes: list[Outcome] = ["done", "conflict", "missing", "in_doubt", "in_doubt"]
    calls = list(calls)
    for _ in range(rng.randrange(3)):
        i = rng.randrange(len(calls))
        call = calls[i]
        change = rng.randrange(4)
        if change == 0:
            call = replace(call, revision=rng.choice([None, 1, 2, 3]))
        elif change == 1:
            call = replace(call, value=rng.choice(calls).data if call.verb == "read" else None)
        elif change == 2:
            call = replace(call, outcome=rng.choice(outcomes), revision=None)
        else:
            call = replace(call, returned=call.invoked)
        calls[i] = call
    return calls


def test_it_agrees_with_trying_every_order() -> None:
    rng = random.Random(1)
    verdicts: dict[bool, int] = {True: 0, False: 0}
    for _ in range(4000):
        calls = history(rng, rng.randrange(2, 7), rng.randrange(1, 5))
        calls = spoiled(rng, calls)
        judged = [call for call in calls if call.outcome != "in_doubt" or call.verb != "read"]
        expected = possible(judged)
        assert (not violations(calls)) == expected, calls
        verdicts[expected] += 1
    assert min(verdicts.values()) > 500, "the histories are too alike to prove anything"


def test_what_a_single_file_answered_is_always_accepted() -> None:
    rng = random.Random(2)
    for processes in (1, 2, 8, 16):
        assert not violations(history(rng, 400, processes))


@pytest.mark.parametrize("fault", ["stale read", "torn read", "lost update", "lost append"])
def test_it_finds_the_fault_of_a_store(fault: str) -> None:
    found = [
        bool(violations(history(random.Random(seed), 60, 3, fault=fault))) for seed in range(20)
    ]
    assert sum(found) >= 15
    assert not any(violations(history(random.Random(seed), 60, 3)) for seed in range(20))


def test_one_corrupted_read_in_twenty_thousand_calls_is_found() -> None:
    rng = random.Random(3)
    calls = [call for n in range(50) for call in history(rng, 400, 8, path=f"f{n}")]
    assert len(calls) == 20_000
    assert violations(calls) == []
    reads = [i for i, call in enumerate(calls) if call.verb == "read" and call.value]
    unlucky = rng.choice(reads)
    calls[unlucky] = replace(calls[unlucky], value=(calls[unlucky].value or b"")[:-1] + b"?")
    (violation,) = violations(calls)
    assert violation.path == calls[unlucky].path
    assert violation.misfit == calls[unlucky]
    assert "does not allow" in str(violation)


def test_a_call_in_doubt_may_or_may_not_have_happened_but_not_before_it_began() -> None:
    doubtful = Call(path="f", verb="write", invoked=10, outcome="in_doubt", data=b"x", expect=0)
    seen = Call(path="f", verb="read", invoked=90, returned=95, revision=1, value=b"x")
    absent = Call(path="f", verb="read", invoked=20, returned=25, outcome="missing")
    assert not violations([doubtful, absent])
    assert not violations([doubtful, absent, seen])
    assert violations([doubtful, seen, replace(absent, invoked=96, returned=99)])
    assert violations([replace(doubtful, invoked=97), seen])


def test_many_calls_in_doubt_do_not_explode() -> None:
    doubtful = [
        Call(path="f", verb="append", invoked=0, outcome="in_doubt", data=b"%d," % n)
        for n in range(40)
    ]
    reads = [
        Call(
            path="f", verb="read", invoked=10 * n + 1, returned=10 * n + 2, revision=n,
            value=b"".join(b"%d," % i for i in range(n)),
        )
        for n in range(1, 40)
    ]  # fmt: skip
    assert not violations([*doubtful, *reads])
    assert violations([*doubtful, *reads, replace(reads[3], invoked=9000, returned=9001)])


class Pinned:
    """The content of the toy store."""

    def __init__(self, state: State) -> None:
        self.value = state[1]
        self.stat = stat(state)

    def read(self, offset: int, length: int) -> bytes:
        return self.value[offset : offset + length]


def stat(state: State) -> Stat:
    return Stat(kind=Kind.FILE, id=b"", size=len(state[1]), revision=state[0], mode=0)


class ToyStore:
    """A handler over one dictionary; `hole` runs between looking and writing if it is given."""

    def __init__(self, hole: Callable[[], object] | None = None) -> None:
        self.files: dict[str, State] = {}
        self.lock = threading.Lock()
        self.hole = hole

    def perform(self, op: Op[Any]) -> Any:
        if self.hole is not None:
            return self._run(op)
        with self.lock:
            return self._run(op)

    def _run(self, op: Op[Any]) -> Any:
        assert isinstance(op, Open | Write | Append | Remove)
        path = str(op.path)
        revision, value = self.files.get(path, NOTHING)
        if self.hole is not None:
            self.hole()
        if isinstance(op, Open):
            if not revision:
                raise NotFound
            return Pinned((revision, value))
        if isinstance(op, Remove) and not revision:
            raise NotFound
        wanted = {ANY: revision, ABSENT: 0}.get(op.expect, op.expect)
        if wanted != revision:
            raise Conflict
        if isinstance(op, Remove):
            self.files[path] = NOTHING
            return None
        assert isinstance(op.data, bytes)
        kept = value + op.data if isinstance(op, Append) else op.data
        self.files[path] = (revision + 1, kept)
        return stat(self.files[path])


def _hammer(store: ToyStore, seed: int) -> list[Call]:
    """Four threads, each with its own recorder."""
    recorders = [Recorder(store) for _ in range(4)]  # type: ignore[arg-type]

    def work(number: int) -> None:
        rng, recorder = random.Random(seed * 10 + number), recorders[number]
        for turn in range(60):
            path = f"/{rng.randrange(2)}"
            try:
                match rng.randrange(5):
                    case 0:
                        recorder.write(path, b"%d:%d;" % (number, turn))
                    case 1:
                        recorder.append(path, b"%d:%d;" % (number, turn))
                    case 2:
                        recorder.write(path, b"new", expect=rng.choice([ABSENT, 1, 2, 3]))
                    case 3:
                        recorder.read(path)
                    case _:
                        recorder.remove(path)
            except (Conflict, NotFound):
                pass

    threads = [threading.Thread(target=work, args=[n]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [call for recorder in recorders for call in recorder.calls]


def test_threads_on_an_honest_store_pass_and_a_race_is_caught() -> None:
    barrier = threading.Event()
    assert not violations(_hammer(ToyStore(), 1))
    racing = ToyStore(hole=lambda: barrier.wait(0.0001))
    assert violations(_hammer(racing, 1))


def test_a_recorder_keeps_what_is_in_doubt_and_drops_clean_failures() -> None:
    class Failing:
        def perform(self, op: Op[Any]) -> Any:
            raise InDoubt if isinstance(op, Write) else Conflict

    recorder = Recorder(Failing())  # type: ignore[arg-type]
    with pytest.raises(InDoubt):
        recorder.write("/f", b"x")
    with pytest.raises(Conflict):
        recorder.append("/f", b"x", expect=4)
    assert [(call.outcome, call.expect) for call in recorder.calls] == [
        ("in_doubt", None),
        ("conflict", 4),
    ]
