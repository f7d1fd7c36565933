"""The walk of a path is a chain of primary-key probes, whenever the database planned it."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

import keelfs
from keelfs.store.postgres import ROLE
from keelfs.store.tree import CHILDREN, READ, WALK


@pytest.fixture
def plans_of_an_empty_store(postgres_url: str) -> Any:
    """Plans as the store's own connections make them before anything has been written."""
    keelfs.open(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for setting in (
            f"SET ROLE {ROLE}",
            "SET plan_cache_mode = force_generic_plan",
            "SET keelfs.tenant = '1'",
        ):
            connection.execute(setting)

        def conditions(sql: str, types: list[str], values: list[str]) -> list[tuple[str, str]]:
            connection.execute(f"PREPARE asked ({', '.join(types)}) AS {sql}")
            rows = connection.execute(f"EXPLAIN EXECUTE asked ({', '.join(values)})").fetchall()
            text = "\n".join(row[0] for row in rows)
            assert "Seq Scan" not in text
            return re.findall(r"Scan using \w+ on (\w+).*\n\s+Index Cond: (.*)", text)

        yield conditions


@pytest.mark.parametrize("statements", [WALK, READ])
@pytest.mark.parametrize("depth", [1, 4, 16])
def test_postgres_probes_by_whole_keys(
    plans_of_an_empty_store: Any, statements: list[Any], depth: int
) -> None:
    types = ["bigint"] * 3 + ["text"] * depth
    found = plans_of_an_empty_store(statements[depth].pg, types, ["1"] * 3 + ["'a'"] * depth)
    entries = [condition for table, condition in found if table == "entries"]
    nodes = [condition for table, condition in found if table == "nodes"]
    assert len(entries) == depth
    assert all("parent = " in each and "name = " in each for each in entries)
    assert len(nodes) == 1
    assert "(id = " in nodes[0]


def test_postgres_lists_by_whole_keys(plans_of_an_empty_store: Any) -> None:
    types = ["bigint"] * 3 + ["text", "bigint"]
    found = dict(plans_of_an_empty_store(CHILDREN.pg, types, ["1", "1", "1", "''", "100"]))
    assert "parent = " in found["entries"]
    assert "id = e.node" in found["nodes"]
