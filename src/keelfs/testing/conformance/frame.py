"""What every group of the suite stands on: fixtures, named skips, refusals that leave no trace.

Always true: a test is skipped only because its subject names an ability it needs; every refusal
that is proved is also proved to have changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar, cast

import pytest
from msgspec.structs import replace

from keelfs.errors import KeelError
from keelfs.model import Entry, Limits, Page, Principal, Stat
from keelfs.ops import Op
from keelfs.ports import Clock, Handler
from keelfs.testing.conformance.subjects import ABILITIES, Setting, Subject
from keelfs.testing.portrait import Perform, entries, portrait

F = TypeVar("F")
T = TypeVar("T")

#: A moment that is far from any real clock, so that a time that was not injected shows.
NOON = 1_000_000_000 * 10**9
SECOND = 10**9


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def now_ns(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


class Blocks:
    """Data that arrives in blocks, and counts how many of them were taken."""

    def __init__(self, *blocks: bytes) -> None:
        self._blocks = blocks
        self.taken = 0

    def blocks(self) -> Iterator[bytes]:
        for block in self._blocks:
            self.taken += 1
            yield block


class Untimed:
    """A tree seen without its moments: of a subject that does not answer for them."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def __call__(self, op: Op[T], /) -> T:
        return cast(T, _untimed(self._perform(op)))


def _untimed(answer: Any) -> Any:
    match answer:
        case Stat():
            return replace(answer, atime_ns=0, mtime_ns=0, ctime_ns=0, created_ns=0)
        case Entry():
            return replace(answer, stat=_untimed(answer.stat))
        case Page():
            items = cast(list[object], answer.items)  # pyright: ignore[reportUnknownMemberType]
            return Page([_untimed(item) for item in items], answer.next)
        case _:
            return answer


class Make(Protocol):
    """Makes another empty tree of the same subject."""

    def __call__(
        self, *, limits: Limits | None = None, principal: Principal | None = None,
        clock: Clock | None = None,
    ) -> Perform: ...  # fmt: skip


def needs(*abilities: str) -> Callable[[F], F]:
    """Marks a test, or every test of a class, with abilities that it needs."""
    unknown = set(abilities) - set(ABILITIES)
    if unknown:
        raise ValueError(f"there are no abilities {sorted(unknown)}")

    def mark(target: F) -> F:
        tests: list[Any] = [target]
        if isinstance(target, type):
            tests = [value for name, value in vars(target).items() if name.startswith("test_")]
        for test in tests:
            test.needs = {*getattr(test, "needs", ()), *abilities}
        return target

    return mark


def missing_ability(subject: Subject, test: object) -> str | None:
    """Why a test does not apply to a subject."""
    for ability in sorted(getattr(test, "needs", ())):
        if ability in subject.cannot:
            return f"{subject.name} cannot: {ability} ({subject.cannot[ability]})"
    return None


class Frame:
    """The base of all groups; whoever uses the suite defines the fixture `subject`."""

    @pytest.fixture
    def subject(self) -> Subject:
        raise NotImplementedError("define a fixture `subject` that gives a Subject")

    @pytest.fixture(autouse=True)
    def _named_skips(
        self, request: pytest.FixtureRequest, subject: Subject,
        record_property: Callable[[str, object], None],
    ) -> None:  # fmt: skip
        record_property("conformance_subject", subject.name)
        reason = missing_ability(subject, request.function)
        if reason is not None:
            record_property("conformance_cannot", reason)
            pytest.skip(reason)

    @pytest.fixture
    def handlers(self) -> list[Handler]:
        """The handlers behind what `make` gave, in order."""
        return []

    @pytest.fixture
    def make(self, subject: Subject, handlers: list[Handler]) -> Iterator[Make]:
        with ExitStack() as stack:

            def made(
                *, limits: Limits | None = None, principal: Principal | None = None,
                clock: Clock | None = None,
            ) -> Perform:  # fmt: skip
                setting = Setting(
                    limits=limits or Limits(), principal=principal or Principal(), clock=clock
                )
                handlers.append(stack.enter_context(subject.opened(setting)))
                perform = handlers[-1].perform
                return Untimed(perform) if "times" in subject.cannot else perform

            yield made

    @pytest.fixture
    def fs(self, make: Make) -> Perform:
        """An empty tree."""
        return make()

    @pytest.fixture
    def clock(self) -> FixedClock:
        return FixedClock()


def each(*ops: Op[Any]) -> tuple[Op[Any], ...]:
    """Operations of any kind, to be performed one after another."""
    return ops


def names(fs: Perform, path: str = "/") -> list[str]:
    """The names in a directory, in the order in which they are listed."""
    return [entry.name for entry in entries(fs, path)]


@contextmanager
def refused(fs: Perform, *errors: type[KeelError]) -> Generator[pytest.ExceptionInfo[Any]]:
    """Proves that what is done inside is refused and leaves nothing behind."""
    before = portrait(fs)
    with pytest.raises(errors) as caught:
        yield caught
    assert portrait(fs) == before
