"""Both databases keep the whole contract."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keelfs.clock import SystemClock
from keelfs.model import UNLIMITED, Limits
from keelfs.ports import Handler
from keelfs.store.catalog import SqlCatalog
from keelfs.store.database import Database
from keelfs.store.home import SpaceHome
from keelfs.store.sqlite import SqliteDatabase
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register

_numbers = itertools.count(1)
_databases: dict[str, Database] = {}


def make(engine: str, setting: Setting) -> SpaceHome:
    """A space of a tenant of its own, in the database that all tests of the module share."""
    database = _databases[engine]
    catalog = SqlCatalog(database, setting.clock or SystemClock(), UNLIMITED, 3600.0)
    tenant = catalog.open_tenant(f"tenant {next(_numbers)}", True)
    home = catalog.open_space(tenant, "session", "s", setting.principal, True)
    home.set_limits(setting.limits)
    return home


def relimit(handler: Handler, limits: Limits) -> None:
    assert isinstance(handler, SpaceHome)
    handler.set_limits(limits)


SQLITE = register(Subject("sqlite", lambda setting: make("sqlite", setting), relimit=relimit))
POSTGRES = register(Subject("postgres", lambda setting: make("postgres", setting), relimit=relimit))


class TestSqlite(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def database(cls) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            database = SqliteDatabase(str(Path(folder) / "store.db"))
            database.migrate()
            _databases["sqlite"] = database
            yield
            database.close()

    @pytest.fixture
    def subject(self) -> Subject:
        return SQLITE


class TestPostgres(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def database(cls, postgres_cluster: PostgresCluster) -> Iterator[None]:
        from keelfs.store.postgres import PostgresDatabase

        # Without a name of its own: stolen work may open and close the class several times.
        database = PostgresDatabase(postgres_cluster.create_database())
        database.migrate()
        _databases["postgres"] = database
        yield
        database.close()

    @pytest.fixture
    def subject(self) -> Subject:
        return POSTGRES
