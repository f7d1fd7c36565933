"""PostgreSQL: the one file that imports its driver.

Statements travel through the driver's pipeline: what needs no answer is sent along with what does,
so a verb costs one round trip to read and two to write. A reading statement outside a transaction
forms one with the setting that names the tenant, if it does not name the tenant by itself; a
writing transaction is READ COMMITTED and locks its space's row first, which the work itself does.

What must always be true: every transaction names its tenant before anything else, and works under
a role that row-level security binds. After the COMMIT was sent nothing is retried: the answer may
have been lost after the change was kept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from keelfs.errors import (
    Corrupt,
    InDoubt,
    InvalidArgument,
    StoreBusy,
    StoreClosed,
    StoreFull,
    Unavailable,
    Unsupported,
)
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.joined import Waiting
from keelfs.store.schema import POSTGRES, refuse_newer
from keelfs.store.unknown import unknown

T = TypeVar("T")

#: Older minor releases let a `mkdir -p` racing a removal commit an orphan.
OLDEST_POSTGRES: Final = 150_020
ROLE: Final = "keelfs_app"
_BIND_LOCAL: Final = "SELECT set_config('keelfs.tenant', $1, true)"
#: What a retry from the start can mend: nothing of the transaction was kept.
_LOST_RACES: Final = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
    pg.UniqueViolation,
    pg.CheckViolation,
    pg.ForeignKeyViolation,
)

_Connection = psycopg.Connection[Row]


class _Asked:
    """A statement on its way, and where its answer arrives."""

    __slots__ = ("cursor", "params", "statement")

    def __init__(self, statement: Statement, params: tuple[Any, ...]) -> None:
        self.statement = statement
        self.params = params
        self.cursor: psycopg.Cursor[Row] | None = None


class PostgresTx:
    """Statements of one transaction, sent through a pipeline."""

    pipelined: ClassVar[bool] = True

    __slots__ = ("_alone", "_asked", "_bound", "_connection", "_tenant", "_waiting")

    def __init__(self, connection: _Connection, tenant: int, *, alone: bool) -> None:
        """With `alone`, what is asked at once is a transaction of its own."""
        self._connection = connection
        self._tenant = tenant
        self._alone = alone
        self._bound = False
        #: What was asked and waits until an answer is needed, so that all of it costs one turn.
        self._asked: list[_Asked] = []
        #: Changes that are sent together.
        self._waiting = Waiting()

    def _send(self, text: str, params: Sequence[Any]) -> psycopg.Cursor[Row]:
        cursor = self._connection.cursor(binary=True)
        cast(Any, cursor).execute(text, (self._tenant, *params))
        return cursor

    def _bind(self) -> None:
        """Names the tenant to the policies of the tables."""
        self._bound = True
        self._connection.execute(_BIND_LOCAL, (str(self._tenant),))

    def _order(self, statement: Statement) -> None:
        """Sends what comes before a statement: the tenant, and changes that still wait."""
        self.flush()
        if not self._bound and not statement.binds:
            self._bind()
        self._bound = True

    def later(self, statement: Statement, /, *params: Any) -> Callable[[], list[Row]]:
        if not self._alone:
            self._order(statement)
            return self._send(statement.pg, params).fetchall
        asked = _Asked(statement, params)
        self._asked.append(asked)

        def answer() -> list[Row]:
            if asked.cursor is None:
                self._ask()
            assert asked.cursor is not None
            return asked.cursor.fetchall()

        return answer

    def _ask(self) -> None:
        asked, self._asked = self._asked, []
        if len(asked) == 1 and asked[0].statement.binds:
            asked[0].cursor = self._send(asked[0].statement.pg, asked[0].params)
            return
        with self._connection.pipeline():
            if not asked[0].statement.binds:
                self._bind()
            for each in asked:
                each.cursor = self._send(each.statement.pg, each.params)

    def all(self, statement: Statement, /, *params: Any) -> list[Row]:
        return self.later(statement, *params)()

    def one(self, statement: Statement, /, *params: Any) -> Row | None:
        rows = self.all(statement, *params)
        return rows[0] if rows else None

    def do(self, statement: Statement, /, *params: Any) -> None:
        self.many(statement, (params,))

    def many(self, statement: Statement, rows: Iterable[Sequence[Any]], /) -> None:
        assert not self._alone, "nothing changes outside a transaction"
        changes = list(rows)
        if self._waiting.accepts(statement, changes):
            self._waiting.add(statement, changes)
            return
        self._order(statement)
        if self._waiting.accepts(statement, changes):
            self._waiting.add(statement, changes)
        elif changes:
            cursor: Any = self._connection.cursor(binary=True)
            cursor.executemany(statement.pg, [(self._tenant, *row) for row in changes])

    def flush(self) -> None:
        """Sends the changes that wait for company; the last act before a commit."""
        joined = self._waiting.taken()
        if joined is None:
            return
        if not self._bound:
            self._bind()
        self._send(*joined)


class PostgresDatabase:
    """A store on a PostgreSQL server, shared by any number of processes on any machines."""

    local: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 16,
        busy_timeout_s: float = 30.0,
        durability: str = "full",
    ) -> None:
        if durability not in {"full", "relaxed"}:
            raise InvalidArgument('durability is "full" or "relaxed"')
        self._url = url
        self._busy_timeout_s = busy_timeout_s
        self._durability = durability
        self._pool: ConnectionPool[_Connection] = ConnectionPool(
            url,
            min_size=1,
            max_size=pool_size,
            timeout=busy_timeout_s,
            configure=self._configure,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 0,
                "cursor_factory": psycopg.RawCursor,
                "application_name": "keelfs",
            },
            open=False,
        )
        self._admin_checked = False

    # -- connections

    def _configure(self, connection: _Connection) -> None:
        connection.prepared_max = 1000
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        commit = "on" if self._durability == "full" else "off"
        milliseconds = int(self._busy_timeout_s * 1000)
        execute: Any = connection.execute
        for setting in (
            f"SET ROLE {ROLE}",
            "SET plan_cache_mode = force_generic_plan",
            "SET default_transaction_isolation = 'read committed'",
            f"SET synchronous_commit = {commit}",
            f"SET lock_timeout = {milliseconds}",
            "SET idle_in_transaction_session_timeout = 60000",
            "SET jit = off",
        ):
            execute(setting)

    def migrate(self) -> None:
        """Runs under the login of the URL, which must own the tables; callers get another role."""
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                self._apply(connection)
        except psycopg.OperationalError as error:
            raise Unavailable(f"the PostgreSQL server cannot be reached: {_plain(error)}") from None
        except pg.InsufficientPrivilege:
            raise InvalidArgument(
                "the login of the URL may not make tables or roles; open the store as its owner"
            ) from None
        except psycopg.Error as error:
            raise _translated(error) from error
        try:
            # A caller that found no connection would have the pool make more than it needs.
            self._pool.open(wait=True, timeout=self._busy_timeout_s)
        except PoolTimeout:
            raise Unavailable("the PostgreSQL server takes no more connections") from None

    def _apply(self, connection: psycopg.Connection[Any]) -> None:
        server = connection.info.server_version
        if server < OLDEST_POSTGRES or 160_000 <= server < 160_004:
            raise InvalidArgument("PostgreSQL 15.20, 16.4 or newer is needed")
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise InvalidArgument("the database must have been created with encoding UTF8")
        if _version(connection) == POSTGRES.newest:
            return
        execute: Any = connection.execute
        with connection.transaction():
            # One migrator at a time; the number is "keel" in ASCII.
            connection.execute("SELECT pg_advisory_xact_lock(1801807212)")
            connection.execute("CREATE TABLE IF NOT EXISTS keelfs_schema (version bigint NOT NULL)")
            version = _version(connection)
            refuse_newer(version, POSTGRES)
            for number, text in POSTGRES.after(version):
                execute(text)
                connection.execute("DELETE FROM keelfs_schema")
                connection.execute("INSERT INTO keelfs_schema VALUES (%s)", (number,))
            connection.execute(f"GRANT {ROLE} TO CURRENT_USER")
            connection.execute(f"GRANT USAGE ON SCHEMA public TO {ROLE}")

    # -- reading

    def read(self, tenant: int, work: Callable[[Tx], T]) -> T:
        def once() -> T:
            with self._pool.connection() as connection:
                return work(PostgresTx(connection, tenant, alone=True))

        return self._retrying(once)

    def snapshot(self, tenant: int, work: Callable[[Tx], T]) -> T:
        def once() -> T:
            with self._pool.connection() as connection:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                try:
                    with connection.pipeline():
                        return work(PostgresTx(connection, tenant, alone=False))
                finally:
                    _roll_back(connection)

        return self._retrying(once)

    # -- writing

    def write(self, tenant: int, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        return self._retrying(lambda: self._write(tenant, work, durable))

    def _write(self, tenant: int, work: Callable[[Tx], T], durable: bool) -> T:
        with self._pool.connection() as connection:
            committing = False
            try:
                with connection.pipeline():
                    connection.execute("BEGIN")
                    if not durable:
                        connection.execute("SET LOCAL synchronous_commit = off")
                    tx = PostgresTx(connection, tenant, alone=False)
                    answer = work(tx)
                    tx.flush()
                    committing = True
                    connection.execute("COMMIT")
            except psycopg.Error as error:
                if committing and not _is_refusal(error):
                    raise InDoubt from error
                raise
            else:
                return answer
            finally:
                _roll_back(connection)

    def _retrying(self, once: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._busy_timeout_s
        attempt = 0
        while True:
            try:
                return once()
            except _LOST_RACES as error:
                retry: Exception = error
            except PoolClosed:
                raise StoreClosed from None
            except PoolTimeout:
                raise StoreBusy("every connection to the server was in use") from None
            except psycopg.OperationalError as error:
                if isinstance(error, pg.DiskFull):
                    raise StoreFull from error
                retry = error
            except psycopg.Error as error:
                raise _translated(error) from error
            attempt += 1
            if time.monotonic() > deadline or (attempt > 20 and not _is_race(retry)):
                raise _given_up(retry) from retry
            time.sleep(min(0.5, 0.001 * 2 ** min(attempt, 9)) * random.uniform(0.5, 1.0))

    # -- the rest

    def version(self) -> object:
        """PostgreSQL offers nothing cheaper than asking the journal itself."""
        return object()

    def backup(self, path: str) -> None:  # noqa: ARG002
        raise Unsupported("a store on PostgreSQL is backed up by the server's own pg_dump")

    def close(self) -> None:
        self._pool.close()


def _roll_back(connection: _Connection) -> None:
    """Makes the connection fit for the next caller, or closes it; what went wrong before counts."""
    if connection.closed or _status(connection) == TransactionStatus.IDLE:
        return
    try:
        if _status(connection) == TransactionStatus.INTRANS:
            # The driver's own way throws away every statement that is prepared, at each refusal.
            connection.pgconn.exec_(b"ROLLBACK")
        if _status(connection) != TransactionStatus.IDLE:
            connection.rollback()
    except psycopg.Error:
        connection.close()


def _status(connection: _Connection) -> TransactionStatus:
    return connection.info.transaction_status


def _version(connection: psycopg.Connection[Any]) -> int:
    there = connection.execute("SELECT to_regclass('keelfs_schema') IS NOT NULL").fetchone()
    if not (there and there[0]):
        return 0
    row = connection.execute("SELECT max(version) FROM keelfs_schema").fetchone()
    return int(row[0] or 0) if row else 0


def _is_race(error: Exception) -> bool:
    return isinstance(error, pg.SerializationFailure | pg.DeadlockDetected | pg.UniqueViolation)


def _is_refusal(error: psycopg.Error) -> bool:
    """Whether the server itself says that it has not done what it was asked.

    Everything else leaves the fate of a COMMIT open. A server that ends the connection may have
    committed before; its last words are heard, or only that the driver does not understand them.
    """
    return error.diag.severity_nonlocalized == "ERROR"


def _given_up(error: Exception) -> Exception:
    if isinstance(error, psycopg.IntegrityError):
        return unknown(error)
    if isinstance(error, _LOST_RACES):
        return StoreBusy("other writers held the space until the deadline")
    return Unavailable(f"the PostgreSQL server does not answer: {_plain(error)}")


def _translated(error: psycopg.Error) -> Exception:
    if isinstance(error, pg.DataCorrupted | pg.IndexCorrupted):
        return Corrupt("the server reports damaged data")
    return unknown(error)


def _plain(error: Exception) -> str:
    """The first line of a driver's message; it names host and port, never a password."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
