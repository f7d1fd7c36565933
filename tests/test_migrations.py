"""A store of any age opens and is brought to the present schema, or is refused and left alone.

The kept stores in `tests/data` were written by the version whose number they bear; each newer
version must open them and find every byte. `python tests/old_stores.py` keeps one more.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import keelfs
from databases import ENGINES, Opened
from keelfs.errors import InvalidArgument, KeelError
from keelfs.store.schema import POSTGRES, SQLITE, Migrations
from old_stores import DATA, described, expected, kept_versions, revived

KNOWN = {"sqlite": SQLITE, "postgres": POSTGRES}
OF_SQLITE = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
OF_POSTGRES = """
    SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable || ' '
           || coalesce(column_default, '') || ' ' || coalesce(collation_name, '')
      FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname,
                     pg_get_constraintdef(oid) FROM pg_constraint
               WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
    UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = 'public'
    UNION ALL SELECT 'policy', tablename || '.' || policyname, qual FROM pg_policies
    UNION ALL SELECT 'function', proname, prosrc FROM pg_proc
               WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'grant', table_name, privilege_type FROM information_schema.role_table_grants
               WHERE grantee = 'keelfs_app'
    ORDER BY 1, 2, 3"""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{engine}_url"))


def execute(url: str, text: str) -> list[Any]:
    """Runs SQL as the owner of the database."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        rows = list(connection.execute(text))
        connection.close()
        return rows
    with psycopg.connect(url, autocommit=True) as server:
        cursor = server.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def schema(url: str) -> list[Any]:
    return execute(url, OF_SQLITE if url.startswith("sqlite") else OF_POSTGRES)


def version(url: str) -> int:
    if url.startswith("sqlite"):
        return int(execute(url, "PRAGMA user_version")[0][0])
    if not execute(url, "SELECT 1 WHERE to_regclass('keelfs_schema') IS NOT NULL"):
        return 0
    return int(execute(url, "SELECT version FROM keelfs_schema")[0][0])


# -- the sum of the migrations


def test_both_databases_have_the_same_migrations() -> None:
    assert SQLITE.numbers == POSTGRES.numbers == list(range(1, SQLITE.newest + 1))


def test_the_migrations_one_by_one_make_the_schema_of_a_fresh_store(
    engine: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keelfs.open(url).close()
    fresh = schema(url)
    assert len(fresh) > 30
    _emptied(url)
    for number in KNOWN[engine].numbers:
        with monkeypatch.context() as patch:
            _know_until(patch, engine, number)
            keelfs.open(url).close()
            assert version(url) == number
    assert schema(url) == fresh


def _emptied(url: str) -> None:
    if url.startswith("sqlite"):
        for ending in ("", "-wal", "-shm"):
            Path(url.removeprefix("sqlite:///") + ending).unlink(missing_ok=True)
    else:
        execute(url, "DROP SCHEMA public CASCADE")
        execute(url, "CREATE SCHEMA public")


def _know_until(patch: pytest.MonkeyPatch, engine: str, number: int) -> None:
    """Makes this program one that knows no later migration."""
    known = KNOWN[engine]
    texts = [each for each in Migrations(known.dialect).after(0) if each[0] <= number]
    patch.setitem(vars(known), "numbers", [each[0] for each in texts])
    patch.setattr(
        type(known), "after", lambda _self, old: iter(each for each in texts if each[0] > old)
    )


# -- old stores


def test_every_released_version_is_kept(engine: str) -> None:
    assert kept_versions(engine)[0] == 1
    assert kept_versions(engine)[-1] <= KNOWN[engine].newest


@pytest.mark.parametrize("old", [1])
def test_an_old_store_opens_and_holds_what_it_held(engine: str, url: str, old: int) -> None:
    revived(engine, old, url)
    assert version(url) == old
    opened = Opened(engine, url)
    assert version(url) == KNOWN[engine].newest
    space = opened.space(opened.tenant("kept"), "space")
    assert described(space.perform) == expected(engine, old)
    with keelfs.open(url) as store:
        assert store.check().ok
        files = store.tenant("kept").space("session", "space")
        assert files.read("/a", revision=1) == b"first"
        assert [each.name for each in files.snapshots()] == ["kept"]
        files.write("/a", "written by a newer version")
        files.untrash(files.trashed().items[0].id)
        files.rollback("kept")
        assert store.check().ok
    opened.close()


def test_an_old_store_has_the_schema_of_a_fresh_one(engine: str, url: str) -> None:
    keelfs.open(url).close()
    fresh = schema(url)
    _emptied(url)
    revived(engine, 1, url)
    keelfs.open(url).close()
    assert _plain(schema(url)) == _plain(fresh)


def _plain(rows: list[Any]) -> list[Any]:
    return [tuple(" ".join(str(part).split()) for part in row) for row in rows]


# -- what is refused, and what is interrupted


def test_a_newer_store_is_refused_and_left_alone(engine: str, url: str) -> None:
    keelfs.open(url).close()
    newer = KNOWN[engine].newest + 1
    execute(
        url,
        f"PRAGMA user_version = {newer}" if engine == "sqlite"
        else f"UPDATE keelfs_schema SET version = {newer}",
    )  # fmt: skip
    before = schema(url)
    with pytest.raises(InvalidArgument, match=f"has schema {newer}, .* knows {newer - 1}; upgrade"):
        keelfs.open(url)
    assert (schema(url), version(url)) == (before, newer)


@pytest.mark.parametrize("old", [0, 1])
def test_an_interrupted_migration_leaves_the_old_version(
    engine: str, url: str, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last migration fails in its last statement; nothing of any of them is kept."""
    if old:
        revived(engine, old, url)
    before = schema(url)
    known = KNOWN[engine]
    texts = list(known.after(old))
    texts[-1] = (texts[-1][0], texts[-1][1] + "\nSELECT nothing_of_this_name;")
    with monkeypatch.context() as patch:
        patch.setattr(type(known), "after", lambda _self, _old: iter(texts))
        with pytest.raises(KeelError):
            keelfs.open(url)
    assert (schema(url), version(url)) == (before, old)
    with keelfs.open(url) as store:
        assert store.check().ok
    assert version(url) == known.newest


@pytest.mark.parametrize("old", [0, 1])
def test_processes_that_open_a_store_at_once_all_succeed(engine: str, url: str, old: int) -> None:
    if old:
        revived(engine, old, url)
    program = textwrap.dedent(
        """
        import sys
        import keelfs
        sys.stdin.readline()
        with keelfs.open(sys.argv[1]) as store:
            space = store.tenant("many").space("session", "s")
            space.write(f"/{sys.argv[2]}", sys.argv[2])
        """
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, url, str(number)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [(each.communicate(timeout=60)[1], each.returncode) for each in running] == [("", 0)] * 3
    with keelfs.open(url) as store:
        names = [each.name for each in store.tenant("many").space("session", "s").list("/").items]
        assert names == ["0", "1", "2"]
        assert store.check().ok


def test_the_kept_stores_are_small() -> None:
    assert sum(file.stat().st_size for file in DATA.iterdir()) < 300_000
