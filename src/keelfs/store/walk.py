"""The statement that walks a path: from a directory down, one primary-key probe per name.

A name that has entries below it is a directory, so the walk gives the id found at each level and
looks at no node but the deepest that exists.

PostgreSQL is not left to choose in which order, or by which columns, it looks: it plans a statement
once, perhaps while the tables are empty, and would then read all names of a space for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from keelfs.store.database import BOUND, Statement

_CONTENT: Final = ", c.extents, c.checksum, c.data, t.length"
_CONTENT_JOIN: Final = (
    " LEFT JOIN contents c ON c.tenant = ?1 AND c.id = n.content"
    " LEFT JOIN strands t ON t.tenant = ?1 AND t.id = c.tail"
)


def walk(depth: int, columns: Sequence[str], *, reading: bool = False) -> Statement:
    """The walk of `depth` names from directory ?3; `reading` adds the content of a file.

    It answers one row: the id of each level, then the columns of the deepest node.
    """
    ids = [f"e{level}.node" for level in range(1, depth + 1)]
    above = ["?3", *ids[:-1]]
    whole = ", ".join(f"n.{name}" for name in columns)
    select = f"SELECT {', '.join(ids)}, {whole}{_CONTENT if reading else ''}"
    join = _CONTENT_JOIN if reading else ""
    chained = [
        f"""LEFT JOIN entries e{level} ON e{level}.tenant = ?1 AND e{level}.space = ?2
              AND e{level}.parent = {parent} AND e{level}.name = ?{level + 3}"""
        for level, parent in enumerate(above, 1)
    ]
    chained.append(
        f"LEFT JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = {_deepest(ids)}"
    )
    ordered = [
        f"""LEFT JOIN LATERAL (SELECT node FROM entries WHERE tenant = ?1 AND space = ?2
              AND parent = {parent} AND name = ?{level + 3} OFFSET 0) e{level} ON true"""
        for level, parent in enumerate(above, 1)
    ]
    ordered.append(
        f"""LEFT JOIN LATERAL (SELECT {", ".join(columns)} FROM nodes
              WHERE tenant = ?1 AND space = ?2 AND id = {_deepest(ids)} OFFSET 0) n ON true"""
    )
    return Statement(
        f"{select} FROM (SELECT 1 AS one) o {' '.join(chained)}{join}",
        postgres=f"{select} FROM {BOUND} {' '.join(ordered)}{join}",
        binds=True,
    )


def _deepest(ids: Sequence[str]) -> str:
    """The last id that was found; the planner takes no COALESCE for the key of an index here."""
    found = "".join(f"WHEN {each} IS NOT NULL THEN {each} " for each in reversed(ids[1:]))
    return f"CASE {found}ELSE {ids[0]} END" if found else ids[0]
