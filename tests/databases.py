"""One database of either kind, opened for a test, with every row of a tenant at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg

from keelfs.clock import SystemClock
from keelfs.model import UNLIMITED, Limits, Principal
from keelfs.ports import Clock
from keelfs.store.catalog import SqlCatalog
from keelfs.store.database import Database
from keelfs.store.home import SpaceHome
from keelfs.store.postgres import PostgresDatabase
from keelfs.store.sqlite import SqliteDatabase

ENGINES = ("sqlite", "postgres")
#: Every table that holds rows of a tenant, but for `tenants` itself.
TABLES = (
    "spaces", "nodes", "entries", "contents", "strands", "chunks", "revisions", "changes", "trash",
    "snapshots", "requests", "marks", "agents", "sessions", "tokens",
    "artifacts", "memory_entries", "citations",
)  # fmt: skip

Rows = dict[str, list[tuple[Any, ...]]]
_numbers = itertools.count(1)


class Opened:
    """A migrated database; `wrap` puts something between it and the store."""

    def __init__(
        self,
        engine: str,
        url: str,
        *,
        wrap: Callable[[Database], Database] = lambda database: database,
        busy_timeout_s: float = 30.0,
        clock: Clock | None = None,
        limits: Limits = UNLIMITED,
    ) -> None:
        self.engine = engine
        self.url = url
        self._wrap = wrap
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock or SystemClock()
        self._limits = limits
        self._look: Any = None
        self.open()

    def open(self) -> None:
        """Opens the database; again, if it has failed and was closed."""
        if self.engine == "sqlite":
            self.real: Database = SqliteDatabase(
                self.path, durability="relaxed", busy_timeout_s=self._busy_timeout_s
            )
        else:
            self.real = PostgresDatabase(self.url, busy_timeout_s=self._busy_timeout_s)
        self.real.migrate()
        self.database = self._wrap(self.real)
        self.catalog = SqlCatalog(self.database, self._clock, self._limits, 3600.0)

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def close(self) -> None:
        self.real.close()
        if self._look is not None:
            self._look.close()
            self._look = None

    def reopen(self) -> None:
        self.close()
        self.open()

    # -- spaces

    def tenant(self, name: str | None = None) -> int:
        """The id of a tenant, a new one unless it is named."""
        return self.catalog.open_tenant(name or f"tenant {next(_numbers)}", True)

    def space(self, tenant: int, key: str = "s", kind: str = "session") -> SpaceHome:
        return self.catalog.open_space(tenant, kind, key, Principal(), True)

    # -- what is there

    def rows(self, tenant: int, only: tuple[str, ...] = TABLES) -> Rows:
        """Every row of a tenant, seen past the store and past row-level security."""
        return {table: sorted(self.select(table, tenant), key=repr) for table in only}

    def select(self, table: str, tenant: int) -> list[tuple[Any, ...]]:
        mark = "?" if self.engine == "sqlite" else "%s"
        return self.execute(f"SELECT * FROM {table} WHERE tenant = {mark}", (tenant,))

    def execute(self, text: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Runs SQL as the owner of the database."""
        if self._look is None:
            self._look = (
                apsw.Connection(str(Path(self.path)))
                if self.engine == "sqlite"
                else psycopg.connect(self.url, autocommit=True)
            )
        cursor = self._look.execute(text, params)
        if self.engine == "sqlite":
            return list(cursor)
        return list(cursor.fetchall()) if cursor.description else []
