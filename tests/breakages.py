"""What can go wrong in place of a statement, for each database, as the driver reports it."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, cast

import apsw
from msgspec import Struct

from keelfs.errors import KeelError, StoreBusy, StoreFailed, StoreFull, Unavailable, UnknownFailure
from keelfs.store.database import Tx
from keelfs.testing.faults import Fault


class Breakage(Struct, frozen=True):
    """One way to fail."""

    name: str
    fault: Fault
    #: What a caller is told where trying again does not help.
    error: type[KeelError]
    #: Whether the store itself tries again, so that a single failure does not show.
    mended: bool = False
    #: Whether the store refuses everything from then on, until it is opened anew.
    stops: bool = False


def _raises(code: int, *, ends_transaction: bool = False) -> Fault:
    def fault(tx: Tx) -> None:
        cursor: Any = cast(Any, tx).cursor
        if ends_transaction and cursor.connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise apsw.exception_for(code)

    return fault


def _defect_of_sqlite(tx: Tx) -> None:
    cast(Any, tx).cursor.execute("SELECT missing FROM nowhere")


SQLITE = (
    Breakage("driver error", _defect_of_sqlite, UnknownFailure),
    Breakage("busy", _raises(apsw.SQLITE_BUSY), StoreBusy),
    Breakage("disk full", _raises(apsw.SQLITE_FULL), StoreFull),
    # SQLite rolls back by itself where it cannot undo a single statement.
    Breakage("disk full, and rolled back", _raises(apsw.SQLITE_FULL, ends_transaction=True),
             StoreFull),
    Breakage("fsync failed", _raises(apsw.SQLITE_IOERR_FSYNC), StoreFailed, stops=True),
    Breakage("disk unreadable", _raises(apsw.SQLITE_IOERR_READ), StoreFailed, stops=True),
)  # fmt: skip


def _sends(text: str) -> Fault:
    """The server fails by itself; like any statement, its failure may show only later."""

    def fault(tx: Tx) -> None:
        cast(Any, tx)._connection.execute(text)

    return fault


def _reports(code: str) -> Fault:
    return _sends(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$")


def _loses_connection(tx: Tx) -> None:
    connection = cast(Any, tx)._connection
    if connection.closed:
        return
    with contextlib.closing(socket.socket(fileno=connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
        line.detach()
    connection.execute("SELECT 1")


POSTGRES = (
    Breakage("driver error", _sends("SELECT missing FROM nowhere"), UnknownFailure),
    Breakage("disk full", _reports("53100"), StoreFull),
    Breakage("deadlock", _reports("40P01"), StoreBusy, mended=True),
    Breakage("serialization failure", _reports("40001"), StoreBusy, mended=True),
    Breakage("lock timeout", _reports("55P03"), StoreBusy, mended=True),
    Breakage("connection lost", _loses_connection, Unavailable, mended=True),
)
BREAKAGES = {"sqlite": SQLITE, "postgres": POSTGRES}
