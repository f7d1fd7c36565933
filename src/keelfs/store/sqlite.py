"""SQLite: the one file that imports its driver.

One connection writes. Callers queue; the first becomes the leader, runs every queued piece of work
in its own savepoint and commits them together, then hands the lead to the next in line. A lone
caller therefore pays for no other thread, and many callers share one fsync. Readers have
connections of their own and never wait for a writer.

What must always be true: an acknowledged write has been committed with the durability that was
asked for; after a failed fsync the store refuses everything, because the kernel may have dropped
what it could not write.
"""

# The driver's stubs leave the type of a blob open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast

import apsw

from keelfs.errors import (
    Corrupt,
    InvalidArgument,
    KeelError,
    StoreBusy,
    StoreClosed,
    StoreFailed,
    StoreFull,
)
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.schema import SQLITE, refuse_newer
from keelfs.store.unknown import unknown

T = TypeVar("T")

#: Older libraries can corrupt a WAL when two connections checkpoint and write at once.
OLDEST_SQLITE: Final = (3, 51, 3)
#: Large enough to share an fsync among many writers, small enough that the first of a crowd does
#: not wait for the last.
GROUP_SIZE: Final = 128
PAGE_BYTES: Final = 8192
_FSYNC_FAILURES: Final = {
    apsw.SQLITE_IOERR_FSYNC,
    apsw.SQLITE_IOERR_DIR_FSYNC,
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_TRUNCATE,
}


class SqliteTx:
    """A transaction on one connection."""

    pipelined: ClassVar[bool] = False

    __slots__ = ("_tenant", "cursor")

    def __init__(self, cursor: Any, tenant: int) -> None:
        self.cursor = cursor
        self._tenant = tenant

    def one(self, statement: Statement, /, *params: Any) -> Row | None:
        rows = self.all(statement, *params)
        return rows[0] if rows else None

    def all(self, statement: Statement, /, *params: Any) -> list[Row]:
        rows: list[Row] = self.cursor.execute(statement.sqlite, (self._tenant, *params)).fetchall()
        return rows

    def do(self, statement: Statement, /, *params: Any) -> None:
        self.cursor.execute(statement.sqlite, (self._tenant, *params))

    def many(self, statement: Statement, rows: Iterable[Sequence[Any]], /) -> None:
        tenant = self._tenant
        self.cursor.executemany(statement.sqlite, [(tenant, *row) for row in rows])

    def later(self, statement: Statement, /, *params: Any) -> Callable[[], list[Row]]:
        rows = self.all(statement, *params)
        return lambda: rows


class _Job:
    """One caller's work, waiting to be committed."""

    __slots__ = ("answer", "done", "durable", "error", "leads", "tenant", "turn", "work")

    def __init__(self, tenant: int, work: Callable[[Tx], Any], durable: bool) -> None:
        self.tenant = tenant
        self.work = work
        self.durable = durable
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False
        #: Held until somebody else has finished this job or given it the lead.
        self.turn = threading.Lock()
        self.turn.acquire()


class SqliteDatabase:
    """A store in one file, shared by any number of threads and processes of one machine."""

    local: ClassVar[bool] = True

    def __init__(
        self,
        path: str,
        *,
        durability: str = "full",
        busy_timeout_s: float = 30.0,
        cache_bytes: int = 16 * 2**20,
        vfs: str | None = None,
    ) -> None:
        if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) < OLDEST_SQLITE:
            raise InvalidArgument(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a store; install apsw 3.51.3 or "
                "newer"
            )
        if durability not in {"full", "relaxed"}:
            raise InvalidArgument('durability is "full" or "relaxed"')
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._cache_kib = cache_bytes // 1024
        self._vfs = vfs
        self._full = durability == "full"
        self._failed: KeelError | None = None
        self._closed = False
        self._queue: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._leading = False
        self._readers: deque[apsw.Connection] = deque()
        self._opened: list[apsw.Connection] = []
        with _translating():
            self._writer = self._connect()
            self._cursor: Any = self._writer.cursor()
            self._synchronous = self._full
        self._local_commits = 0

    # -- connections

    def _connect(self) -> apsw.Connection:
        try:
            connection = apsw.Connection(self._path, vfs=self._vfs, statementcachesize=600)
        except apsw.CantOpenError:
            raise InvalidArgument(
                "the database file cannot be opened; its folder must exist and be writable"
            ) from None
        connection.set_busy_handler(_fair_wait(self._busy_timeout_s))
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # Without the guarantee of a stable plan this build, made with STAT4, prepares a join anew
        # for every set of values it is given: a walk of four names takes ten times as long.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, 100_000)
        connection.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50)
        execute: Any = connection.execute
        execute(f"PRAGMA page_size = {PAGE_BYTES}")
        execute("PRAGMA journal_mode = WAL").fetchall()
        execute(f"PRAGMA synchronous = {'FULL' if self._full else 'NORMAL'}")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA mmap_size = 0")
        execute(f"PRAGMA cache_size = -{self._cache_kib}")
        execute("PRAGMA wal_autocheckpoint = 4000")
        execute("PRAGMA journal_size_limit = 67108864")
        self._opened.append(connection)
        return connection

    def _check(self) -> None:
        if self._closed:
            raise StoreClosed
        if self._failed is not None:
            raise type(self._failed)(self._failed.message)

    # -- reading

    def read(self, tenant: int, work: Callable[[Tx], T]) -> T:
        try:
            connection = self._readers.pop()
        except IndexError:
            self._check()
            connection = self._connect()
        try:
            return work(SqliteTx(connection.cursor(), tenant))
        except apsw.Error as error:
            raise _translated(error) from error
        finally:
            self._return(connection)

    def snapshot(self, tenant: int, work: Callable[[Tx], T]) -> T:
        def inside(tx: Tx) -> T:
            cursor = cast(SqliteTx, tx).cursor
            cursor.execute("BEGIN")
            try:
                return work(tx)
            finally:
                cursor.execute("COMMIT")

        return self.read(tenant, inside)

    def _return(self, connection: apsw.Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._readers.append(connection)

    # -- writing

    def write(self, tenant: int, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        self._check()
        job = _Job(tenant, work, durable)
        with self._lock:
            self._queue.append(job)
            job.leads = not self._leading
            self._leading = True
        if not job.leads:
            job.turn.acquire()
        if job.leads:
            self._lead()
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[no-any-return]

    def _lead(self) -> None:
        """Commits what is queued (the leader's own job is at its head), then passes the lead."""
        group: list[_Job] = []
        try:
            with self._lock:
                while self._queue and len(group) < GROUP_SIZE:
                    group.append(self._queue.popleft())
            self._commit(group)
        finally:
            # An interrupt may end the leader's work at any line; what it had not finished is
            # somebody else's and goes back to the head of the queue.
            for job in group[1:]:
                if job.done:
                    job.turn.release()
            with self._lock:
                self._queue.extendleft(job for job in reversed(group[1:]) if not job.done)
                self._leading = bool(self._queue)
                if self._queue:
                    self._queue[0].leads = True
                    self._queue[0].turn.release()

    def _commit(self, group: list[_Job]) -> None:
        try:
            with _translating():
                self._begin(any(job.durable for job in group))
                self._run(group)
                self._cursor.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if isinstance(error, StoreFailed):
                self._failed = error
            for job in group:
                if job.error is None and isinstance(error, Exception):
                    job.error = error
                job.done = job.error is not None
            if not isinstance(error, Exception):
                raise
        else:
            self._local_commits += 1
            for job in group:
                job.done = True

    def _begin(self, durable: bool) -> None:
        self._check()
        wanted = self._full and durable
        if wanted != self._synchronous:
            self._cursor.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")
            self._synchronous = wanted
        self._cursor.execute("BEGIN IMMEDIATE")

    def _run(self, group: list[_Job]) -> None:
        cursor = self._cursor
        if len(group) == 1:
            group[0].answer = group[0].work(SqliteTx(cursor, group[0].tenant))
            return
        for job in group:
            cursor.execute("SAVEPOINT job")
            try:
                job.answer = job.work(SqliteTx(cursor, job.tenant))
            except Exception as error:
                if not self._writer.in_transaction:
                    # The failure has ended the whole transaction, as a full disk does.
                    raise
                cursor.execute("ROLLBACK TO job")
                job.error = _translated(error) if isinstance(error, apsw.Error) else error
            cursor.execute("RELEASE job")

    def _roll_back(self) -> None:
        try:
            if self._writer.in_transaction:
                self._cursor.execute("ROLLBACK")
        except apsw.Error as error:
            self._failed = StoreFailed(f"a transaction could not be rolled back: {error}")

    # -- the rest

    def version(self) -> object:
        with _translating():
            execute: Any = self._watcher().execute
            row = execute("PRAGMA data_version").fetchall()[0][0]
        return (self._local_commits, row)

    def _watcher(self) -> apsw.Connection:
        """`data_version` compares one connection with all others, so it needs one of its own."""
        with self._lock:
            if not hasattr(self, "_watching"):
                self._watching = self._connect()
            return self._watching

    def migrate(self) -> None:
        def apply(tx: Tx) -> None:
            cursor = cast(SqliteTx, tx).cursor
            version = cursor.execute("PRAGMA user_version").fetchall()[0][0]
            refuse_newer(version, SQLITE)
            for number, text in SQLITE.after(version):
                cursor.execute(text)
                cursor.execute(f"PRAGMA user_version = {number}")

        with _translating():
            version = self._cursor.execute("PRAGMA user_version").fetchall()[0][0]
        if version != SQLITE.newest:
            self.write(0, apply)

    def backup(self, path: str) -> None:
        """`VACUUM INTO` reads one snapshot and writes a file that is synced and complete."""
        target = Path(path)
        if target.exists():
            raise InvalidArgument("the backup file exists already; choose another name")
        self._check()
        with _translating():
            connection = self._connect()
            try:
                # The target of the copy counts as one attached database.
                connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 1)
                execute: Any = connection.execute
                execute("VACUUM INTO ?", (str(target),))
            finally:
                self._opened.remove(connection)
                connection.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        while self._leading:
            time.sleep(0.001)
        for connection in self._opened:
            connection.close()


def _fair_wait(timeout_s: float) -> Callable[[int], bool]:
    """Waits for another process's writer by short random sleeps.

    SQLite's own handler backs off further and further, so that the process which waited longest is
    the least likely to get the lock; at eight processes its worst wait is ten times this one's.
    """
    started = [0.0]

    def wait(attempt: int) -> bool:
        now = time.monotonic()
        if attempt == 0:
            started[0] = now
        if now - started[0] > timeout_s:
            return False
        time.sleep(random.uniform(0.0002, 0.001))
        return True

    return wait


class _translating:  # noqa: N801
    """Turns the driver's errors into ours."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _translated(error) from error


def _translated(error: apsw.Error) -> Exception:
    extended = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy("other writers held the database until the deadline")
    if isinstance(error, apsw.FullError):
        return StoreFull()
    if isinstance(error, apsw.IOError) and extended in _FSYNC_FAILURES:
        return StoreFailed(f"the disk refused a write (SQLite code {extended})")
    if isinstance(error, apsw.IOError):
        return StoreFailed(f"the disk refused to be read (SQLite code {extended})")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corrupt("the database file is damaged or is no database")
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.CantOpenError):
        return InvalidArgument("the database file cannot be written; look at its permissions")
    if isinstance(error, apsw.ConnectionClosedError):
        return StoreClosed()
    return unknown(error)


def restore_file(backup: Path, target: Path) -> None:
    """Copies a backup to where no file is: written beside it, synced, then linked into place."""
    if not backup.is_file():
        raise InvalidArgument("there is no backup file of this name")
    partial = target.with_name(f".{target.name}.restoring")
    try:
        with _translating():
            source = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                execute: Any = source.execute
                execute("VACUUM INTO ?", (str(partial),))
            finally:
                source.close()
        os.link(partial, target)
    except FileExistsError:
        raise InvalidArgument("there is already a file where the store should go") from None
    finally:
        partial.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
