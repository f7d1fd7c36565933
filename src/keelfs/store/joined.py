"""Several changes that need no answer, as one statement of PostgreSQL.

Each statement that travels costs both ends as much as several changes inside one do. The parts of
a joined statement see the same snapshot and run in an order of the server's choosing, so only such
are joined as cannot tell: inserts and updates by key of rows that their transaction has locked
anyway, each of another table, or of other rows of one table where one call gave them together.

Who calls: `keelfs.store.postgres`, which sends them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from keelfs.store.database import Statement

#: Rows of one call that are joined; more of them travel faster by themselves.
FEW: Final = 4
#: Spaces share the rows of these tables, and lock them in the order of their ids.
_SHARED: Final = ("UPDATE contents", "UPDATE strands", "UPDATE tenants")
_JOINABLE: Final = re.compile(r"(?:INSERT INTO|UPDATE) (\w+) ")


@cache
def table_of(statement: Statement) -> str | None:
    """The table that a statement changes, if it may be joined with changes of others."""
    found = _JOINABLE.match(statement.pg)
    apart = statement.pg.startswith(_SHARED) or re.search(r"\b(SELECT|RETURNING)\b", statement.pg)
    return None if found is None or apart else found[1]


class Waiting:
    """Changes on their way into one statement."""

    def __init__(self) -> None:
        self._tables: set[str] = set()
        self._statements: list[Statement] = []
        self._params: list[Any] = []

    def accepts(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> bool:
        table = table_of(statement)
        return table is not None and table not in self._tables and 0 < len(rows) <= FEW

    def add(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        self._tables.add(table_of(statement) or "")
        for row in rows:
            self._statements.append(statement)
            self._params.extend(row)

    def taken(self) -> tuple[str, list[Any]] | None:
        """The statement and its parameters behind the tenant; nothing waits any more."""
        if not self._statements:
            return None
        text, params = _text(tuple(self._statements)), self._params
        self._tables, self._statements, self._params = set(), [], []
        return text, params


@cache
def _text(statements: tuple[Statement, ...]) -> str:
    """One statement out of several; the tenant stays the first parameter of all."""
    if len(statements) == 1:
        return statements[0].pg
    parts: list[str] = []
    taken = 0
    for number, statement in enumerate(statements):
        parts.append(f"p{number} AS ({_shifted(statement.pg, taken)})")
        taken += max(int(each) for each in re.findall(r"\$(\d+)", statement.pg)) - 1
    return f"WITH {', '.join(parts)} SELECT"


def _shifted(text: str, by: int) -> str:
    return re.sub(r"\$(\d+)", lambda at: f"${int(at[1]) + by}" if at[1] != "1" else "$1", text)
