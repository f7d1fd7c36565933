"""What the store asks of a database.

A `Statement` is a named constant: its text, once for SQLite and, where they differ, once for
PostgreSQL. Its first parameter is the tenant, always bound by the transaction itself, so that no
caller can forget or choose it. Work inside a transaction is a plain function of a `Tx`; it neither
begins nor commits and may be run again from the start. Only the implementations of `Database`
begin and end transactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]

#: What a statement that `binds` begins with in PostgreSQL: a row `o` that holds the tenant, after
#: naming it to the policies. Tables joined to it laterally are looked at later than this.
BOUND: Final = (
    "(SELECT set_config('keelfs.tenant', ?1::bigint::text, true)::bigint AS tenant OFFSET 0) o"
)


class Statement:
    """SQL with numbered parameters `?1 ?2 ...`; `?1` is the tenant, `?2` by custom the space."""

    #: Every statement of the package, for the tests that prepare and explain them all.
    all: ClassVar[list[Statement]] = []

    __slots__ = ("binds", "pg", "sqlite", "unbound")

    def __init__(
        self, text: str, *, postgres: str | None = None, unbound: str = "", binds: bool = False
    ) -> None:
        """`unbound` says why a statement may do without a tenant; none of a tenant's data may.

        One that `binds` names the tenant to the policies of PostgreSQL by itself, and so needs no
        statement before it.
        """
        self.sqlite = " ".join(text.split())
        self.pg = re.sub(r"\?(\d+)", r"$\1", " ".join((postgres or text).split()))
        self.unbound = unbound
        self.binds = binds
        Statement.all.append(self)

    def __repr__(self) -> str:
        return f"Statement({self.sqlite[:60]!r})"


class Tx(Protocol):
    """One open transaction of one tenant."""

    #: Whether `later` saves a round trip.
    pipelined: ClassVar[bool]

    def one(self, statement: Statement, /, *params: Any) -> Row | None:
        """The first row, or None."""
        ...

    def all(self, statement: Statement, /, *params: Any) -> list[Row]:
        """All rows."""
        ...

    def do(self, statement: Statement, /, *params: Any) -> None:
        """Executes; a failure may only show when the transaction commits."""
        ...

    def many(self, statement: Statement, rows: Iterable[Sequence[Any]], /) -> None:
        """Executes once per row of parameters (without the tenant)."""
        ...

    def later(self, statement: Statement, /, *params: Any) -> Callable[[], list[Row]]:
        """Asks now, answers when called."""
        ...


class Database(Protocol):
    """Begins and ends transactions; nobody else does."""

    #: Whether a short read is worth no thread of its own.
    local: ClassVar[bool]

    def write(self, tenant: int, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Runs `work` in a writing transaction and commits it, retrying lost races from the start.

        With `durable=False` the commit itself may be lost by a power cut, but not once a later
        durable one has returned.
        """
        ...

    def read(self, tenant: int, work: Callable[[Tx], T]) -> T:
        """Runs `work` without a transaction around it: each statement sees its own snapshot."""
        ...

    def snapshot(self, tenant: int, work: Callable[[Tx], T]) -> T:
        """Runs `work` in one reading transaction: all statements see the same state."""
        ...

    def version(self) -> object:
        """A value that changes when somebody else's commit may have changed the database."""
        ...

    def migrate(self) -> None:
        """Brings the schema to this version, or refuses a newer one."""
        ...

    def backup(self, path: str) -> None:
        """Writes a consistent copy of the whole store while writers run."""
        ...

    def close(self) -> None: ...
