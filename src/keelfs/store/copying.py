"""Copies that share bytes: of a file, of a directory, of a whole space.

A copied tree is rows, made by the database itself from the rows of the original; the contents only
count more references. Which node becomes which is marked in a table that is empty again when the
transaction ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keelfs.errors import InvalidArgument, IsADirectory
from keelfs.ident import uuid7
from keelfs.model import ChangeKind, Expect, Stat
from keelfs.path import VPath
from keelfs.store.content import Made
from keelfs.store.database import Statement
from keelfs.store.expect import check_expect
from keelfs.store.files import check_file_size, replaced
from keelfs.store.names import (
    check_replaceable,
    clear_place,
    hang,
    make_parents,
    new_node,
    refuse_dangling,
)
from keelfs.store.scope import Scope
from keelfs.store.tree import DIRECTORY, FILE, NODE, ROOT, Node, Spot, resolve, stat_of

if TYPE_CHECKING:
    from keelfs.store.view import View

# What is joined here is joined in the order as it is written, each by its key (SQLite takes CROSS
# JOIN for that, PostgreSQL a lateral subquery that it may not unfold): neither knows how few marks
# there are, and left to choose they read all names of the space.

#: Marks node ?3 of space ?2 and all below it. Their copies get ids from ?4 on, or keep their ids in
#: another space when ?4 is 0.
MARK: Final = Statement(
    """INSERT INTO marks (tenant, space, node, becomes)
       WITH RECURSIVE tree (id) AS (
           SELECT ?3 UNION
           SELECT e.node FROM tree CROSS JOIN entries e
             ON e.tenant = ?1 AND e.space = ?2 AND e.parent = tree.id)
       SELECT ?1, ?2, id,
              CASE WHEN ?4 = 0 THEN id ELSE ?4 - 1 + row_number() OVER (ORDER BY id) END
         FROM tree""",
    postgres="""INSERT INTO marks (tenant, space, node, becomes)
       WITH RECURSIVE tree (id) AS (
           SELECT ?3::bigint UNION
           SELECT e.node FROM tree CROSS JOIN LATERAL (SELECT node FROM entries
             WHERE tenant = ?1 AND space = ?2 AND parent = tree.id OFFSET 0) e)
       SELECT ?1::bigint, ?2::bigint, id,
              CASE WHEN ?4::bigint = 0 THEN id
                   ELSE ?4::bigint - 1 + row_number() OVER (ORDER BY id) END
         FROM tree""",
)
MARKED: Final = Statement("SELECT count(*) FROM marks WHERE tenant = ?1 AND space = ?2")
UNMARK: Final = Statement("DELETE FROM marks WHERE tenant = ?1 AND space = ?2")
_KEPT: Final = """n.kind, n.mode, n.uid, n.gid, n.size, n.nlink, n.readonly, n.content, n.sha256,
        n.mime, n.target, n.rdev, n.xattrs, n.below_bytes, n.below_nodes, n.children, n.height,
        coalesce(p.becomes, n.parent)"""
_INTO: Final = """INSERT INTO nodes (tenant, space, id, uuid, kind, mode, uid, gid, size, nlink,
        readonly, content, sha256, mime, target, rdev, xattrs, below_bytes, below_nodes, children,
        height, parent, revision, first_revision, atime_ns, mtime_ns, ctime_ns, created_ns, author,
        revised_ns)"""
_FROM: Final = """FROM marks m
        CROSS JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = m.node
        LEFT JOIN marks p ON p.tenant = ?1 AND p.space = ?2 AND p.node = n.parent
        WHERE m.tenant = ?1 AND m.space = ?2 AND m.node <> ?5"""
_FROM_PG: Final = """FROM marks m
        CROSS JOIN LATERAL (SELECT * FROM nodes
             WHERE tenant = ?1 AND space = ?2 AND id = m.node OFFSET 0) n
        LEFT JOIN LATERAL (SELECT becomes FROM marks
             WHERE tenant = ?1 AND space = ?2 AND node = n.parent OFFSET 0) p ON true
        WHERE m.tenant = ?1 AND m.space = ?2 AND m.node <> ?5"""
#: Joining bytes gives text of the same bytes, which a strict column refuses.
_RANDOM: Final = "CAST(?4 || randomblob(7) AS BLOB)"
_RANDOM_PG: Final = "?4::bytea || substring(uuid_send(gen_random_uuid()) FROM 10 FOR 7)"
_SAME: Final = """n.revision, n.revision, n.atime_ns, n.mtime_ns, n.ctime_ns, n.created_ns,
        n.author, n.revised_ns"""
#: Copies the marked nodes, but for ?5, into space ?3. ?4 begins every new identity.
CLONE_NODES: Final = Statement(
    f"{_INTO} SELECT ?1, ?3, m.becomes, {_RANDOM}, {_KEPT}, {_SAME} {_FROM}",
    postgres=f"""{_INTO} SELECT ?1::bigint, ?3::bigint, m.becomes, {_RANDOM_PG}, {_KEPT}, {_SAME}
                 {_FROM_PG}""",
)
#: The same as new files: first revisions of author ?7 at time ?6.
COPY_NODES: Final = Statement(
    f"{_INTO} SELECT ?1, ?3, m.becomes, {_RANDOM}, {_KEPT}, 1, 1, ?6, ?6, ?6, ?6, ?7, ?6 {_FROM}",
    postgres=f"""{_INTO} SELECT ?1::bigint, ?3::bigint, m.becomes, {_RANDOM_PG}, {_KEPT}, 1, 1,
                 ?6::bigint, ?6::bigint, ?6::bigint, ?6::bigint, ?7::text, ?6::bigint
                 {_FROM_PG}""",
)
COPY_ENTRIES: Final = Statement(
    """INSERT INTO entries (tenant, space, parent, name, node, shared)
       SELECT ?1, ?3, m.becomes, e.name, c.becomes, e.shared
         FROM marks m
         CROSS JOIN entries e ON e.tenant = ?1 AND e.space = ?2 AND e.parent = m.node
         CROSS JOIN marks c ON c.tenant = ?1 AND c.space = ?2 AND c.node = e.node
        WHERE m.tenant = ?1 AND m.space = ?2""",
    postgres="""INSERT INTO entries (tenant, space, parent, name, node, shared)
       SELECT ?1::bigint, ?3::bigint, m.becomes, e.name, c.becomes, e.shared
         FROM marks m
         CROSS JOIN LATERAL (SELECT name, node, shared FROM entries
              WHERE tenant = ?1 AND space = ?2 AND parent = m.node OFFSET 0) e
         CROSS JOIN LATERAL (SELECT becomes FROM marks
              WHERE tenant = ?1 AND space = ?2 AND node = e.node OFFSET 0) c
        WHERE m.tenant = ?1 AND m.space = ?2""",
)
#: Nodes of space ?2 with ids from ?3 to ?4 hold their contents.
REFER_COPIES: Final = Statement(
    """UPDATE contents SET refs = refs + held.times, freed_ns = NULL
      FROM (SELECT content, count(*) AS times FROM nodes
             WHERE tenant = ?1 AND space = ?2 AND id BETWEEN ?3 AND ?4 AND content IS NOT NULL
             GROUP BY content ORDER BY content) AS held
     WHERE contents.tenant = ?1 AND contents.id = held.content"""
)
#: A hard link that leads out of the copied tree is not copied with it.
COUNT_NAMES: Final = Statement(
    """UPDATE nodes SET nlink = (SELECT count(*) FROM entries e
            WHERE e.tenant = ?1 AND e.space = ?2 AND e.node = nodes.id AND e.shared = 1)
     WHERE tenant = ?1 AND space = ?2 AND id BETWEEN ?3 AND ?4 AND nlink > 1"""
)
BECOMES: Final = Statement(
    "SELECT becomes FROM marks WHERE tenant = ?1 AND space = ?2 AND node = ?3"
)
#: The top of a copied tree hangs by the entry that its maker writes.
UNHANG_TOP: Final = Statement(
    "UPDATE nodes SET parent = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3"
)

#: The root exists in every space; it takes what the other one has.
ROOT_LIKE: Final = Statement(
    """UPDATE nodes SET children = i.children, height = i.height, mode = i.mode,
              uid = i.uid, gid = i.gid, xattrs = i.xattrs, mtime_ns = i.mtime_ns
         FROM nodes i WHERE nodes.tenant = ?1 AND nodes.space = ?3 AND nodes.id = 1
          AND i.tenant = ?1 AND i.space = ?2 AND i.id = 1"""
)


def copy(
    view: View,
    path: VPath,
    to: VPath,
    replace: bool,
    recursive: bool,
    parents: bool,
    expect: Expect,
) -> Stat:
    source = resolve(view, path)
    node = source.found
    if node.kind == DIRECTORY and not recursive:
        raise IsADirectory("pass recursive=True to copy a directory")
    spot = resolve(view, to, follow=False)
    if spot.node is not None and spot.node.id == node.id:
        check_expect(spot.node, expect)
        return stat_of(node)
    if node.kind == DIRECTORY and (node.id in spot.chain or node.id == ROOT):
        raise InvalidArgument("a directory cannot be copied into itself")
    check_expect(spot.node, expect)
    if spot.node is not None:
        check_replaceable(spot, spot.node, node, replace)
        if spot.node.kind == FILE and node.kind == FILE:
            return _copy_onto(view, node, spot, spot.node)
        clear_place(view, spot, spot.node, node, replace)
    refuse_dangling(spot, parents)
    if node.kind == FILE:
        check_file_size(view, node.size)
    make_parents(view, spot, parents)
    copied = _copy_tree(view, node, spot) if node.kind == DIRECTORY else _copy_one(view, node, spot)
    view.scope.record(ChangeKind.COPY, source.parts, copied, to=spot.parts)
    view.scope.touch(spot.parts, copied)
    return stat_of(copied)


def _copy_onto(view: View, node: Node, spot: Spot, there: Node) -> Stat:
    check_file_size(view, node.size)
    view.scope.refer(node.content, +1)
    made = Made(node.content, node.size, node.sha256)
    return replaced(view, spot, there, made, mime=node.mime or "")


def _copy_one(view: View, node: Node, spot: Spot) -> Node:
    copied = new_node(view, node.kind, node.mode)
    for name in ("uid", "gid", "size", "readonly", "content", "sha256", "mime", "target", "rdev",
                 "xattrs"):  # fmt: skip
        setattr(copied, name, getattr(node, name))
    view.scope.refer(copied.content, +1)
    hang(view, spot.chain, spot.parts, copied, new=True)
    return copied


def _copy_tree(view: View, node: Node, spot: Spot) -> Node:
    scope, tx, space = view.scope, view.tx, view.space
    scope.refuse_many(node.below_nodes + 1)
    scope.flush_directories()
    scope.flush_references()
    first = scope.row.next_node
    tx.do(MARK, space, node.id, first)
    count = (tx.one(MARKED, space) or (0,))[0]
    scope.new_node(count)
    beginning = uuid7(scope.now_ns)[:9]
    tx.do(COPY_NODES, space, space, beginning, 0, scope.now_ns, scope.author)
    tx.do(COPY_ENTRIES, space, space)
    top = (tx.one(BECOMES, space, node.id) or (0,))[0]
    tx.do(UNMARK, space)
    adopt(scope, space, first, first + count - 1)
    row = tx.one(NODE, space, top)
    assert row is not None
    copied = Node(*row)
    tx.do(UNHANG_TOP, space, copied.id, spot.chain[-1])
    hang(view, spot.chain, spot.parts, copied, new=False)
    return copied


def adopt(scope: Scope, space: int, first: int, last: int) -> None:
    """Makes copied nodes hold their contents, and count their names within the copy."""
    scope.tx.do(REFER_COPIES, space, first, last)
    scope.tx.do(COUNT_NAMES, space, first, last)


def clone_space(scope: Scope, source: int, target: int) -> None:
    """Copies a whole tree into an empty space of the same tenant, whose root exists already."""
    tx = scope.tx
    tx.do(MARK, source, ROOT, 0)
    tx.do(CLONE_NODES, source, target, uuid7(scope.now_ns)[:9], ROOT)
    tx.do(COPY_ENTRIES, source, target)
    tx.do(UNMARK, source)
    tx.do(ROOT_LIKE, source, target)
    adopt(scope, target, 0, 2**62)
