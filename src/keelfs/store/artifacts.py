"""What the files of a conversation are to its tenant: numbers, paths, and one sum.

All of it is settled inside the transaction that changes the tree, as the last act of its work. So
it makes no difference by which door a file came, and no path, limit or kind of node that artifacts
may not have gets past any of them. What a path leads to at the end of the transaction is asked of
the tree itself.

Lock order: spaces by id, artifacts, then the tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from keelfs.artifactpath import artifact_path
from keelfs.errors import InvalidPath, QuotaExceeded, Unsupported
from keelfs.model import ARTIFACTS
from keelfs.path import VPath
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.scope import Scope, SpaceRow
from keelfs.store.tree import DIRECTORY, FILE, ROOT

LOCK_BOOK: Final = Statement(
    "SELECT next_artifact, artifact_bytes FROM tenants WHERE id = ?1",
    postgres="SELECT next_artifact, artifact_bytes FROM tenants WHERE id = ?1 FOR NO KEY UPDATE",
)
SAVE_BOOK: Final = Statement(
    "UPDATE tenants SET next_artifact = ?2, artifact_bytes = ?3 WHERE id = ?1"
)
#: Numbers the files of space ?2 whose nodes are as new as ?3, from ?4 on.
NUMBER: Final = Statement(
    """INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
       SELECT ?1, ?4 - 1 + row_number() OVER (ORDER BY n.id), n.space, n.id, NULL, ?5
         FROM nodes n WHERE n.tenant = ?1 AND n.space = ?2 AND n.id >= ?3 AND n.kind = 2""",
    postgres="""INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
       SELECT ?1, ?4::bigint - 1 + row_number() OVER (ORDER BY n.id), n.space, n.id, NULL,
              ?5::bigint
         FROM nodes n WHERE n.tenant = ?1 AND n.space = ?2 AND n.id >= ?3 AND n.kind = 2""",
)
LAST: Final = Statement("SELECT max(id) FROM artifacts WHERE tenant = ?1")
#: Node ?3 of space ?2 and all below it, with their paths from there.
BELOW: Final = Statement(
    """WITH RECURSIVE tree (id, path) AS (
           SELECT ?3, '' UNION ALL
           SELECT e.node, tree.path || '/' || e.name FROM tree CROSS JOIN entries e
             ON e.tenant = ?1 AND e.space = ?2 AND e.parent = tree.id)
       SELECT tree.id, n.kind, n.nlink, tree.path FROM tree CROSS JOIN nodes n
           ON n.tenant = ?1 AND n.space = ?2 AND n.id = tree.id""",
    postgres="""WITH RECURSIVE tree (id, path) AS (
           SELECT ?3::bigint, ''::text COLLATE "C" UNION ALL
           SELECT e.node, tree.path || '/' || e.name FROM tree
             CROSS JOIN LATERAL (SELECT node, name FROM entries
               WHERE tenant = ?1 AND space = ?2 AND parent = tree.id OFFSET 0) e)
       SELECT tree.id, n.kind, n.nlink, tree.path FROM tree
         CROSS JOIN LATERAL (SELECT kind, nlink FROM nodes
               WHERE tenant = ?1 AND space = ?2 AND id = tree.id OFFSET 0) n""",
)
HIDE: Final = Statement(
    "UPDATE artifacts SET path = NULL WHERE tenant = ?1 AND space = ?2 AND node = ?3"
)
SHOW: Final = Statement(
    """UPDATE artifacts SET path = ?4, updated_ns = ?5
       WHERE tenant = ?1 AND space = ?2 AND node = ?3"""
)
FORGET: Final = Statement("DELETE FROM artifacts WHERE tenant = ?1 AND space = ?2")
FORGET_ALL: Final = Statement("DELETE FROM artifacts WHERE tenant = ?1")
KIND: Final = Statement("SELECT kind FROM spaces WHERE tenant = ?1 AND id = ?2")


def settled_as(kind: str, settle: Callable[[Scope], None]) -> Callable[[Scope], None]:
    """How a space of this kind settles with its tenant."""
    if kind != ARTIFACTS:
        return settle

    def settle_both(scope: Scope) -> None:
        settle(scope)
        _settle(scope)

    return settle_both


def _settle(scope: Scope) -> None:
    row, before, tx = scope.row, scope.before, scope.tx
    hidden = [node for top in scope.gone for node, *_ in tx.all(BELOW, scope.space, top)]
    shown = dict(_shown(scope))
    grown = row.bytes + row.trash_bytes - before.bytes - before.trash_bytes
    if grown or row.next_node > before.next_node:
        _keep_book(scope, grown)
    # All are hidden first: two files that take each other's place never have one path at once.
    nodes = sorted({*hidden, *shown})
    tx.many(HIDE, [(scope.space, node) for node in nodes])
    tx.many(SHOW, [(scope.space, node, path, scope.now_ns) for node, path in sorted(shown.items())])


def _shown(scope: Scope) -> Iterator[tuple[int, str]]:
    """The files that lie at touched paths or below them now; refuses what cannot be artifacts."""
    from keelfs.store.tree import resolve
    from keelfs.store.view import View

    view = View(scope)
    for parts in sorted({parts for parts, _shared in scope.touched}):
        found = resolve(view, VPath(parts), follow=False).node
        if found is None:
            continue
        above = "/".join(parts)
        rows: list[Row] = [(found.id, found.kind, found.nlink, "")]
        if found.kind == DIRECTORY:
            rows = scope.tx.all(BELOW, scope.space, found.id)
        for node, kind, nlink, path in rows:
            if node != ROOT:
                whole = (above + path).removeprefix("/")
                _check(kind, nlink, whole)
                if kind == FILE:
                    yield node, whole


def _check(kind: int, nlink: int, path: str) -> None:
    if kind not in {FILE, DIRECTORY} or nlink > 1:
        raise Unsupported("artifacts are files and directories, each with one name")
    if "/".join(artifact_path(path).parts) != path:
        raise InvalidPath("a backslash separates the names of an artifact's path")


def _keep_book(scope: Scope, grown: int) -> None:
    """Adds to the tenant's sum, which may not pass its limit, and numbers what is new."""
    tx = scope.tx
    book = tx.one(LOCK_BOOK)
    assert book is not None
    limit = scope.limits.artifact_bytes
    if limit is not None and grown > 0 and book[1] + grown > limit:
        raise QuotaExceeded(
            f"all artifacts of a tenant may hold {limit} bytes, {book[1]} are used and this would"
            f" make it {book[1] + grown}",
            limit="tenant.artifact_bytes",
            size=limit,
            used=book[1],
        )
    number = book[0]
    if scope.row.next_node > scope.before.next_node:
        tx.do(NUMBER, scope.space, scope.before.next_node, number, scope.now_ns)
        number = max(number, 1 + ((tx.one(LAST) or (0,))[0] or 0))
    tx.do(SAVE_BOOK, number, book[1] + grown)


def forget(tx: Tx, space: int, row: SpaceRow) -> None:
    """Takes the artifacts of a deleted space out of its tenant's book; links to them expire."""
    kind = tx.one(KIND, space)
    if kind is None or kind[0] != ARTIFACTS:
        return
    tx.do(FORGET, space)
    book = tx.one(LOCK_BOOK)
    assert book is not None
    tx.do(SAVE_BOOK, book[0], book[1] - row.bytes - row.trash_bytes)
