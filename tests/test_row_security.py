"""The second lock of PostgreSQL: what a statement forgets, the database remembers.

Row-level security is forced on every table that holds rows of a tenant, under a role that owns
nothing and bypasses nothing. So with the tenant taken out of every WHERE of the store, each verb
still does what it does, and nothing of anybody else is seen or touched.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from databases import TABLES, Opened
from keelfs.errors import KeelError
from keelfs.model import ABSENT, Limits
from keelfs.ops import GetStat, GetUsage, List, Read, Remove, Write
from keelfs.store.database import Statement
from keelfs.store.postgres import ROLE, PostgresDatabase
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, Exercise, prepare
from keelfs.testing.portrait import OWN_FIELDS, portrait, without

ALL = (*TABLES, "tenants")


@pytest.fixture(scope="module")
def store(postgres_cluster: PostgresCluster) -> Iterator[Opened]:
    opened = Opened("postgres", postgres_cluster.create_database())
    yield opened
    opened.close()


@pytest.fixture
def caller(store: Opened) -> Iterator[psycopg.Connection[Any]]:
    """A connection in the role of the store, and none of its statements."""
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(f"SET ROLE {ROLE}".encode())
        yield connection


def filled(store: Opened) -> int:
    """A tenant that holds something."""
    tenant = store.tenant()
    prepare(store.space(tenant).perform)
    return tenant


# -- what the catalogue says


def test_every_table_of_a_tenant_is_known_and_locked(store: Opened) -> None:
    rows = store.execute(
        """SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace
             LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant'
            WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')
              AND (a.attname IS NOT NULL OR c.relname = 'tenants')"""
    )
    assert {row[0] for row in rows} == set(ALL)
    assert [row for row in rows if row[1:] != (True, True)] == []


def test_each_policy_asks_for_the_tenant_and_none_loosens_it(store: Opened) -> None:
    rows = store.execute("SELECT tablename, cmd, qual, with_check FROM pg_policies")
    assert sorted(row[0] for row in rows) == sorted(ALL)
    for table, command, condition, check in rows:
        wanted = "(tenant = keelfs_tenant())"
        if table == "tenants":
            wanted = "((id = keelfs_tenant()) OR (keelfs_tenant() = 0))"
        # Without a check of its own, what is written is held to the same condition.
        assert (command, condition, check) == ("ALL", wanted, None)


def test_the_role_owns_nothing_and_bypasses_nothing(store: Opened) -> None:
    assert store.execute(
        """SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication
             FROM pg_roles WHERE rolname = %s""",
        (ROLE,),
    ) == [(False,) * 6]
    assert store.execute(
        """SELECT c.relname FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
            WHERE r.rolname = %s""",
        (ROLE,),
    ) == []  # fmt: skip
    # TRUNCATE, REFERENCES and TRIGGER would each be a way around the policies.
    granted = store.execute(
        """SELECT table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)
             FROM information_schema.role_table_grants WHERE grantee = %s GROUP BY table_name""",
        (ROLE,),
    )
    views = dict.fromkeys(("fs_entries", "fs_chunks", "session_files"), "SELECT")
    assert dict(granted) == {**dict.fromkeys(ALL, "DELETE INSERT SELECT UPDATE"), **views}


def test_views_and_functions_lend_nobody_their_rights(store: Opened) -> None:
    views = store.execute(
        """SELECT c.relname, c.reloptions FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = 'public' AND c.relkind IN ('v', 'm')"""
    )
    assert len(views) == 3
    assert all("security_invoker=true" in (options or []) for _name, options in views)
    assert (
        store.execute(
            """SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = 'public' AND p.prosecdef"""
        )
        == []
    )


# -- who is bound to no tenant


@pytest.mark.parametrize("setting", [None, "", "999999"])
def test_nothing_is_seen_by_nobody(
    store: Opened, caller: psycopg.Connection[Any], setting: str | None
) -> None:
    filled(store)
    if setting is not None:
        caller.execute("SELECT set_config('keelfs.tenant', %s, false)", (setting,))
    for table in (*ALL, "fs_entries", "fs_chunks", "session_files"):
        assert caller.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,), table
    for table in ALL:
        assert caller.execute(f"DELETE FROM {table}".encode()).rowcount == 0, table


def test_nobody_writes_for_somebody(store: Opened, caller: psycopg.Connection[Any]) -> None:
    mine, other = filled(store), filled(store)
    caller.execute("SELECT set_config('keelfs.tenant', %s, false)", (str(mine),))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        caller.execute("INSERT INTO marks VALUES (%s, 1, 1, 1)", (other,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        caller.execute("UPDATE entries SET tenant = %s", (other,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        caller.execute("TRUNCATE entries")


def test_a_pooled_connection_forgets_whom_it_served(store: Opened) -> None:
    database = PostgresDatabase(store.url, pool_size=1)
    database.migrate()
    tenant = filled(store)
    opened = store.catalog
    home = type(store.space(tenant))(
        database, tenant, store.space(tenant).space, store.space(tenant).principal,
        opened._clock, Limits(), Limits(),
    )  # fmt: skip

    def look() -> tuple[object, object]:
        with database._pool.connection() as connection:
            setting = connection.execute("SELECT current_setting('keelfs.tenant', true)").fetchone()
            count = connection.execute("SELECT count(*) FROM nodes").fetchone()
        return setting, count

    works = (
        Read("/a"), List("/"), GetUsage(), GetStat("/nothing"), Write("/n", "x"), Read("/big"),
        Write("/n", "y", ABSENT), Remove("/d"), GetStat("/link"),
    )  # fmt: skip
    for op in works:
        with contextlib.suppress(KeelError):
            home.perform(op)
        assert look() in {(("",), (0,)), ((None,), (0,))}, op
    database.snapshot(tenant, lambda tx: None)
    assert look() == (("",), (0,))
    database.close()


# -- without the first lock


_COMPARED = re.compile(
    r"((?<![\w.])(?:[a-z]+[0-9]*\.)?(tenant|id)) = (\$1(?!\d)(?:::bigint)?|o\.tenant)"
)


def unlocked(text: str) -> str:
    """A statement that compares nothing with its tenant any more."""

    def without_it(match: re.Match[str]) -> str:
        return f"({match[1]} = {match[3]} OR true)"

    tables = r"\b(?:FROM|UPDATE) tenants\b"
    if re.search(tables, text):
        return _COMPARED.sub(without_it, text)
    return _COMPARED.sub(lambda m: without_it(m) if m[2] == "tenant" else m[0], text)


@pytest.fixture
def no_first_lock(monkeypatch: pytest.MonkeyPatch) -> int:
    """Takes the tenant out of every WHERE of the store; how many statements had it."""
    changed = 0
    for statement in Statement.all:
        text = unlocked(statement.pg)
        changed += text != statement.pg
        monkeypatch.setattr(statement, "pg", text)
    return changed


def effect(home: Any, exercise: Exercise) -> Any:
    """What a verb does and answers, but for what differs from one time to the next."""
    prepare(home.perform)
    op = exercise.op(home.perform)
    home.perform(op)
    tree = {
        path: (without(stat, *OWN_FIELDS), data)
        for path, (stat, data) in portrait(home.perform).items()
    }
    return tree, home.perform(GetUsage())


def violations(store: Opened, exercise: Exercise, wanted: Any) -> list[str]:
    """What a verb does that it does not do when nobody else is there."""
    try:
        seen = effect(store.space(store.tenant()), exercise)
    except Exception as error:
        return [f"it fails: {error!r:.100}"]
    return [] if seen == wanted else ["its effect is another one"]


def test_the_lock_is_taken_out_everywhere(no_first_lock: int) -> None:
    assert no_first_lock > len(Statement.all) - 25
    for statement in Statement.all:
        left = statement.pg.replace("OR true)", "")
        kept = [m[0] for m in _COMPARED.finditer(left) if m[2] == "tenant"]
        assert len(kept) == statement.pg.count("OR true)") or "tenants" in statement.pg, statement


def test_every_verb_keeps_to_its_tenant_without_the_first_lock(
    store: Opened, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Others hold the same names, nodes and contents."""
    wanted = {name: effect(store.space(store.tenant()), each) for name, each in EXERCISES.items()}
    other = filled(store)
    request.getfixturevalue("no_first_lock")
    before = store.rows(other)
    found = {name: violations(store, each, wanted[name]) for name, each in EXERCISES.items()}
    assert {name: each for name, each in found.items() if each} == {}
    assert store.rows(other) == before


def test_without_both_locks_it_is_noticed(
    postgres_url: str, request: pytest.FixtureRequest
) -> None:
    """Most verbs then meet what is not theirs; so the second lock is what held them."""
    store = Opened("postgres", postgres_url, busy_timeout_s=0.2)
    names = ("write over", "remove a file", "usage", "take a snapshot")
    wanted = {name: effect(store.space(store.tenant()), EXERCISES[name]) for name in names}
    filled(store)
    for table in ALL:
        store.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    request.getfixturevalue("no_first_lock")
    found = {name: violations(store, EXERCISES[name], wanted[name]) for name in names}
    store.close()
    assert [name for name, each in found.items() if not each] == []


def test_a_space_of_somebody_else_is_no_space_without_the_first_lock(
    store: Opened, no_first_lock: int
) -> None:
    assert no_first_lock
    mine, other = filled(store), filled(store)
    theirs = store.space(other)
    before = store.rows(other)
    forged = type(theirs)(
        store.database, mine, theirs.space, theirs.principal, store.catalog._clock, Limits(),
        Limits(),
    )  # fmt: skip
    for name, exercise in EXERCISES.items():
        op = exercise.op(theirs.perform)
        try:
            answer = forged.perform(op)
        except KeelError:
            continue
        assert not getattr(answer, "items", answer), (name, answer)
    assert store.rows(other) == before
