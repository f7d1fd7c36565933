"""Making a space's tree what an image holds, by sets of rows.

Node ids are never used twice, and an image keeps the ids of what it copied: a node that stands in
both trees is the same node. Those keep their identity and history; what only the image holds comes
back as new nodes; what only the tree held goes, unless the trash still has a name of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keelfs.ident import uuid7
from keelfs.store.copying import MARK, REFER_COPIES, UNMARK
from keelfs.store.database import Statement
from keelfs.store.files import UPDATE_FILE, keep_former
from keelfs.store.tree import COLUMNS, NODE, ROOT, Node, names_of

if TYPE_CHECKING:
    from keelfs.store.view import View

PAGE: Final = 1000

#: What only image ?3 holds comes back under new ids, from ?4 on.
MARK_MISSING: Final = Statement(
    """INSERT INTO marks (tenant, space, node, becomes)
       SELECT ?1, ?2, i.id, ?4 - 1 + row_number() OVER (ORDER BY i.id) FROM nodes i
        WHERE i.tenant = ?1 AND i.space = ?3 AND i.id > 3
          AND NOT EXISTS (SELECT 1 FROM marks m
                           WHERE m.tenant = ?1 AND m.space = ?2 AND m.node = i.id)""",
    postgres="""INSERT INTO marks (tenant, space, node, becomes)
       SELECT ?1::bigint, ?2::bigint, i.id, ?4::bigint - 1 + row_number() OVER (ORDER BY i.id)
         FROM nodes i
        WHERE i.tenant = ?1 AND i.space = ?3 AND i.id > 3
          AND NOT EXISTS (SELECT 1 FROM marks m
                           WHERE m.tenant = ?1 AND m.space = ?2 AND m.node = i.id)""",
)
MISSING: Final = Statement(
    "SELECT count(*) FROM marks WHERE tenant = ?1 AND space = ?2 AND node <> becomes"
)
CUT_ENTRIES: Final = Statement(
    """DELETE FROM entries WHERE tenant = ?1 AND space = ?2
        AND parent IN (SELECT node FROM marks WHERE tenant = ?1 AND space = ?2
                        AND node = becomes)"""
)
#: Marked nodes that the image does not hold and that have no name left in the trash.
_LOST: Final = """SELECT m.node FROM marks m WHERE m.tenant = ?1 AND m.space = ?2
        AND m.node = m.becomes
        AND NOT EXISTS (SELECT 1 FROM nodes i
                         WHERE i.tenant = ?1 AND i.space = ?3 AND i.id = m.node)
        AND NOT EXISTS (SELECT 1 FROM entries e
                         WHERE e.tenant = ?1 AND e.space = ?2 AND e.node = m.node
                           AND e.shared = 1)"""
_HELD: Final = f"""SELECT content FROM nodes WHERE tenant = ?1 AND space = ?2
           AND id IN ({_LOST})
         UNION ALL
         SELECT content FROM revisions WHERE tenant = ?1 AND space = ?2
           AND node IN ({_LOST})"""
RELEASE: Final = Statement(
    f"""UPDATE contents SET refs = refs - held.times,
               freed_ns = CASE WHEN refs = held.times THEN ?4 ELSE NULL END
          FROM (SELECT content, count(*) AS times FROM ({_HELD}) AS each_one
                 WHERE content IS NOT NULL GROUP BY content ORDER BY content) AS held
         WHERE contents.tenant = ?1 AND contents.id = held.content""",
    postgres=f"""UPDATE contents SET refs = refs - held.times,
               freed_ns = CASE WHEN refs = held.times THEN ?4::bigint ELSE NULL END
          FROM (SELECT content, count(*) AS times FROM ({_HELD}) AS each_one
                 WHERE content IS NOT NULL GROUP BY content ORDER BY content) AS held
         WHERE contents.tenant = ?1 AND contents.id = held.content""",
)
LOST_HISTORY: Final = Statement(
    f"""SELECT coalesce(sum(size), 0) FROM revisions
         WHERE tenant = ?1 AND space = ?2 AND node IN ({_LOST})""",
    postgres=f"""SELECT coalesce(sum(size), 0)::bigint FROM revisions
         WHERE tenant = ?1 AND space = ?2 AND node IN ({_LOST})""",
)
DROP_REVISIONS: Final = Statement(
    f"DELETE FROM revisions WHERE tenant = ?1 AND space = ?2 AND node IN ({_LOST})"
)
DROP_NODES: Final = Statement(
    f"DELETE FROM nodes WHERE tenant = ?1 AND space = ?2 AND id IN ({_LOST})"
)
#: Files in both trees whose bytes differ.
CHANGED: Final = Statement(
    f"""SELECT i.content, i.size, i.sha256, {", ".join(f"n.{name}" for name in COLUMNS)}
          FROM marks m
          JOIN nodes i ON i.tenant = ?1 AND i.space = ?3 AND i.id = m.node
          JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = m.node
         WHERE m.tenant = ?1 AND m.space = ?2 AND m.node > ?4 AND m.node = m.becomes AND n.kind = 2
           AND (coalesce(i.content, 0) <> coalesce(n.content, 0))
         ORDER BY m.node LIMIT ?5"""
)
_ATTRIBUTES: Final = """mode = i.mode, uid = i.uid, gid = i.gid, readonly = i.readonly,
           mime = i.mime, xattrs = i.xattrs, atime_ns = i.atime_ns, mtime_ns = i.mtime_ns,
           ctime_ns = ?4, nlink = i.nlink, below_bytes = i.below_bytes,
           below_nodes = i.below_nodes, children = i.children,
           height = i.height"""
#: What both trees hold takes the image's attributes.
SET_BACK: Final = Statement(
    f"""UPDATE nodes SET {_ATTRIBUTES}, parent = coalesce(
               (SELECT becomes FROM marks
                 WHERE tenant = ?1 AND space = ?2 AND node = i.parent), i.parent)
          FROM nodes i
         WHERE nodes.tenant = ?1 AND nodes.space = ?2
           AND nodes.id IN (SELECT node FROM marks
                             WHERE tenant = ?1 AND space = ?2 AND node = becomes)
           AND i.tenant = ?1 AND i.space = ?3 AND i.id = nodes.id"""
)
_FRESH: Final = ", ".join(
    "coalesce(p.becomes, i.parent)" if name == "parent" else f"i.{name}" for name in COLUMNS[2:]
)
_MISSING: Final = """FROM marks m
          JOIN nodes i ON i.tenant = ?1 AND i.space = ?3 AND i.id = m.node
          LEFT JOIN marks p ON p.tenant = ?1 AND p.space = ?2 AND p.node = i.parent
         WHERE m.tenant = ?1 AND m.space = ?2 AND m.node <> m.becomes"""
_MISSING_PG: Final = """FROM marks m
         CROSS JOIN LATERAL (SELECT * FROM nodes
               WHERE tenant = ?1 AND space = ?3 AND id = m.node OFFSET 0) i
          LEFT JOIN LATERAL (SELECT becomes FROM marks
               WHERE tenant = ?1 AND space = ?2 AND node = i.parent OFFSET 0) p ON true
         WHERE m.tenant = ?1 AND m.space = ?2 AND m.node <> m.becomes"""
#: ?4 begins every new identity.
BRING_BACK: Final = Statement(
    f"""INSERT INTO nodes (tenant, space, {", ".join(COLUMNS)})
        SELECT ?1, ?2, m.becomes, CAST(?4 || randomblob(7) AS BLOB), {_FRESH} {_MISSING}""",
    postgres=f"""INSERT INTO nodes (tenant, space, {", ".join(COLUMNS)})
        SELECT ?1::bigint, ?2::bigint, m.becomes,
               ?4::bytea || substring(uuid_send(gen_random_uuid()) FROM 10 FOR 7), {_FRESH}
               {_MISSING_PG}""",
)
NAME_BACK: Final = Statement(
    """INSERT INTO entries (tenant, space, parent, name, node, shared)
        SELECT ?1, ?2, p.becomes, e.name, c.becomes, e.shared
          FROM entries e
          JOIN marks p ON p.tenant = ?1 AND p.space = ?2 AND p.node = e.parent
          JOIN marks c ON c.tenant = ?1 AND c.space = ?2 AND c.node = e.node
         WHERE e.tenant = ?1 AND e.space = ?3""",
    postgres="""INSERT INTO entries (tenant, space, parent, name, node, shared)
        SELECT ?1::bigint, ?2::bigint, p.becomes, e.name, c.becomes, e.shared
          FROM entries e
         CROSS JOIN LATERAL (SELECT becomes FROM marks
               WHERE tenant = ?1 AND space = ?2 AND node = e.parent OFFSET 0) p
         CROSS JOIN LATERAL (SELECT becomes FROM marks
               WHERE tenant = ?1 AND space = ?2 AND node = e.node OFFSET 0) c
         WHERE e.tenant = ?1 AND e.space = ?3""",
)
SHARE: Final = Statement(
    """UPDATE entries SET shared = 1 WHERE tenant = ?1 AND space = ?2 AND shared = 0
          AND node IN (SELECT node FROM entries
                        WHERE tenant = ?1 AND space = ?2 AND shared = 1)"""
)
COUNT_NAMES: Final = Statement(
    """UPDATE nodes SET nlink = (SELECT count(*) FROM entries e
              WHERE e.tenant = ?1 AND e.space = ?2 AND e.node = nodes.id AND e.shared = 1)
        WHERE tenant = ?1 AND space = ?2
          AND id IN (SELECT node FROM entries
                      WHERE tenant = ?1 AND space = ?2 AND shared = 1)"""
)
TOTALS: Final = Statement(
    "SELECT bytes, nodes FROM snapshots WHERE tenant = ?1 AND space = ?2 AND image = ?3"
)


def return_to(view: View, image: int) -> None:
    """Makes the tree of the view's space what the image holds."""
    tx, scope, space = view.tx, view.scope, view.space
    tx.do(MARK, space, ROOT, 0)
    first = scope.row.next_node
    tx.do(MARK_MISSING, space, image, first)
    missing = (tx.one(MISSING, space) or (0,))[0]
    scope.new_node(missing)
    tx.do(CUT_ENTRIES, space)
    _set_contents_back(view, image)
    _drop_lost(view, image)
    tx.do(SET_BACK, space, image, scope.now_ns)
    tx.do(BRING_BACK, space, image, uuid7(scope.now_ns)[:9])
    tx.do(REFER_COPIES, space, first, first + missing - 1)
    tx.do(NAME_BACK, space, image)
    tx.do(SHARE, space)
    tx.do(COUNT_NAMES, space)
    tx.do(UNMARK, space)
    totals = tx.one(TOTALS, space, image)
    assert totals is not None
    scope.row.bytes, scope.row.nodes = totals
    row = tx.one(NODE, space, ROOT)
    assert row is not None
    scope.touch((), Node(*row))


def _drop_lost(view: View, image: int) -> None:
    tx, scope, space = view.tx, view.scope, view.space
    history = tx.one(LOST_HISTORY, space, image)
    scope.row.history_bytes -= history[0] if history else 0
    tx.do(RELEASE, space, image, scope.now_ns)
    tx.do(DROP_REVISIONS, space, image)
    tx.do(DROP_NODES, space, image)


def _set_contents_back(view: View, image: int) -> None:
    """One revision more for each file whose bytes differ, page by page."""
    after = 0
    while True:
        rows = view.tx.all(CHANGED, view.space, image, after, PAGE)
        for content, size, sha256, *columns in rows:
            node = Node(*columns)
            after = node.id
            _set_content_back(view, node, content, size, sha256)
        if len(rows) < PAGE:
            return


def _set_content_back(
    view: View, node: Node, content: int | None, size: int, sha256: bytes | None
) -> None:
    scope = view.scope
    scope.refer(content, +1)
    if node.nlink > 1:
        # The names that are left lie in the trash.
        for chain, _parts in names_of(view, node):
            scope.charge(chain, size - node.size, 0)
    keep_former(view, node)
    view.tx.do(
        UPDATE_FILE, view.space, node.id, size, node.revision + 1, node.first_revision, content,
        sha256, node.mime, scope.now_ns, scope.author,
    )  # fmt: skip
