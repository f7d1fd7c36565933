"""Databases for the tests: a file or a server that nobody else uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keelfs.testing.cluster import PostgresCluster
from serving import Served, serving


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[PostgresCluster]:
    """One server per test process. It syncs nothing: crash tests start their own."""
    with PostgresCluster(durable=False) as cluster:
        yield cluster


@pytest.fixture
def postgres_url(postgres_cluster: PostgresCluster) -> Iterator[str]:
    """The URL of an empty database, removed after the test with whoever is still connected."""
    url = postgres_cluster.create_database()
    yield url
    postgres_cluster.drop_database(url.partition("@/")[2].partition("?")[0])


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A serving process for all tests of this one; each test makes a tenant of its own."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('served') / 'keelfs.db'}"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    with serving(url) as server:
        yield server
