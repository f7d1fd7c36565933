"""The floors: bare programs on a driver that do the least work for the same durable result.

A file is one row, its path the key and its bytes the value: no tree, no history, no journal, no
limits, no checksum. The settings that decide what a commit costs (page size, cache, checkpoints,
synchronous, prepared statements) are those of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import apsw

CHUNK_BYTES: Final = 256 * 1024


class Floor(Protocol):
    """A bare program on one connection."""

    def create(self, path: str, data: bytes) -> None:
        """One row more, committed."""
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """The row's bytes replaced, committed."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of a row by its primary key."""
        ...

    def size(self, path: str) -> int:
        """Only the length of them."""
        ...

    def insert_all(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """One INSERT per row, all in one transaction."""
        ...

    def insert_tree(self, tree: int, files: int, data: bytes) -> None:
        """What a tree consists of, row by row, by executemany: nodes, names, bytes, journal."""
        ...

    def stream_in(self, number: int, blocks: Iterable[bytes]) -> None:
        """One row per chunk, in transactions of 16 of them; only the last one is synced."""
        ...

    def stream_out(self, number: int) -> Iterator[bytes]:
        """The chunks of a file, one SELECT each."""
        ...

    def copy_rows(self, number: int) -> None:
        """INSERT ... SELECT of what `insert_tree` has made: nodes and names, as another tree."""
        ...

    def close(self) -> None: ...


_TABLES: Final = (
    "CREATE TABLE files (path {text} PRIMARY KEY, data {blob} NOT NULL)",
    """CREATE TABLE chunks (file {int} NOT NULL, number {int} NOT NULL, data {blob} NOT NULL,
       PRIMARY KEY (file, number))""",
    """CREATE TABLE nodes (tree {int} NOT NULL, id {int} NOT NULL, kind {int} NOT NULL,
       mode {int} NOT NULL, size {int} NOT NULL, mtime {int} NOT NULL, content {int},
       PRIMARY KEY (tree, id)){without}""",
    """CREATE TABLE entries (tree {int} NOT NULL, parent {int} NOT NULL, name {text} NOT NULL,
       node {int} NOT NULL, PRIMARY KEY (tree, parent, name)){without}""",
    "CREATE TABLE contents (id {int} PRIMARY KEY, data {blob} NOT NULL)",
    """CREATE TABLE changes (tree {int} NOT NULL, seq {int} NOT NULL, kind {text} NOT NULL,
       path {text} NOT NULL, at {int} NOT NULL, PRIMARY KEY (tree, seq)){without}""",
)
_COPY_NODES: Final = (
    "INSERT INTO nodes SELECT {0}, id, kind, mode, size, mtime, content FROM nodes WHERE tree = 1"
)
_COPY_ENTRIES: Final = (
    "INSERT INTO entries SELECT {0}, parent, name, node FROM entries WHERE tree = 1"
)


def _tree_rows(
    tree: int, files: int, data: bytes
) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    first, now = tree * files, 1_800_000_000_000_000_000
    numbers = range(files)
    yield "contents", [(first + at, data) for at in numbers]
    yield "nodes", [(tree, at, 2, 0o644, len(data), now, first + at) for at in numbers]
    yield "entries", [(tree, 1, f"f{at:05}", at) for at in numbers]
    yield "changes", [(tree, at, "create", f"/import/f{at:05}", now) for at in numbers]


class SqliteFloor:
    """On apsw."""

    def __init__(self, path: Path, *, full: bool = True) -> None:
        self._full = full
        self._connection = apsw.Connection(str(path), statementcachesize=600)
        self._connection.set_busy_timeout(60_000)
        self._cursor: Any = self._connection.cursor()
        for setting in (
            "page_size = 8192",
            "journal_mode = WAL",
            "foreign_keys = ON",
            "cache_size = -16384",
            "wal_autocheckpoint = 4000",
            "journal_size_limit = 67108864",
        ):
            self._cursor.execute(f"PRAGMA {setting}").fetchall()
        self._synced(full)
        types = {"text": "TEXT", "blob": "BLOB", "int": "INTEGER", "without": " WITHOUT ROWID"}
        for table in _TABLES:
            self._cursor.execute(
                table.format(**types).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
            )

    def _synced(self, full: bool) -> None:
        self._cursor.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")

    def create(self, path: str, data: bytes) -> None:
        self._cursor.execute("INSERT INTO files VALUES (?, ?)", (path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._cursor.execute("UPDATE files SET data = ? WHERE path = ?", (data, path))

    def read(self, path: str) -> bytes:
        execute = self._cursor.execute
        data: bytes = execute("SELECT data FROM files WHERE path = ?", (path,)).fetchall()[0][0]
        return data

    def size(self, path: str) -> int:
        execute = self._cursor.execute
        sql = "SELECT length(data) FROM files WHERE path = ?"
        return int(execute(sql, (path,)).fetchall()[0][0])

    def insert_all(self, rows: Iterable[tuple[str, bytes]]) -> None:
        with self._connection:
            for each in rows:
                self._cursor.execute("INSERT INTO files VALUES (?, ?)", each)

    def insert_tree(self, tree: int, files: int, data: bytes) -> None:
        many = self._cursor.executemany
        with self._connection:
            for table, rows in _tree_rows(tree, files, data):
                many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def stream_in(self, number: int, blocks: Iterable[bytes]) -> None:
        insert = "INSERT INTO chunks VALUES (?, ?, ?)"
        self._synced(False)
        self._cursor.execute("BEGIN IMMEDIATE")
        for at, data in enumerate(blocks):
            if at and at % 16 == 0:
                self._cursor.execute("COMMIT")
                self._cursor.execute("BEGIN IMMEDIATE")
            self._cursor.execute(insert, (number, at, data))
        self._cursor.execute("COMMIT")
        self._synced(self._full)
        self._cursor.execute("INSERT INTO files VALUES (?, ?)", (f"stream {number}", b""))

    def stream_out(self, number: int) -> Iterator[bytes]:
        execute = self._cursor.execute
        select = "SELECT data FROM chunks WHERE file = ? AND number = ?"
        at = 0
        while rows := execute(select, (number, at)).fetchall():
            yield rows[0][0]
            at += 1

    def copy_rows(self, number: int) -> None:
        with self._connection:
            self._cursor.execute(_COPY_NODES.format("?"), (number,))
            self._cursor.execute(_COPY_ENTRIES.format("?"), (number,))

    def close(self) -> None:
        self._connection.close()


class PostgresFloor:
    """On psycopg: binary, prepared, every statement its own transaction unless it says more."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection: Any = psycopg.connect(
            url, autocommit=True, prepare_threshold=0, cursor_factory=psycopg.RawCursor
        )
        self._cursor: Any = self._connection.cursor(binary=True)
        types = {"text": 'TEXT COLLATE "C"', "blob": "BYTEA", "int": "BIGINT", "without": ""}
        for table in _TABLES:
            create = table.format(**types).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
            self._cursor.execute(create)
        for table in ("files", "chunks", "contents"):
            self._cursor.execute(f"ALTER TABLE {table} ALTER data SET STORAGE EXTERNAL")

    def create(self, path: str, data: bytes) -> None:
        self._cursor.execute("INSERT INTO files VALUES ($1, $2)", (path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        self._cursor.execute("UPDATE files SET data = $1 WHERE path = $2", (data, path))

    def read(self, path: str) -> bytes:
        self._cursor.execute("SELECT data FROM files WHERE path = $1", (path,))
        data: bytes = self._cursor.fetchone()[0]
        return data

    def size(self, path: str) -> int:
        self._cursor.execute("SELECT length(data) FROM files WHERE path = $1", (path,))
        return int(self._cursor.fetchone()[0])

    def insert_all(self, rows: Iterable[tuple[str, bytes]]) -> None:
        with self._connection.transaction(), self._connection.pipeline():
            for each in rows:
                self._cursor.execute("INSERT INTO files VALUES ($1, $2)", each)

    def insert_tree(self, tree: int, files: int, data: bytes) -> None:
        many = self._cursor.executemany
        with self._connection.transaction(), self._connection.pipeline():
            for table, rows in _tree_rows(tree, files, data):
                places = ", ".join(f"${at}" for at in range(1, len(rows[0]) + 1))
                many(f"INSERT INTO {table} VALUES ({places})", rows)

    def stream_in(self, number: int, blocks: Iterable[bytes]) -> None:
        insert = "INSERT INTO chunks VALUES ($1, $2, $3)"
        waiting: list[tuple[int, int, bytes]] = []
        for at, data in enumerate(blocks):
            waiting.append((number, at, data))
            if len(waiting) == 16:
                self._store(insert, waiting)
                waiting = []
        self._store(insert, waiting)
        self._cursor.execute("INSERT INTO files VALUES ($1, $2)", (f"stream {number}", b""))

    def _store(self, insert: str, rows: list[tuple[int, int, bytes]]) -> None:
        with self._connection.transaction(), self._connection.pipeline():
            self._cursor.execute("SET LOCAL synchronous_commit = off")
            self._cursor.executemany(insert, rows)

    def stream_out(self, number: int) -> Iterator[bytes]:
        select = "SELECT data FROM chunks WHERE file = $1 AND number = $2"
        at = 0
        while row := self._cursor.execute(select, (number, at)).fetchone():
            yield row[0]
            at += 1

    def copy_rows(self, number: int) -> None:
        with self._connection.transaction():
            self._cursor.execute(_COPY_NODES.format("$1::bigint"), (number,))
            self._cursor.execute(_COPY_ENTRIES.format("$1::bigint"), (number,))

    def close(self) -> None:
        self._connection.close()
