"""What a deleted space leaves behind: its rows, taken away step by step.

A deleted space is out of reach already; nobody but the sweep writes to it. Its row goes last, and
is locked by each step, so that two sweeps at once take turns and each finds a table empty only when
it is.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from keelfs.store.database import Statement, Tx
from keelfs.store.scope import LOCK, REFER_CONTENT
from keelfs.store.spaces import DELETE_TENANT

DELETED_SPACE: Final = Statement(
    "SELECT id FROM spaces WHERE tenant = ?1 AND deleted_ns IS NOT NULL ORDER BY id LIMIT 1"
)
ENTRIES: Final = Statement(
    """DELETE FROM entries WHERE tenant = ?1 AND space = ?2 AND (parent, name) IN (
           SELECT parent, name FROM entries WHERE tenant = ?1 AND space = ?2
            ORDER BY parent, name LIMIT ?3) RETURNING node"""
)
REVISIONS: Final = Statement(
    """DELETE FROM revisions WHERE tenant = ?1 AND space = ?2 AND (node, revision) IN (
           SELECT node, revision FROM revisions WHERE tenant = ?1 AND space = ?2
            ORDER BY node, revision LIMIT ?3) RETURNING content"""
)
NODES: Final = Statement(
    """DELETE FROM nodes WHERE tenant = ?1 AND space = ?2 AND id IN (
           SELECT id FROM nodes WHERE tenant = ?1 AND space = ?2 ORDER BY id LIMIT ?3)
       RETURNING content"""
)
CHANGES: Final = Statement(
    """DELETE FROM changes WHERE tenant = ?1 AND space = ?2 AND seq IN (
           SELECT seq FROM changes WHERE tenant = ?1 AND space = ?2 ORDER BY seq LIMIT ?3)
       RETURNING seq"""
)
TRASH: Final = Statement(
    """DELETE FROM trash WHERE tenant = ?1 AND space = ?2 AND id IN (
           SELECT id FROM trash WHERE tenant = ?1 AND space = ?2 ORDER BY id LIMIT ?3)
       RETURNING id"""
)
REQUESTS: Final = Statement(
    """DELETE FROM requests WHERE tenant = ?1 AND space = ?2 AND key IN (
           SELECT key FROM requests WHERE tenant = ?1 AND space = ?2 ORDER BY key LIMIT ?3)
       RETURNING key"""
)
SPACE: Final = Statement("DELETE FROM spaces WHERE tenant = ?1 AND id = ?2")
#: A deleted tenant goes when nothing of it is left.
LEFT: Final = Statement(
    """SELECT EXISTS (SELECT 1 FROM spaces WHERE tenant = ?1)
           OR EXISTS (SELECT 1 FROM contents WHERE tenant = ?1 AND freed_ns IS NOT NULL)
           OR EXISTS (SELECT 1 FROM strands WHERE tenant = ?1 AND freed_ns IS NOT NULL)"""
)


def step(tx: Tx, *, space: int, now_ns: int, rows: int) -> int:
    """Takes away at most `rows` rows of one table; how many nodes were among them.

    Names go before the nodes they lie in, revisions before the node they belong to.
    """
    if tx.one(LOCK, space) is None:
        return 0
    if tx.all(ENTRIES, space, rows):
        return 0
    if _released(tx, REVISIONS, space, now_ns, rows):
        return 0
    nodes = _released(tx, NODES, space, now_ns, rows)
    if nodes:
        return nodes
    for statement in (CHANGES, TRASH, REQUESTS):
        if tx.all(statement, space, rows):
            return 0
    tx.do(SPACE, space)
    return 0


def _released(tx: Tx, statement: Statement, space: int, now_ns: int, rows: int) -> int:
    """Deletes rows that hold contents, and lets go of those."""
    deleted = tx.all(statement, space, rows)
    held = Counter(row[0] for row in deleted if row[0] is not None)
    tx.many(REFER_CONTENT, [(id_, -count, now_ns) for id_, count in sorted(held.items())])
    return len(deleted)


def forget_tenant(tx: Tx) -> None:
    """Removes the last row of a deleted tenant, unless contents still wait out their grace."""
    left = tx.one(LEFT)
    if left is not None and not left[0]:
        tx.do(DELETE_TENANT)
