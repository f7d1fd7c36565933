"""A database that fails at the Nth statement: the real one, wrapped between the store and its port.

A fault is what happens in place of a statement: it raises what the driver would, or makes the
server fail by itself, so that the real code classifies, retries and rolls back. The end of the work
counts as one more statement: what fails there is the transaction that was all but committed.

Who calls: tests that fail every statement of every verb, one after another, and compare what is
there afterwards with what was there before. `at_every_statement` is that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Struct

from keelfs.errors import KeelError
from keelfs.store.database import Database, Row, Statement, Tx

T = TypeVar("T")

#: What happens in place of a statement, given the transaction it was meant for.
Fault = Callable[[Tx], None]
#: A verb that still fails here would never come to an end.
MOST_STATEMENTS: Final = 1000


class _Plan:
    """Counts statements; from the `at`th on, `times` of them fail."""

    def __init__(self, at: int, fault: Fault, times: int | None) -> None:
        self.at = at
        self.fault = fault
        self.left = times
        self.seen = 0
        self.fired = 0

    def step(self, tx: Tx) -> None:
        self.seen += 1
        if self.seen < self.at or self.left == 0:
            return
        if self.left is not None:
            self.left -= 1
        self.fired += 1
        self.fault(tx)


class _FaultyTx:
    """A transaction whose statements pass a plan before they reach the database."""

    pipelined: ClassVar[bool] = False

    def __init__(self, tx: Tx, plan: _Plan) -> None:
        self._tx = tx
        self._plan = plan

    def one(self, statement: Statement, /, *params: Any) -> Row | None:
        self._plan.step(self._tx)
        return self._tx.one(statement, *params)

    def all(self, statement: Statement, /, *params: Any) -> list[Row]:
        self._plan.step(self._tx)
        return self._tx.all(statement, *params)

    def do(self, statement: Statement, /, *params: Any) -> None:
        self._plan.step(self._tx)
        self._tx.do(statement, *params)

    def many(self, statement: Statement, rows: Iterable[Sequence[Any]], /) -> None:
        self._plan.step(self._tx)
        self._tx.many(statement, rows)

    def later(self, statement: Statement, /, *params: Any) -> Callable[[], list[Row]]:
        self._plan.step(self._tx)
        return self._tx.later(statement, *params)


class _FaultyPipelinedTx(_FaultyTx):
    pipelined: ClassVar[bool] = True


class FaultyDatabase:
    """A database that works until it is armed. Implements `keelfs.store.database.Database`."""

    local: ClassVar[bool] = False

    def __init__(self, database: Database) -> None:
        self.database = database
        self._plan: _Plan | None = None

    def arm(self, at: int, fault: Fault, *, times: int | None = 1) -> None:
        """Fails the `at`th statement from now, counted from 1, and those after it: `times` in all,
        or for ever.
        """
        self._plan = _Plan(at, fault, times)

    def disarm(self) -> int:
        """Works again; how many statements have failed."""
        plan, self._plan = self._plan, None
        return plan.fired if plan is not None else 0

    def write(self, tenant: int, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        return self.database.write(tenant, self._through(work), durable=durable)

    def read(self, tenant: int, work: Callable[[Tx], T]) -> T:
        return self.database.read(tenant, self._through(work))

    def snapshot(self, tenant: int, work: Callable[[Tx], T]) -> T:
        return self.database.snapshot(tenant, self._through(work))

    def _through(self, work: Callable[[Tx], T]) -> Callable[[Tx], T]:
        plan = self._plan
        if plan is None:
            return work

        def watched(tx: Tx) -> T:
            wrapper = _FaultyPipelinedTx if tx.pipelined else _FaultyTx
            answer = work(wrapper(tx, plan))
            plan.step(tx)
            return answer

        return watched

    def version(self) -> object:
        return self.database.version()

    def migrate(self) -> None:
        self.database.migrate()

    def backup(self, path: str) -> None:
        self.database.backup(path)

    def close(self) -> None:
        self.database.close()


class Outcome(Struct, frozen=True):
    """What a caller was told when the `statement`th statement failed."""

    statement: int
    #: None where the verb succeeded in spite of it.
    error: KeelError | None
    answer: Any = None
    #: Nothing failed, because the verb has fewer statements; the loop ends here.
    unharmed: bool = False


def at_every_statement(
    database: FaultyDatabase, attempt: Callable[[], Any], fault: Fault, *, times: int | None = 1
) -> Iterator[Outcome]:
    """Attempts a verb with its first statement failing, then its second, until none is left.

    The database works while the caller looks at an outcome. Errors that are not ours are raised:
    no caller may ever see one.
    """
    for statement in range(1, MOST_STATEMENTS):
        database.arm(statement, fault, times=times)
        error: KeelError | None = None
        answer: Any = None
        try:
            answer = attempt()
        except KeelError as refusal:
            error = refusal
        finally:
            fired = database.disarm()
        yield Outcome(statement, error, answer, unharmed=not fired)
        if not fired:
            return
    raise AssertionError(f"the verb has not come to its end after {MOST_STATEMENTS} statements")
