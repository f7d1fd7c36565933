"""What an invariant is: a name, and a question whose answer must be empty.

An answer names spaces and nodes by their ids, never a path, a name or content: a report may be read
by people who may not read the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from keelfs.store.database import Row, Statement, Tx

#: Violations of one invariant that one report names; where there are more, mending comes first.
MOST_FINDINGS: Final = 100


def _nothing(tx: Tx, limit: int) -> list[Row]:
    del tx, limit
    return []


class Invariant(Struct, frozen=True):
    """One property of a tenant's rows."""

    name: str
    #: Says of each violation what is wrong; must not read more than `MOST_FINDINGS` asks for.
    violations: Callable[[Tx], Iterable[str]]
    #: Where it is wrong, for whoever mends it: the first column of a row is the space, content or
    #: strand, the second mostly the node.
    rows: Callable[[Tx, int], list[Row]] = _nothing


def asked(
    name: str,
    message: str,
    text: str,
    *,
    postgres: str | None = None,
    where: tuple[str, str] | None = None,
) -> Invariant:
    """An invariant that is one statement; `message` has a place for each column of its rows.

    `?1` is the tenant, `?2` how many rows are wanted. `where` is another statement that leads to
    the same violations by fewer rows, for mending, once for each database.
    """
    statement = Statement(
        f"{text} LIMIT ?2", postgres=None if postgres is None else f"{postgres} LIMIT ?2"
    )
    located = statement
    if where is not None:
        located = Statement(f"{where[0]} LIMIT ?2", postgres=f"{where[1]} LIMIT ?2")

    def violations(tx: Tx) -> Iterable[str]:
        return [message.format(*row) for row in tx.all(statement, MOST_FINDINGS)]

    def rows(tx: Tx, limit: int) -> list[Row]:
        return tx.all(located, limit)

    return Invariant(name, violations, rows)


def ids(parameter: int) -> str:
    """In a statement, the ids that `listed` has written into a parameter."""
    return f"(SELECT value FROM json_each(?{parameter}))"


def ids_pg(parameter: int) -> str:
    """The same for PostgreSQL, with the operator that goes before it."""
    return (
        "= ANY (ARRAY (SELECT x.value::bigint FROM"
        f" jsonb_array_elements_text((?{parameter}::text)::jsonb) AS x (value)))"
    )


def listed(numbers: Iterable[int]) -> str:
    """Ids as one parameter of a statement."""
    return f"[{','.join(map(str, sorted(set(numbers))))}]"
