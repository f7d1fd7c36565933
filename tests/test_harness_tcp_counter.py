"""The relay counts turns exactly, loses exactly the answer it was told to, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.tcp_counter import Relay


@pytest.fixture
def relay(postgres_cluster: PostgresCluster, postgres_url: str) -> Iterator[Relay]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (n integer PRIMARY KEY, v bytea)")
    with Relay(postgres_url) as relay:
        yield relay


def _rows(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]


def test_statements_one_by_one_are_a_round_trip_each(relay: Relay) -> None:
    with psycopg.connect(relay.url, autocommit=True) as connection:
        for wanted in (1, 3):
            with relay.counting() as count:
                for _ in range(wanted):
                    connection.execute("SELECT 1").fetchall()
            assert count.round_trips == wanted
            assert count.statements == ["SELECT 1"] * wanted
        # The first time a statement is prepared costs a turn of its own.
        with relay.counting() as count:
            connection.execute("SELECT 2", prepare=True)
        assert (count.round_trips, count.statements) == (2, ["SELECT 2"])
        with relay.counting() as count:
            connection.execute("SELECT 2", prepare=True)
        assert (count.round_trips, count.statements) == (1, ["SELECT 2"])


def test_a_transaction_costs_its_begin_and_its_commit(relay: Relay) -> None:
    """What a test of the store must see: three turns for one statement in a transaction."""
    with psycopg.connect(relay.url) as connection, relay.counting() as count:
        connection.execute("SELECT 1")
        connection.commit()
    assert count.round_trips == 3
    assert [text.upper() for text in count.statements] == ["BEGIN", "SELECT 1", "COMMIT"]


def test_a_pipeline_is_one_round_trip_whatever_it_carries(relay: Relay) -> None:
    with psycopg.connect(relay.url, autocommit=True) as connection:
        with relay.counting() as count, connection.pipeline():
            for n in range(50):
                connection.execute("INSERT INTO t VALUES (%s, %s)", (n, bytes(5000)))
    assert count.round_trips == 1
    assert len(count.statements) == 50


def test_a_pipeline_that_waits_in_its_middle_is_two(relay: Relay) -> None:
    with psycopg.connect(relay.url, autocommit=True) as connection:
        with relay.counting() as count, connection.pipeline():
            connection.execute("SELECT 1").fetchone()
            connection.execute("SELECT 2")
    assert count.round_trips == 2


def test_bytes_pass_unchanged_in_both_directions(relay: Relay) -> None:
    data = bytes(range(256)) * 20_000
    with psycopg.connect(relay.url) as connection:
        connection.execute("INSERT INTO t VALUES (1, %s)", (data,))
        row = connection.execute("SELECT v FROM t").fetchone()
    assert row == (data,)


@pytest.mark.parametrize(("forward", "kept"), [(True, [1]), (False, [])])
@pytest.mark.parametrize("prepare", [False, True])
def test_a_commit_whose_answer_is_lost(
    relay: Relay, postgres_url: str, forward: bool, kept: list[int], prepare: bool
) -> None:
    connection = psycopg.connect(relay.url, autocommit=True)
    connection.execute("BEGIN", prepare=prepare)
    connection.execute("INSERT INTO t VALUES (1)")
    relay.cut_at("commit", forward=forward)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("COMMIT", prepare=prepare)
    assert connection.broken
    assert _rows(postgres_url) == kept
    assert relay.total.cuts == 1
    with psycopg.connect(relay.url) as another:
        another.execute("INSERT INTO t VALUES (2)")
    assert _rows(postgres_url) == [*kept, 2], "a cut is made once"


@pytest.mark.parametrize("statement", range(1, 6))
def test_a_cut_after_the_nth_message(relay: Relay, postgres_url: str, statement: int) -> None:
    connection = psycopg.connect(relay.url, autocommit=True)
    with relay.counting() as count:
        connection.execute("INSERT INTO t VALUES (%s)", (100,))
    each = count.messages
    relay.cut_after(each * statement, forward=False)
    with pytest.raises(psycopg.OperationalError):
        for n in range(10):
            connection.execute("INSERT INTO t VALUES (%s)", (n,))
    assert _rows(postgres_url) == [*range(statement - 1), 100]


def test_a_server_that_dies_is_seen_through_the_relay(relay: Relay, postgres_url: str) -> None:
    connection = psycopg.connect(relay.url)
    pid = connection.info.backend_pid
    with psycopg.connect(postgres_url) as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(psycopg.errors.AdminShutdown):
        connection.execute("SELECT 1")
