"""Judges whether what concurrent callers saw could have happened one call at a time.

A history is linearizable if every call can be given one instant between its beginning and its end
so that the answers, taken in the order of those instants, are the answers of a single file. Files
do not influence one another here, so each path is judged by itself; that is what makes histories of
many thousand calls cheap. The search is that of Wing and Gong with the memory that Lowe added.

A call whose answer never came may have taken effect at any instant after it began, or never.

Who calls: concurrency tests record calls with a `Recorder` per process or thread, then judge the
histories of all of them together. Times are `time.monotonic_ns`, one clock for the whole machine.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from keelfs.errors import Conflict, DeadlineExceeded, InDoubt, InvalidArgument, KeelError, NotFound
from keelfs.model import ABSENT, ANY, Expect, Stat
from keelfs.ops import Append, Op, Open, Remove, Write
from keelfs.ports import Handler

Verb = Literal["read", "write", "append", "remove"]
Outcome = Literal["done", "conflict", "missing", "in_doubt"]

#: One file: its revision and its bytes. Revision 0 is the file that does not exist.
State = tuple[int, bytes]
NOTHING: Final[State] = (0, b"")
#: Far beyond what a history with answers needs; only calls in doubt multiply the possibilities.
MAX_STEPS: Final = 3_000_000


class Call(Struct, frozen=True, kw_only=True):
    """One call on one path and what came back."""

    path: str
    verb: Verb
    invoked: int
    #: Ignored for a call in doubt.
    returned: int = 0
    outcome: Outcome = "done"
    data: bytes = b""
    #: The revision that a mutation demands: 0 for a file that must not exist, None for any.
    expect: int | None = None
    #: The answer: the revision written or seen, the bytes seen; None where it was not told.
    revision: int | None = None
    value: bytes | None = None


class Violation(Struct, frozen=True):
    """A path whose history no single file could have answered."""

    path: str
    #: As many of the calls as could be put in order, then the one that fits nowhere after them.
    order: list[Call]
    state: State
    misfit: Call

    def __str__(self) -> str:
        return (
            f"{self.path}: after {len(self.order)} calls the file is at {self.state!r}, "
            f"which does not allow {self.misfit!r}"
        )


def violations(history: Iterable[Call], start: State = NOTHING) -> list[Violation]:
    """Every path whose calls cannot be put in an order; `start` is how all of them began."""
    by_path: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history:
        # A read without an answer tells nothing and changes nothing.
        if call.outcome != "in_doubt" or call.verb != "read":
            by_path[call.path].append(call)
    found = (_Search(calls, start).run() for calls in by_path.values())
    return [violation for violation in found if violation is not None]


def follow(state: State, call: Call) -> State | None:
    """The file after `call`, or None if a file in this state does not answer so."""
    revision, value = state
    met = call.expect is None or call.expect == revision
    if call.outcome == "conflict":
        return state if not met and (call.verb != "remove" or revision) else None
    if call.outcome == "missing":
        return state if not revision and call.verb in {"read", "remove"} else None
    if call.verb == "read":
        fits = revision and call.revision in {None, revision} and call.value in {None, value}
        return state if fits else None
    if not met:
        return None
    if call.verb == "remove":
        return NOTHING if revision else None
    return _written(state, call)


def _written(state: State, call: Call) -> State | None:
    revision, value = state
    if call.verb == "write":
        after = (revision + 1, call.data)
    elif call.data or not revision:
        after = (revision + 1, value + call.data)
    else:
        after = state
    return after if call.revision in {None, after[0]} else None


class _Step(Struct):
    """One decision of the search, with what is needed to take it back."""

    state: State
    low: int
    taken: int
    #: Calls that were taken because they change nothing.
    settled: list[int]
    #: Calls that may be taken next and are not tried yet.
    choices: list[int]
    chosen: int = -1


class _Search:
    """The search over one path.

    Calls are numbered by the time they began. A doubly linked list holds the beginnings and ends
    of the calls not taken yet; a call may come next if no call before it in the list has ended.
    """

    def __init__(self, calls: Sequence[Call], start: State) -> None:
        self.calls = sorted(calls, key=lambda call: call.invoked)
        self.count = len(self.calls)
        self.state = start
        self.answered = [call.outcome != "in_doubt" for call in self.calls]
        self.harmless = [
            call.verb == "read" or call.outcome in {"conflict", "missing"} for call in self.calls
        ]
        self.waiting = sum(self.answered)
        #: What is taken: every call below `low`, and `low + i` for each bit i of `taken`.
        self.low = self.taken = 0
        self.steps: list[_Step] = []
        self.seen: set[tuple[int, int, State]] = set()
        self.violation: Violation | None = None
        self._link()

    def _link(self) -> None:
        # At equal times beginnings go first: calls that may have overlapped count as overlapping.
        events = [(call.invoked, 0, i) for i, call in enumerate(self.calls)]
        events += [
            (call.returned, 1, i + self.count)
            for i, call in enumerate(self.calls)
            if self.answered[i]
        ]
        order = [event for _, _, event in sorted(events)]
        self.head = 2 * self.count
        self.after, self.before = [0] * (self.head + 1), [0] * (self.head + 1)
        for left, right in zip([self.head, *order], [*order, self.head], strict=True):
            self.after[left], self.before[right] = right, left

    def run(self) -> Violation | None:
        for _ in range(MAX_STEPS):
            self.steps.append(self._settle())
            if not self.waiting:
                return None
            while not self._advance():
                self._note_misfit()
                self._retreat()
                if not self.steps:
                    return self.violation
        raise DeadlineExceeded("too many calls are in doubt to judge this history")

    def _settle(self) -> _Step:
        """Takes what may come next and never changes anything; gathers what else may come next.

        A harmless call that fits may be taken at once: whatever could come before it can as well
        come after it. (Adding nothing is not harmless: where there is no file, it makes one.)
        """
        settled: list[int] = []
        choices: list[int] = []
        removable = False
        event = self.after[self.head]
        while event < self.count:
            removable = removable or self.calls[event].verb == "remove"
            reached = follow(self.state, self.calls[event])
            if reached is not None and self.harmless[event]:
                self._take(event)
                settled.append(event)
                event = self.before[event]
            elif reached is not None:
                choices.append(event)
            event = self.after[event]
        if self.waiting and not removable and self._too_late(event - self.count):
            choices.clear()
        # What ended first is tried first, what never ended last: choices are popped from the end.
        choices.sort(key=lambda event: (self.answered[event], -self.calls[event].returned))
        return _Step(self.state, self.low, self.taken, settled, choices)

    def _too_late(self, event: int) -> bool:
        """Whether the file has passed the revision that `event`, the next to end, has told.

        Only a removal takes revisions back. Without this look ahead, calls in doubt would be tried
        in every order although none of them leads back to what was seen.
        """
        first = self.calls[event]
        told = {"missing": 0, "done": first.revision}.get(first.outcome)
        if told is None or follow(self.state, first) is not None:
            return False
        adds = first.verb == "write" or (first.verb == "append" and first.data != b"")
        return self.state[0] >= told - adds

    def _advance(self) -> bool:
        """Takes the next choice that leads where the search has not been yet."""
        step = self.steps[-1]
        while step.choices:
            event = step.choices.pop()
            reached = follow(step.state, self.calls[event])
            assert reached is not None
            self._take(event)
            place = (self.low, self.taken, reached)
            if place not in self.seen:
                self.seen.add(place)
                self.state, step.chosen = reached, event
                return True
            self._put_back(event, step)
        return False

    def _retreat(self) -> None:
        """Forgets the newest step and the choice that led to it."""
        for event in reversed(self.steps.pop().settled):
            self._relink(event)
        if self.steps:
            self._put_back(self.steps[-1].chosen, self.steps[-1])

    def _take(self, event: int) -> None:
        for each in self._ends(event):
            left, right = self.before[each], self.after[each]
            self.after[left], self.before[right] = right, left
        self.waiting -= self.answered[event]
        self.taken |= 1 << (event - self.low)
        while self.taken & 1:
            self.taken >>= 1
            self.low += 1

    def _put_back(self, event: int, step: _Step) -> None:
        self._relink(event)
        self.state, self.low, self.taken = step.state, step.low, step.taken

    def _relink(self, event: int) -> None:
        for each in reversed(self._ends(event)):
            self.after[self.before[each]] = self.before[self.after[each]] = each
        self.waiting += self.answered[event]

    def _ends(self, event: int) -> tuple[int, ...]:
        return (event, event + self.count) if self.answered[event] else (event,)

    def _note_misfit(self) -> None:
        """Remembers the longest order found, for the report."""
        order = [event for step in self.steps for event in (*step.settled, step.chosen)][:-1]
        if self.violation is not None and len(order) <= len(self.violation.order):
            return
        event = self.after[self.head]
        while event < self.count:
            event = self.after[event]
        misfit = self.calls[event - self.count]
        taken = [self.calls[each] for each in order]
        self.violation = Violation(misfit.path, taken, self.steps[-1].state, misfit)


class Recorder:
    """Performs operations on one handler and keeps what was asked and answered.

    One per thread; `calls` of all of them together are the history. What a mutation answers with a
    clean error has changed nothing and is left out; what is not known counts as in doubt.
    """

    def __init__(self, handler: Handler, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.calls: list[Call] = []
        self._handler = handler
        self._clock = clock

    def read(self, path: str) -> bytes:
        """The bytes of a file; its revision is recorded with them."""

        def ask() -> tuple[int, bytes]:
            content = self._handler.perform(Open(path))
            return content.stat.revision, content.read(0, content.stat.size)

        call = Call(path=path, verb="read", invoked=self._clock())
        return bytes(self._record(call, ask)[1])

    def write(self, path: str, data: bytes, expect: Expect = ANY) -> int:
        """The revision of the file written."""
        return self._mutate("write", Write(path, data, expect), path, data, expect)

    def append(self, path: str, data: bytes, expect: Expect = ANY) -> int:
        """The revision of the file appended to."""
        return self._mutate("append", Append(path, data, expect), path, data, expect)

    def remove(self, path: str, expect: Expect = ANY) -> None:
        """Removes the file."""
        self._mutate("remove", Remove(path, expect=expect), path, b"", expect)

    def _mutate(self, verb: Verb, op: Op[Any], path: str, data: bytes, expect: Expect) -> int:
        if isinstance(expect, Stat):
            raise InvalidArgument("a history knows revisions, not identities; expect a revision")
        wanted = None if expect is ANY else 0 if expect is ABSENT else int(expect)

        def ask() -> tuple[int | None, None]:
            answer = self._handler.perform(op)
            return (answer.revision if isinstance(answer, Stat) else None), None

        call = Call(path=path, verb=verb, invoked=self._clock(), data=data, expect=wanted)
        return self._record(call, ask)[0] or 0

    def _record(self, call: Call, ask: Callable[[], Any]) -> Any:
        outcome: Outcome = "in_doubt"
        revision = value = None
        clean = False
        try:
            revision, value = answer = ask()
            outcome = "done"
        except Conflict:
            outcome = "conflict"
            raise
        except NotFound:
            outcome = "missing"
            raise
        except InDoubt:
            raise
        except KeelError:
            clean = True
            raise
        finally:
            if not clean:
                self.calls.append(
                    replace(
                        call, returned=self._clock(), outcome=outcome, revision=revision,
                        value=value,
                    )
                )  # fmt: skip
        return answer
