"""What must be true of every statement of the store, asked of all of them.

Each prepares on both databases, binds its tenant wherever it reads or writes, and finds its rows by
an index. None is assembled while the program runs, and none compares names by a pattern.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import keelfs.store
from databases import TABLES, Opened
from keelfs.store.database import BOUND, Statement
from keelfs.store.fsck.invariant import Invariant
from keelfs.store.postgres import ROLE
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import EXERCISES, prepare

STORE = Path(str(keelfs.store.__file__)).parent
#: What looks at everything that a tenant has, and may read whole tables for it.
WHOLE = {
    "keelfs.store.fsck": "every invariant is asked of all rows",
    "keelfs.store.stats": "rows are counted",
}
#: The only ones that do without a tenant.
OPERATORS = {"TENANT", "TENANTS", "NEW_TENANT"}
#: On PostgreSQL as the store's own connections are, with no way around an index but by need.
SETTINGS = (
    f"SET ROLE {ROLE}",
    "SET plan_cache_mode = force_generic_plan",
    "SET enable_seqscan = off",
    "SET keelfs.tenant = '1'",
)
_TABLE = "|".join((*TABLES, "tenants"))
_REFERENCE = re.compile(
    rf"\b(FROM|JOIN|UPDATE|INTO) ({_TABLE})\b(?: AS)?(?: (?!SET|WHERE)([a-z]+[0-9]*))?"
)
_INSERT = re.compile(rf"INSERT INTO ({_TABLE}) \(([^)]*)\)")


def _modules() -> list[str]:
    found = [each.name for each in pkgutil.walk_packages(keelfs.store.__path__, "keelfs.store.")]
    for name in found:
        importlib.import_module(name)
    return found


MODULES = _modules()


def _origins() -> dict[int, str]:
    """Where each statement is defined, as far as a module holds it by a name."""
    found: dict[int, str] = {}

    def note(value: Any, name: str) -> None:
        if isinstance(value, Statement):
            found.setdefault(id(value), name)
        elif isinstance(value, list | tuple):
            for number, each in enumerate(value):  # pyright: ignore[reportUnknownVariableType]
                note(each, f"{name}[{number}]")
        elif isinstance(value, Invariant):
            for asks in (value.violations, value.rows):
                for each in inspect.getclosurevars(asks).nonlocals.values():
                    note(each, f"{name}.{value.name}")

    for module in MODULES:
        for name, value in vars(importlib.import_module(module)).items():
            note(value, f"{module}.{name}")
    return found


ORIGINS = _origins()


def origin(statement: Statement) -> str:
    return ORIGINS.get(id(statement), repr(statement))


def looks_at_all(statement: Statement) -> bool:
    return any(origin(statement).startswith(f"{module}.") for module in WHOLE)


def parameters(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"[?$](\d+)", text)}


def test_every_statement_is_found() -> None:
    assert len(Statement.all) > 150
    assert [repr(each) for each in Statement.all if id(each) not in ORIGINS] == []


@pytest.mark.parametrize("statement", Statement.all, ids=origin)
def test_both_texts_take_the_same_parameters(statement: Statement) -> None:
    assert parameters(statement.sqlite) == parameters(statement.pg)
    assert parameters(statement.sqlite) == set(range(1, len(parameters(statement.sqlite)) + 1))


def test_names_are_compared_and_never_matched() -> None:
    """`_` and `%` are letters of names, and SQLite's LIKE thinks that `A` is `a`."""
    pattern = re.compile(r"\b(LIKE|ILIKE|GLOB|REGEXP|SIMILAR|MATCH|NOCASE)\b|~", re.I)
    texts = {text for each in Statement.all for text in (each.sqlite, each.pg)}
    texts |= {file.read_text() for file in (STORE / "migrations").glob("*.sql")}
    plain = [re.sub(r"--.*", "", text) for text in texts]
    assert [text for text in plain if pattern.search(text)] == []


# -- the tenant


def unbound_tables(text: str) -> list[str]:
    """The tables that a text looks at without comparing their tenant with its first parameter."""
    text = text.replace("$", "?").replace("?1::bigint", "?1")
    if BOUND.replace("?1::bigint", "?1") in text:
        text = text.replace("o.tenant", "?1")
    inserted = {match.start(1) for match in _INSERT.finditer(text)}
    bare, lacking = Counter[str](), list[str]()
    for match in _REFERENCE.finditer(text):
        _word, table, alias = match.groups()
        column = "id" if table == "tenants" else "tenant"
        if match.start(2) in inserted:
            if not _inserts_tenant(text[match.start(2) :], column):
                lacking.append(f"INTO {table}")
        elif alias and alias.upper() not in _WORDS:
            if not re.search(rf"\b{alias}\.{column} = \?1(?!\d)", text):
                lacking.append(f"{table} {alias}")
        elif not re.search(rf"\b{table}\.{column} = \?1(?!\d)", text):
            bare[column] += 1
            if len(re.findall(rf"(?<![.\w]){column} = \?1(?!\d)", text)) < bare[column]:
                lacking.append(table)
    return lacking


_WORDS = {"ORDER", "GROUP", "LIMIT", "ON", "UNION", "EXCEPT", "JOIN", "LEFT", "OFFSET", "CROSS"}


def _inserts_tenant(text: str, column: str) -> bool:
    """Whether what is inserted as the tenant is the first parameter."""
    columns, _, rest = text.partition("(")[2].partition(")")
    place = [name.strip() for name in columns.split(",")].index(column)
    _before, values, listed = rest.partition("VALUES (")
    given = [listed] if values else rest.split("SELECT ")[1:]
    return any(
        [item.strip() for item in each.split(",")][place : place + 1] == ["?1"] for each in given
    )


@pytest.mark.parametrize("statement", Statement.all, ids=origin)
def test_the_tenant_is_bound_wherever_rows_are_touched(statement: Statement) -> None:
    if statement.unbound:
        assert len(statement.unbound.split()) > 3
        assert re.fullmatch(
            r"keelfs\.store\.spaces\.(TENANT|TENANTS|NEW_TENANT)", origin(statement)
        )
        assert "?1 = 0" in statement.sqlite, "only the operator, who is tenant 0, may"
        return
    assert 1 in parameters(statement.sqlite)
    assert unbound_tables(statement.sqlite) == []
    assert unbound_tables(statement.pg) == []


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("SELECT 1 FROM nodes WHERE space = ?2", ["nodes"]),
        ("SELECT 1 FROM nodes WHERE tenant = ?2 AND id = ?1", ["nodes"]),
        ("SELECT 1 FROM nodes WHERE tenant = ?12", ["nodes"]),
        (
            "SELECT 1 FROM nodes n JOIN entries e ON e.node = n.id WHERE n.tenant = ?1",
            ["entries e"],
        ),
        ("SELECT 1 FROM nodes WHERE tenant = ?1 AND id IN (SELECT node FROM entries)", ["entries"]),
        ("UPDATE nodes SET mode = ?2 WHERE id = ?3", ["nodes"]),
        ("DELETE FROM trash WHERE space = ?2", ["trash"]),
        ("INSERT INTO marks (space, tenant, node) VALUES (?1, ?2, ?3)", ["INTO marks"]),
        ("INSERT INTO marks (space, tenant, node) VALUES (?2, ?1, ?3)", []),
    ],
)
def test_a_tenant_that_is_not_bound_is_noticed(text: str, lacking: list[str]) -> None:
    assert unbound_tables(text) == lacking


# -- plans


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "store.db"
    Opened("sqlite", f"sqlite:///{path}").close()
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def postgres(postgres_cluster: PostgresCluster) -> Iterator[psycopg.Connection[Any]]:
    url = postgres_cluster.create_database()
    Opened("postgres", url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in SETTINGS:
            connection.execute(setting.encode())
        yield connection


def sqlite_plan(connection: apsw.Connection, text: str) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {text}", [1] * len(parameters(text)))
    return [str(row[3]) for row in rows]


def postgres_plan(connection: psycopg.Connection[Any], text: str) -> str:
    connection.execute(f"PREPARE asked AS {text}".encode())
    try:
        types = connection.execute(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'asked'"
        ).fetchone()
        assert types is not None
        values = ", ".join(f"NULL::{each}" for each in types[0])
        rows = connection.execute(f"EXPLAIN EXECUTE asked ({values})".encode()).fetchall()
        return "\n".join(row[0] for row in rows)
    finally:
        connection.execute("DEALLOCATE asked")


def names_of_tables(text: str) -> set[str]:
    """The tables of a statement and their aliases there, as plans call them."""
    found: set[str] = set()
    for _word, table, alias in _REFERENCE.findall(text):
        found |= {table, alias or table}
    return found


def weak_steps(steps: list[str], text: str) -> list[str]:
    """The steps of an SQLite plan that read a whole table, or rows of every tenant."""
    tables = names_of_tables(text)
    weak: list[str] = []
    for step in steps:
        word, _, rest = step.partition(" ")
        if word not in {"SCAN", "SEARCH"} or rest.split()[0] not in tables:
            continue
        if word == "SCAN" or not re.search(r"\(tenant=\?|rowid=\?|\(id=\?|\(name[=>]\?", rest):
            weak.append(step)
    return weak


@pytest.mark.parametrize("statement", Statement.all, ids=origin)
def test_sqlite_uses_an_index(sqlite: apsw.Connection, statement: Statement) -> None:
    steps = sqlite_plan(sqlite, statement.sqlite)
    if not looks_at_all(statement):
        assert weak_steps(steps, statement.sqlite) == []


@pytest.mark.parametrize("statement", Statement.all, ids=origin)
def test_postgres_uses_an_index(postgres: psycopg.Connection[Any], statement: Statement) -> None:
    plan = postgres_plan(postgres, statement.pg)
    assert "Seq Scan" not in plan
    conditions = re.findall(r"Index (?:Only )?Scan.*\n\s+Index Cond: (.*)", plan)
    assert len(conditions) == len(re.findall(r"Index (?:Only )?Scan", plan)), (
        "a whole index is read"
    )
    if not statement.unbound:
        assert [each for each in conditions if not re.search(r"tenant = |\(id = \$1", each)] == []


def test_a_scan_is_noticed(sqlite: apsw.Connection, postgres: psycopg.Connection[Any]) -> None:
    text = "SELECT c.id FROM contents c WHERE c.tenant = ?1 AND c.size = ?2"
    assert weak_steps(sqlite_plan(sqlite, text), text) == ["SCAN c"]
    text = "SELECT n.id FROM nodes n WHERE n.id = ?2 AND n.mode = ?1"
    assert weak_steps(sqlite_plan(sqlite, text), text) == ["SCAN n"]
    assert "Index Cond: (tenant" not in postgres_plan(
        postgres, "SELECT id FROM nodes WHERE id = $2 AND mode = $1"
    ).replace("Index Cond: (tenant = keelfs_tenant())", "")


# -- where the text comes from


def sql_made_while_running(source: str) -> list[str]:
    """Statements, and texts for a driver, that a function makes out of pieces."""
    found: list[str] = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            makes = name == "Statement" and function.__class__ is not ast.Lambda
            runs = name in {"execute", "executemany"} and isinstance(
                call.args[0], ast.JoinedStr | ast.BinOp
            )
            if makes or runs:
                found.append(f"{call.lineno}: {ast.unparse(call)[:60]}")
    return sorted(set(found))


#: Functions that make constants while their module is imported; and what no parameter can carry,
#: the settings of a connection and the role.
MAKERS = {"walk.py": "Statement", "listing.py": "Statement", "fsck/invariant.py": "Statement"}
SETTING = {"sqlite.py": "PRAGMA", "postgres.py": "GRANT"}


@pytest.mark.parametrize("file", sorted(STORE.rglob("*.py")), ids=lambda file: file.stem)
def test_no_sql_is_assembled_while_the_program_runs(file: Path) -> None:
    name = str(file.relative_to(STORE))
    may = MAKERS.get(name) or SETTING.get(name) or "nothing"
    assert [each for each in sql_made_while_running(file.read_text()) if may not in each] == []


def test_assembled_sql_is_noticed() -> None:
    assert sql_made_while_running("def f(n): return tx.one(Statement(f'SELECT {n}'))")
    assert sql_made_while_running("def f(n): cursor.execute('SELECT ' + n)")
    assert sql_made_while_running("def f(n): cursor.execute(f'SELECT {n}', ())")
    assert not sql_made_while_running("ONE = Statement(f'SELECT {COLUMNS}')")


def test_work_makes_no_statement(sqlite_url: str) -> None:
    opened = Opened("sqlite", sqlite_url)
    before = len(Statement.all)
    for exercise in EXERCISES.values():
        home = opened.space(opened.tenant())
        prepare(home.perform)
        home.perform(exercise.op(home.perform))
    opened.close()
    assert len(Statement.all) == before
