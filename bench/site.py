"""Where rows are measured: empty databases of either kind, made when asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

import keelfs
from bench.floors import Floor, PostgresFloor, SqliteFloor
from bench.row import SQLITE
from keelfs.testing.cluster import PostgresCluster


class Site:
    """A folder and a durable PostgreSQL server, both gone afterwards."""

    def __init__(self, folder: Path | None, *, quick: bool) -> None:
        self.quick = quick
        self.folder = Path(tempfile.mkdtemp(prefix="keelfs-bench-", dir=folder))
        self._cluster: PostgresCluster | None = None
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cluster is not None:
            self._cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pick(self, whole: int, quick: int) -> int:
        """A size or a number of rounds."""
        return quick if self.quick else whole

    def new_file(self) -> Path:
        return self.folder / f"{next(self._numbers)}.db"

    def new_database(self) -> str:
        """The URL of an empty PostgreSQL database."""
        if self._cluster is None:
            self._cluster = PostgresCluster()
            self._cluster.start()
        return self._cluster.create_database()

    def new_url(self, database: str) -> str:
        """The URL of a store that does not exist yet."""
        return f"sqlite:///{self.new_file()}" if database == SQLITE else self.new_database()

    @contextmanager
    def store(self, database: str, **settings: Any) -> Iterator[keelfs.Store]:
        """An empty store."""
        with keelfs.open(self.new_url(database), **settings) as store:
            yield store

    @contextmanager
    def workspace(self, database: str, **settings: Any) -> Iterator[keelfs.Space]:
        """An empty space of an empty store."""
        with self.store(database, **settings) as store:
            yield store.tenant("acme").space("session", "bench")

    @contextmanager
    def floor(self, database: str, *, full: bool = True) -> Iterator[Floor]:
        """An empty database, bare."""
        with self.floors(database, 1, full=full) as floors:
            yield floors[0]

    @contextmanager
    def floors(self, database: str, number: int, *, full: bool = True) -> Iterator[list[Floor]]:
        """Connections to one empty database, each its own."""
        opened: list[Floor] = []
        where = self.new_url(database)
        try:
            for _ in range(number):
                if database == SQLITE:
                    opened.append(SqliteFloor(Path(where.removeprefix("sqlite:///")), full=full))
                else:
                    opened.append(PostgresFloor(where))
            yield opened
        finally:
            for each in opened:
                each.close()

    def fsync_ms(self) -> float:
        """What the disk below the folder takes for 8 KiB appended and synced."""
        taken: list[float] = []
        path = self.folder / "fsync"
        with path.open("wb", buffering=0) as file:
            for _ in range(200):
                file.write(bytes(8192))
                started = time.perf_counter()
                os.fdatasync(file.fileno())
                taken.append(time.perf_counter() - started)
        path.unlink()
        return median(taken) * 1e3


def planted(space: keelfs.Workspace, folder: str, files: int, data: bytes = b"x" * 1024) -> None:
    """Files in one directory, by batches."""
    space.mkdir(folder, parents=True, exist_ok=True)
    for first in range(0, files, 1000):
        last = min(first + 1000, files)
        space.batch([keelfs.ops.Write(f"{folder}/f{at:06}", data) for at in range(first, last)])
