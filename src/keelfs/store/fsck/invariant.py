"""What an invariant is: a name, and a question whose answer must be empty.

An answer names spaces and nodes by their ids, never a path, a name or content: a report may be read
by people who may not read the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from keelfs.store.database import Statement, Tx

#: Violations of one invariant that one report names; where there are more, mending comes first.
MOST_FINDINGS: Final = 100


class Invariant(Struct, frozen=True):
    """One property of a tenant's rows."""

    name: str
    #: Says of each violation what is wrong; must not read more than `MOST_FINDINGS` asks for.
    violations: Callable[[Tx], Iterable[str]]


def asked(name: str, message: str, text: str, *, postgres: str | None = None) -> Invariant:
    """An invariant that is one statement; `message` has a place for each column of its rows.

    `?1` is the tenant, `?2` how many rows are wanted.
    """
    statement = Statement(
        f"{text} LIMIT ?2", postgres=None if postgres is None else f"{postgres} LIMIT ?2"
    )

    def violations(tx: Tx) -> Iterable[str]:
        return [message.format(*row) for row in tx.all(statement, MOST_FINDINGS)]

    return Invariant(name, violations)
