"""The PostgreSQL of the tests starts, dies, recovers and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from keelfs.testing.cluster import PostgresCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    with PostgresCluster() as cluster:
        yield cluster


def _setting(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _gone(pid: int) -> bool:
    """Dead, or waiting only to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_cluster_syncs_unless_it_is_told_not_to(
    cluster: PostgresCluster, postgres_cluster: PostgresCluster
) -> None:
    names = ("fsync", "synchronous_commit", "full_page_writes")
    assert [_setting(cluster.url, name) for name in names] == ["on", "on", "on"]
    assert [_setting(postgres_cluster.url, name) for name in names] == ["off", "off", "off"]


def test_names_sort_by_their_bytes_and_text_is_utf8(cluster: PostgresCluster) -> None:
    assert _setting(cluster.url, "server_encoding") == "UTF8"
    with psycopg.connect(cluster.url) as connection:
        rows = connection.execute(
            "SELECT name FROM unnest(ARRAY['b', 'a', 'B', 'ä']) AS name ORDER BY name"
        ).fetchall()
    assert [row[0] for row in rows] == ["B", "a", "b", "ä"]


@pytest.mark.parametrize("crash", ["kill9", "immediate", "fast"])
def test_what_was_committed_survives_and_what_was_not_does_not(
    cluster: PostgresCluster, crash: str
) -> None:
    url = cluster.create_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n integer)")
        connection.execute("INSERT INTO kept VALUES (1)")
    doomed = psycopg.connect(url)
    doomed.execute("INSERT INTO kept VALUES (2)")
    if crash == "kill9":
        cluster.kill9()
    else:
        cluster.stop("immediate" if crash == "immediate" else "fast")
    with pytest.raises(psycopg.OperationalError):
        doomed.execute("SELECT 1")
    cluster.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_each_test_has_an_empty_database_of_its_own(postgres_cluster: PostgresCluster) -> None:
    first, second = postgres_cluster.create_database(), postgres_cluster.create_database()
    with psycopg.connect(first, autocommit=True) as connection:
        connection.execute("CREATE TABLE mine (n integer)")
    with psycopg.connect(second) as connection:
        tables = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchall() == []


def test_a_closed_cluster_leaves_no_process_and_no_file() -> None:
    with PostgresCluster(durable=False) as cluster:
        pid, directory = cluster.pid, cluster.directory
    assert _gone(pid)
    assert not directory.exists()


def test_a_cluster_does_not_outlive_a_killed_owner() -> None:
    script = (
        "import time; from keelfs.testing.cluster import PostgresCluster;"
        "c = PostgresCluster(durable=False); c.start(); print(c.pid, c.directory, flush=True);"
        "time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, directory = owner.stdout.readline().split()
    assert not _gone(int(pid))
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 30
    while (not _gone(int(pid)) or Path(directory).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _gone(int(pid))
    assert not Path(directory).exists()
